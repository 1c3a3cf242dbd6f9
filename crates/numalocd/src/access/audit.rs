//! The audit log: who changed what. Each change, done or denied, is one log line with the target `audit`.

use super::{
    Caller,
    denials::{AuditRate, Denials},
};
use crate::refusal::{Refusal, status};
use std::time::Instant;

/// Most bytes of a name in a line, before characters that are not printable are escaped.
const NAME_MAX: usize = 256;

/// Logs that `caller` called `method` (such as `CreateJob`) on `subject`, and the result. `subject` is a resource name
/// or a short form of a target. A caller whose calls are refused again and again has a bounded number of lines
/// ([`super::denials`]).
pub fn change<T>(
    caller: &Caller,
    method: &'static str,
    subject: &str,
    result: &Result<T, Refusal>,
    denials: &Denials,
) {
    match result {
        Ok(_) => line(&caller.name, method, subject, None),
        Err(refusal) => {
            let calls = denials.count(&caller.name, method, AuditRate::Many, Instant::now());
            match calls {
                None => {}
                Some(1) => line(&caller.name, method, subject, Some(refusal)),
                Some(calls) => {
                    let subject = format!("{subject}, and {} calls before", calls - 1);
                    line(&caller.name, method, &subject, Some(refusal));
                }
            }
        }
    }
}

/// Logs that a registration of `creator` was removed because its lease was not renewed.
pub fn lease_ended(creator: &str, subject: &str) {
    line(creator, "LeaseEnded", subject, None);
}

/// Logs that a change was denied because of the caller's role, before the request was read. `calls`: how many the line
/// stands for, at most one line a minute ([`super::denials`]).
pub(super) fn denied(caller: &str, method: &str, refusal: &Refusal, calls: u64) {
    let subject = if calls > 1 { format!("{calls} calls") } else { String::new() };
    line(caller, method, &subject, Some(refusal));
}

fn line(caller: &str, method: &str, subject: &str, refusal: Option<&Refusal>) {
    let (caller, subject) = (printable(caller), printable(subject));
    match refusal {
        None => tracing::info!(target: "audit", caller, method, subject, result = "ok", "change"),
        Some(refusal) => {
            let result = format!("{:?}", status::code(refusal));
            let reason = status::reason(refusal);
            tracing::info!(target: "audit", caller, method, subject, result, reason, "change refused");
        }
    }
}

/// Text that others have chosen, cut and escaped, so that it can neither end a line nor fill the log.
fn printable(text: &str) -> String {
    status::cut(text, NAME_MAX).escape_debug().to_string()
}

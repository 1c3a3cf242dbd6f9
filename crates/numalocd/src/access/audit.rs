//! Who changed what: one line of the target `audit` for each change, done or denied.

use super::Caller;
use crate::{dispatch::Refusal, service::fault};

/// Bytes of a name in a line at most, before what is not printable is escaped.
const NAME_MAX: usize = 256;

/// Notes that `caller` called `method`, such as `CreateJob`, on `subject`, a resource name or a target in short, and what
/// came of it.
pub fn change<T>(caller: &Caller, method: &str, subject: &str, result: &Result<T, Refusal>) {
    line(&caller.name, method, subject, result.as_ref().err());
}

/// Notes that what `creator` had registered was forgotten, because nobody has renewed it.
pub fn lease_ended(creator: &str, subject: &str) {
    line(creator, "LeaseEnded", subject, None);
}

/// Notes that a change was denied before it was looked at.
pub(super) fn denied(caller: &str, method: &str, refusal: &Refusal) {
    line(caller, method, "", Some(refusal));
}

fn line(caller: &str, method: &str, subject: &str, refusal: Option<&Refusal>) {
    let (caller, subject) = (printable(caller), printable(subject));
    match refusal {
        None => tracing::info!(target: "audit", caller, method, subject, result = "ok", "change"),
        Some(refusal) => {
            let result = format!("{:?}", fault::code(refusal));
            let reason = fault::reason(refusal);
            tracing::info!(target: "audit", caller, method, subject, result, reason, "change refused");
        }
    }
}

/// What others have chosen, so that it can neither end a line nor fill the log.
fn printable(text: &str) -> String {
    fault::cut(text, NAME_MAX).escape_debug().to_string()
}

//! gRPC statuses as exit codes and one line of words.

use super::channel::{reason, unreachable};
use crate::exit::{Code as Exit, Failure};
use numaloc_api::DOMAIN;
use std::{error::Error, time::Duration};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// The failure that a status stands for.
pub fn failure(status: &Status, endpoint: &str) -> Failure {
    if is_lost(status) {
        let cause = status.source().map(reason);
        return unreachable(endpoint, cause.unwrap_or_else(|| message(status)));
    }
    let code = match status.code() {
        Code::FailedPrecondition if has_reason(status, "NO_TARGET_NODE") => {
            match about(status, "node").as_deref() {
                None => return Failure::NoTargetNode(message(status)),
                Some("only") => Exit::Failure,
                Some(_) => Exit::Usage,
            }
        }
        Code::NotFound => Exit::NotFound,
        Code::PermissionDenied | Code::Unauthenticated => Exit::Permission,
        Code::FailedPrecondition if has_reason(status, "DAEMON_LACKS_RIGHTS") => Exit::Permission,
        Code::InvalidArgument => Exit::Usage,
        Code::DeadlineExceeded => Exit::TimedOut,
        Code::Unimplemented => {
            let message = "this numalocd does not know the call: it is older than this numalocctl";
            return Failure::Refused { code: Exit::Failure, message: message.to_owned() };
        }
        _ => Exit::Failure,
    };
    Failure::Refused { code, message: message(status) }
}

/// Whether the connection failed or the daemon is stopping, so that a retry may help.
pub fn is_lost(status: &Status) -> bool {
    // A status from the daemon has no source; an error of the connection has one. HOST_UNAVAILABLE comes from a daemon
    // that can be reached: something else on its host gave no answer.
    let is_of_host = has_reason(status, "HOST_UNAVAILABLE");
    (status.code() == Code::Unavailable && !is_of_host) || status.source().is_some()
}

/// Whether the changes since are lost: a watch begins again.
pub fn is_forgotten(status: &Status) -> bool {
    has_reason(status, "CURSOR_OUT_OF_RANGE")
}

/// Time that the daemon asks to wait before the call is made again.
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info()?.retry_delay
}

fn has_reason(status: &Status, reason: &str) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.domain == DOMAIN && info.reason == reason)
}

/// The value of this name in an error's metadata.
fn about(status: &Status, key: &str) -> Option<String> {
    status.get_details_error_info()?.metadata.remove(key)
}

/// The message, with the violations of all fields.
fn message(status: &Status) -> String {
    let said = match status.message() {
        "" => format!("numalocd answered {:?}", status.code()),
        said => said.to_owned(),
    };
    let violations = status.get_details_bad_request().map(|bad| bad.field_violations);
    let violations = violations.unwrap_or_default();
    let each = violations.iter().map(|each| format!("{} {}", each.field, each.description));
    let fields = each.collect::<Vec<_>>().join("; ");
    match violations.first() {
        None => said,
        // The daemon's message begins with the first violation, so `fields` has all of it.
        Some(first) if said.starts_with(&first.field) => fields,
        Some(_) => format!("{said}: {fields}"),
    }
}

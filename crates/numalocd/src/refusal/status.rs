//! The one place where refusals become gRPC statuses.
//!
//! Each status carries a google.rpc.ErrorInfo with the reason as in `numaloc.v1.ErrorReason`, and metadata about what
//! it concerns, as far as known: `resource` (a name), `etag`, `state` and `action`, `request_id`, `field`, `node`,
//! `ceiling` and `most`, `oldest` and `last`, or `caller` and `limit`. If the message says everything, the metadata are
//! empty.

#[cfg(test)]
mod tests;

use super::{Refusal, Unfit};
use numaloc_api::{DOMAIN, v1::ErrorReason};
use std::{borrow::Cow, collections::HashMap, fmt::Display, time::Duration};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, QuotaViolation, StatusExt};

/// Most bytes of a message. It is sent twice, in the worst case three times as long, and clients accept 8 KiB of
/// headers.
const MESSAGE_MAX: usize = 1000;

/// Most bytes of one value in metadata and details.
const VALUE_MAX: usize = 200;

/// Time that clients are asked to wait before they try again, while the daemon, or what it has to ask, starts or stops.
const RESTART: Duration = Duration::from_secs(1);

/// Longest of the random waits (RetryInfo) before a client may begin its watch again. After a restart of the daemon all
/// watches begin again at once.
const SPREAD: Duration = Duration::from_secs(5);

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::Invalid(violations) = refusal {
            return violations.into();
        }
        if let Refusal::Internal { message } = &refusal {
            tracing::error!(%message, "a call failed: the host could not be read, or this is a bug");
        }
        let (code, _) = class(&refusal);
        let message = cut(&refusal.to_string(), MESSAGE_MAX).into_owned();
        let metadata = about(&refusal)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), cut(&value, VALUE_MAX).into_owned()))
            .collect::<HashMap<_, _>>();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason(&refusal), DOMAIN, metadata);
        match refusal {
            Refusal::PageToken => {
                details.add_bad_request_violation("page_token", message.as_str());
            }
            Refusal::Quota { what, limit, caller } => {
                details.set_quota_failure(quota(&caller, format!("{limit} {what}")));
            }
            Refusal::TooFast { what, limit, caller, retry_after } => {
                details.set_quota_failure(quota(&caller, format!("{limit} {what}")));
                details.set_retry_info(Some(retry_after));
            }
            Refusal::Unavailable { .. } | Refusal::HostUnavailable { .. } => {
                details.set_retry_info(Some(RESTART));
            }
            Refusal::ResumeToken => {
                details.set_retry_info(Some(SPREAD.mul_f64(fastrand::f64())));
            }
            _ => {}
        }
        Self::with_error_details(code, message, details)
    }
}

pub fn code(refusal: &Refusal) -> Code {
    class(refusal).0
}

/// The reason of a refusal, as its ErrorInfo has it.
pub fn reason(refusal: &Refusal) -> &'static str {
    let name = class(refusal).1.as_str_name();
    name.strip_prefix("ERROR_REASON_").unwrap_or(name)
}

fn class(refusal: &Refusal) -> (Code, ErrorReason) {
    use ErrorReason as R;
    match refusal {
        Refusal::Invalid(_) | Refusal::PageToken => (Code::InvalidArgument, R::InvalidField),
        Refusal::TooLarge { .. } => (Code::InvalidArgument, R::RequestTooLarge),
        Refusal::Cursor { .. } | Refusal::ResumeToken => (Code::OutOfRange, R::CursorOutOfRange),
        Refusal::NotFound { .. } => (Code::NotFound, R::ResourceNotFound),
        Refusal::TargetNotFound { .. } => (Code::NotFound, R::TargetNotFound),
        Refusal::TargetEmpty { .. } => (Code::FailedPrecondition, R::TargetEmpty),
        Refusal::NoTargetNode { .. } => (Code::FailedPrecondition, R::NoTargetNode),
        Refusal::HostCannot { .. } => (Code::FailedPrecondition, R::HostCannot),
        Refusal::WrongState { .. } | Refusal::NotEnded { .. } => {
            (Code::FailedPrecondition, R::WrongState)
        }
        Refusal::AlreadyExists { .. } | Refusal::NameTaken { .. } => {
            (Code::AlreadyExists, R::AlreadyExists)
        }
        Refusal::Conflict { .. } => (Code::Aborted, R::ConflictingJob),
        Refusal::Etag { .. } => (Code::Aborted, R::EtagMismatch),
        Refusal::NotPermitted { .. } => (Code::PermissionDenied, R::NotPermitted),
        Refusal::Ceiling { .. } => (Code::PermissionDenied, R::CeilingExceeded),
        Refusal::DaemonLacksRights { .. } => (Code::FailedPrecondition, R::DaemonLacksRights),
        Refusal::Quota { .. } | Refusal::TooFast { .. } => {
            (Code::ResourceExhausted, R::QuotaExceeded)
        }
        Refusal::Late { .. } => (Code::DeadlineExceeded, R::CallTimedOut),
        Refusal::StoreFull { .. } => (Code::ResourceExhausted, R::StoreFull),
        Refusal::Unavailable { .. } => (Code::Unavailable, R::Unavailable),
        Refusal::HostUnavailable { .. } => (Code::Unavailable, R::HostUnavailable),
        Refusal::Internal { .. } => (Code::Internal, R::Internal),
    }
}

/// The metadata of a refusal.
fn about(refusal: &Refusal) -> Vec<(&'static str, String)> {
    match refusal {
        Refusal::PageToken => vec![("field", "page_token".to_owned())],
        Refusal::TooLarge { most } => vec![("most", most.to_string())],
        Refusal::NotFound { name } | Refusal::NameTaken { name } => {
            vec![("resource", name.clone())]
        }
        Refusal::Etag { name, present } => {
            vec![("resource", name.clone()), ("etag", present.clone())]
        }
        Refusal::WrongState { name, state, action } => vec![
            ("resource", name.clone()),
            ("state", (*state).to_owned()),
            ("action", (*action).to_owned()),
        ],
        Refusal::NotEnded { name, state } => vec![
            ("resource", name.clone()),
            ("state", (*state).to_owned()),
            ("action", "deleted".to_owned()),
        ],
        Refusal::AlreadyExists { request_id, name } => {
            vec![("resource", name.clone()), ("request_id", request_id.clone())]
        }
        Refusal::Ceiling { ceiling, most } => {
            vec![("ceiling", (*ceiling).to_owned()), ("most", most.clone())]
        }
        Refusal::Cursor { oldest, last, .. } => {
            vec![("oldest", format!("events/{oldest}")), ("last", format!("events/{last}"))]
        }
        Refusal::NoTargetNode { node: Some(Unfit::Named(node)), .. } => {
            vec![("node", node.to_string())]
        }
        Refusal::NoTargetNode { node: Some(Unfit::Only), .. } => {
            vec![("node", "only".to_owned())]
        }
        Refusal::Conflict { job } => vec![("resource", job.to_string())],
        Refusal::Quota { what, limit, caller } => limited(caller, *limit, what),
        Refusal::TooFast { what, limit, caller, .. } => limited(caller, *limit, what),
        Refusal::Invalid(_)
        | Refusal::ResumeToken
        | Refusal::TargetNotFound { .. }
        | Refusal::TargetEmpty { .. }
        | Refusal::NoTargetNode { node: None, .. }
        | Refusal::HostCannot { .. }
        | Refusal::NotPermitted { .. }
        | Refusal::DaemonLacksRights { .. }
        | Refusal::Late { .. }
        | Refusal::StoreFull { .. }
        | Refusal::Unavailable { .. }
        | Refusal::HostUnavailable { .. }
        | Refusal::Internal { .. } => Vec::new(),
    }
}

fn limited(caller: &str, limit: impl Display, what: &str) -> Vec<(&'static str, String)> {
    vec![("caller", caller.to_owned()), ("limit", format!("{limit} {what}"))]
}

fn quota(caller: &str, description: String) -> Vec<QuotaViolation> {
    vec![QuotaViolation::new(cut(caller, VALUE_MAX), description)]
}

/// The first `max` bytes of `text`, and `...` if that is not all.
pub(crate) fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let end = (0..=max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    Cow::Owned(format!("{}...", &text[..end]))
}

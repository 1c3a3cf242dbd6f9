//! Reasons why a call is refused: what failed, on which thing, and what to do next.

mod host;
pub mod status;

use numaloc_api::{Violations, value::JobId};
use std::time::Duration;

/// A node to which, or from which, no memory can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The request names it, and it is not online with memory.
    Named(u32),
    /// No other node of the host has memory.
    Only,
}

/// The reason why a call is refused. [`status`] turns it into a gRPC status, in one place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Fields are out of bounds.
    #[error("{0}")]
    Invalid(#[from] Violations),
    /// A request of more bytes than its call may have.
    #[error("the request is too large: it may have {most} bytes; ask for less at a time")]
    TooLarge {
        /// The most that it may have.
        most: usize,
    },
    /// A page token that this daemon did not make, or that belongs to another list or filter.
    #[error("page_token belongs to another list: start again without it")]
    PageToken,
    /// Not all events after the given one are kept, or there never was an event with this number.
    #[error(
        "events after events/{after} are not known: kept are events/{oldest} to events/{last}. Read what there is now, and \
         continue after events/{last}"
    )]
    Cursor {
        /// The number that was given.
        after: u64,
        /// The oldest event after which none has been forgotten, or the next one.
        oldest: u64,
        last: u64,
    },
    /// A resume token of another run of the daemon, or too old.
    #[error("resume_token is too old, or of another run of the daemon: watch again without it")]
    ResumeToken,
    /// No resource has this name.
    #[error("no {name}")]
    NotFound { name: String },
    /// Nothing of the target exists or is registered. The message is that of numaloc-host if the host was asked.
    #[error("{message}")]
    TargetNotFound { message: String },
    #[error("{message}")]
    TargetEmpty { message: String },
    /// No node to bring memory to.
    #[error("{message}")]
    NoTargetNode {
        message: String,
        /// The node that is the reason, if it is not the target's processes alone.
        node: Option<Unfit>,
    },
    /// This host cannot do what was asked for.
    #[error("{message}")]
    HostCannot { message: String },
    /// The state of the resource does not allow it.
    #[error("{name} has ended ({state}): it cannot be {action}")]
    WrongState {
        name: String,
        /// Its state as in the API.
        state: &'static str,
        action: &'static str,
    },
    /// A job that has not ended cannot be deleted.
    #[error("{name} has not ended ({state}): cancel it before it is deleted")]
    NotEnded {
        name: String,
        /// Its state as in the API.
        state: &'static str,
    },
    /// The request_id was used for another request.
    #[error("request_id {request_id} was used for {name} with another request: take a new one")]
    AlreadyExists {
        request_id: String,
        /// The record that was made with it.
        name: String,
    },
    /// A resource with the chosen id exists.
    #[error("{name} exists: choose another id")]
    NameTaken { name: String },
    /// Another job is at work on the same address space.
    #[error("{job} is at work on the same memory: wait for it, or ask to join it")]
    Conflict { job: JobId },
    /// The resource has changed since it was read.
    #[error("{name} has changed since it was read: read it again")]
    Etag {
        name: String,
        /// The etag that it has; empty if it is not there.
        present: String,
    },
    #[error("{message}")]
    NotPermitted {
        /// The refused action, and what to do.
        message: String,
    },
    /// More was asked for than the grant of the caller allows.
    #[error("{}", above(ceiling, most))]
    Ceiling {
        /// Its key in the configuration.
        ceiling: &'static str,
        /// The most that is allowed.
        most: String,
    },
    #[error("the daemon lacks rights: {message}")]
    DaemonLacksRights { message: String },
    /// A quota of the caller is used up.
    #[error(
        "quota used up: {limit} {what} for {caller}; wait, or ask for more in the daemon's configuration"
    )]
    Quota {
        /// The things that there are too many of.
        what: &'static str,
        limit: usize,
        caller: String,
    },
    #[error("{caller} may have {limit} {what}: wait {} ms", retry_after.as_millis() + 1)]
    TooFast {
        /// The resource whose rate is bounded.
        what: &'static str,
        limit: u64,
        caller: String,
        /// When the next one is allowed.
        retry_after: Duration,
    },
    /// The call has taken longer than the limit.
    #[error(
        "given up after {limit:?}; a change may have been made all the same: repeat it with the same request_id, or read what \
         there is"
    )]
    Late {
        /// Longest time that it may take.
        limit: Duration,
    },
    /// The daemon's disk is full.
    #[error("{message}")]
    StoreFull { message: String },
    /// The daemon is stopping, or its store cannot be written.
    #[error("{message}")]
    Unavailable { message: String },
    /// Something on the host that has to be asked gave no answer.
    #[error("{message}")]
    HostUnavailable { message: String },
    /// The host could not be read, or a bug.
    #[error("{message}")]
    Internal { message: String },
}

/// What exceeds a ceiling, and what to do.
fn above(ceiling: &str, most: &str) -> String {
    let allowed = match (ceiling, most) {
        ("named_nodes", _) => {
            "your grant does not allow nodes that the request names (to, from) or page cache of files (ceiling named_nodes)"
                .to_owned()
        }
        (_, "no") => format!("your grant does not allow this (ceiling {ceiling})"),
        _ => format!("your grant allows at most {most} (ceiling {ceiling})"),
    };
    format!("{allowed}: ask for less, or have the ceiling raised in the daemon's configuration")
}

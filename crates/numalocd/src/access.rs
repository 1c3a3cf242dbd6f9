//! Access control. [`Access`] stands before all services. It finds out who calls ([`Peer`]), what the caller may do
//! ([`Grants`]) and the role that the call needs (`rules`), and keeps each caller in its part ([`crate::accounts`]).
//!
//! **A request is complete before it is served** (`whole`). The layer reads it, charges its bytes to the account of its
//! caller, and refuses it as soon as its size is known, so half a request delays no other caller. Only ReplaceWorkloads
//! and reflection read parts themselves.
//!
//! **A client uses up its own share.** A connection holds a place, a call a turn in the line of its caller (`lines`),
//! and one of all callers' but root's, until its answer has been written to the connection. An answer is kept for a
//! minute at most: what HTTP/2 holds back cannot be taken back from it, so the connection is closed (`held`, `hangup`).
//! Each kind of call has a line of its own: a question waits neither for lists nor for changes that wait for the disk.
//!
//! **Authority is checked twice.** A job or schedule is made only for what its creator may have moved. Before each run
//! the right is checked again, and the engine compares it with the owner and cgroup of each process before and after it
//! holds them. The kernel names the creator when it connects, and the record keeps it; its rights are then a pure
//! function of the configuration (`grants`). User databases are read only where the configuration is read.
//!
//! **Requests of operators have ceilings** (`ceilings`, pure), which by default allow nothing that harms others. They
//! are checked where a request comes in, before each run, and again when what was planned is to move.
//!
//! **An additional socket lowers roles.** It has an upper role. A caller that would have more gets a name with the path
//! of the socket (`Grants::caller_at`), so that what it makes there has an owner with the same few rights at each run.

pub mod audit;
mod caller;
mod ceilings;
mod connection;
mod denials;
mod grants;
mod hangup;
mod held;
mod layer;
mod lines;
mod peer;
mod reserved;
mod rules;
mod standing;
mod whole;

#[cfg(test)]
pub(crate) mod tests;

pub use caller::Caller;
pub use denials::Denials;
pub use grants::{Creators, Grants};
pub use hangup::{Hangup, Via};
pub use layer::{Access, Guarded};
pub use peer::{Peer, UnixPeer};
pub use rules::{REQUEST_MAX, SMALL_REQUEST_MAX};

use crate::refusal::Refusal;
use tonic::{Request, Status};

/// The path of a call of this API, such as `/numaloc.v1.MigrationService/CreateJob`, as a static string; `None`: the
/// API has no such call.
pub fn method_of(path: &str) -> Option<&'static str> {
    rules::find(path).map(|rule| rule.path)
}

/// Recent refusals at the server that a request came to; empty for a request that did not pass [`Access`].
pub fn denials<T>(request: &Request<T>) -> Denials {
    request.extensions().get::<Denials>().cloned().unwrap_or_default()
}

/// The caller of a request that has passed [`Access`].
///
/// # Errors
/// INTERNAL: the request names no caller. Either the call needs no role, or it did not pass [`Access`], which is a bug.
pub fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    request.extensions().get::<Caller>().cloned().ok_or_else(|| {
        let message = "the call has no caller: report this as a bug".to_owned();
        Refusal::Internal { message }.into()
    })
}

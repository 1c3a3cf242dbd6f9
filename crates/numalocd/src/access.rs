//! Access control. [`Access`] stands before all services. It finds out who calls ([`Peer`]), what the caller may do ([`Grants`])
//! and which role the call needs (`rules`). It also keeps each caller within its share ([`Quotas`]).

pub mod audit;
mod caller;
mod ceilings;
mod connection;
mod grants;
mod hangup;
mod held;
mod layer;
mod lines;
mod peer;
mod quota;
mod reserved;
mod rules;
mod shares;
mod standing;
mod whole;

#[cfg(test)]
pub(crate) mod tests;

pub use caller::{Authority, Caller};
pub use grants::{Creators, Grants};
pub use hangup::{Hangup, Via};
pub use layer::{Access, Guarded};
pub use peer::{Peer, UnixPeer, is_host};
pub use quota::{Quotas, Watching};
pub use rules::{REQUEST_MAX, SMALL_REQUEST_MAX};
pub use shares::{Client, Cohort};

use crate::refusal::Refusal;
use tonic::{Request, Status};

/// The path of a call of this API, such as `/numaloc.v1.MigrationService/CreateJob`, as a static string; `None`: the API has no
/// such call.
pub fn method_of(path: &str) -> Option<&'static str> {
    rules::find(path).map(|rule| rule.path)
}

/// Who makes a call that has passed [`Access`].
///
/// # Errors
/// INTERNAL: the request names no caller. Either the call needs no role, or it did not pass [`Access`], which is a bug.
pub fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    request.extensions().get::<Caller>().cloned().ok_or_else(|| {
        let message = "the call has no caller: report this as a bug".to_owned();
        Refusal::Internal { message }.into()
    })
}

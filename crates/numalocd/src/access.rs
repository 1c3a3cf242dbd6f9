//! Who may what: [`Access`] stands before all services, finds out who calls ([`Peer`]), what that one may do ([`Grants`])
//! and what the call needs (`rules`), and keeps each caller to its share ([`Quotas`]).

pub mod audit;
mod caller;
mod ceilings;
mod grants;
mod hangup;
mod held;
mod layer;
mod lines;
mod peer;
mod quota;
mod rules;

#[cfg(test)]
pub(crate) mod tests;

pub use caller::{Authority, Caller, Role};
pub use ceilings::Ceilings;
pub use grants::{Creators, Grants};
pub use hangup::{Hangup, Via};
pub use layer::{Access, Guarded};
pub use peer::{NOBODY, Peer, UnixPeer, is_host};
pub use quota::{Quotas, Watching};

use crate::dispatch::Refusal;
use tonic::{Request, Status};

/// A call of ours as text that lasts, such as `/numaloc.v1.MigrationService/CreateJob`; `None`: there is no such call.
pub fn method_of(path: &str) -> Option<&'static str> {
    rules::find(path).map(|rule| rule.path)
}

/// Who makes a call that has passed [`Access`].
///
/// # Errors
/// INTERNAL: it has not, which is a bug, or the call needs no role.
pub fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    request.extensions().get::<Caller>().cloned().ok_or_else(|| {
        let message = "the call has no caller: report this as a bug".to_owned();
        Refusal::Internal { message }.into()
    })
}

//! Whether a caller may still have what it has begun.

use super::{
    Caller, Grants, Peer,
    rules::{Need, Rule},
};
use crate::{
    config::{Config, Socket},
    refusal::Refusal,
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::watch::Receiver;
use tokio_stream::{Stream, wrappers::WatchStream};

/// Asks the grants again each time that the configuration changes.
#[derive(Debug)]
pub(super) struct Standing {
    rule: &'static Rule,
    peer: Peer,
    /// The additional socket that the call came by.
    socket: Option<Arc<Socket>>,
    changes: WatchStream<Arc<Config>>,
}

impl Standing {
    /// The standing of `peer`, which makes the call of `rule` by this socket.
    pub fn new(
        rule: &'static Rule,
        peer: Peer,
        socket: Option<Arc<Socket>>,
        config: Receiver<Arc<Config>>,
    ) -> Self {
        Self { rule, peer, socket, changes: WatchStream::new(config) }
    }

    /// Ready, with the reason, once the caller may not make the call any more.
    pub fn poll_lost(&mut self, context: &mut Context<'_>) -> Poll<Refusal> {
        while let Poll::Ready(Some(config)) = Pin::new(&mut self.changes).poll_next(context) {
            let grants = Grants::from(&*config);
            let caller = grants.caller_at(&self.peer, self.socket.as_deref());
            let name =
                caller.as_ref().map_or_else(|| self.peer.name(), |caller| caller.name.clone());
            if let Err(refusal) = permit(self.rule, &name, caller.as_ref()) {
                return Poll::Ready(refusal);
            }
        }
        // No change can come any more once the daemon ends.
        Poll::Pending
    }
}

/// Whether `caller`, known as `name`, may make the call of `rule`.
pub(super) fn permit(rule: &Rule, name: &str, caller: Option<&Caller>) -> Result<(), Refusal> {
    let Need::Role(needed) = rule.need else { return Ok(()) };
    let method = rule.method();
    let message = match caller {
        Some(caller) if caller.role >= needed => return Ok(()),
        Some(caller) => format!(
            "{method} needs the role {needed}, {name} has the role {}: ask for a grant in the daemon's configuration",
            caller.role
        ),
        None => format!(
            "{method} needs the role {needed}, {name} has none: ask for a grant in the daemon's configuration"
        ),
    };
    Err(Refusal::NotPermitted { message })
}

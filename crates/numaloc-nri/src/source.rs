//! The source of this host's containers: NRI, or containerd's own events. Both fill the same inbox.

use crate::{
    align::MachineNodes,
    config::{Config, Source},
    events,
    handlers::Handlers,
    inbox::Inbox,
    runtime::{self, Begun},
};
use std::sync::Arc;

/// Serves the runtime: by the connection with which it has launched this process, until that ends; or by connections
/// that are made again and again, after the one that has been made already. With both ways open, NRI is tried all the time, and containerd is followed as long as
/// NRI reports nothing.
///
/// # Errors
/// The connection cannot be made, and waiting would not help.
pub async fn serve(
    config: Arc<Config>,
    begun: Begun,
    inbox: Arc<Inbox>,
    nodes: MachineNodes,
) -> anyhow::Result<()> {
    let handlers = Handlers::new(Arc::clone(&inbox), &config, nodes);
    let first = match begun {
        Begun::Launched(launched) => return runtime::launched(launched, handlers, &inbox).await,
        Begun::Made(stream) => Some(stream),
        Begun::Nothing => None,
    };
    let by_nri = handlers.is_told();
    let is_auto = config.source == Source::Auto;
    if config.source == Source::Containerd && config.needs_nodes() {
        tracing::warn!(
            "align_mems and memory_policies do nothing without NRI: new containers stay as they are"
        );
    }
    let by_events = events::serve(&config, &inbox, by_nri, events::grace(is_auto));
    // In one task, so that a report of NRI is never followed by an older state.
    match config.source {
        Source::Nri => runtime::serve(&config, first, handlers, &inbox).await,
        Source::Containerd => by_events.await,
        Source::Auto => tokio::select! {
            biased;
            ended = runtime::serve(&config, first, handlers, &inbox) => ended,
            ended = by_events => ended,
        },
    }
}

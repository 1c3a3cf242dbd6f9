//! Reports memory pressure to the dispatcher, so that schedules that relieve a node need not wait for their intervals. The
//! kernel wakes the daemon (PSI). Without PSI, or without the right to it, only the intervals count.

use crate::dispatch::Handle;
use numaloc_host::{MemoryTrigger, Roots};
use std::{io, sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time::sleep};

/// Time between two questions whether a schedule relieves a node.
const INTERVAL: Duration = Duration::from_secs(10);
/// Shortest time between two reports.
const PAUSE: Duration = Duration::from_secs(1);

/// Waits for pressure until the dispatcher has ended.
pub async fn watch(handle: Handle, roots: Roots) {
    let mut trigger: Option<Arc<MemoryTrigger>> = None;
    loop {
        match handle.awaits_pressure().await {
            Err(_) => return,
            Ok(false) => trigger = None,
            Ok(true) if trigger.is_none() => match MemoryTrigger::new(&roots) {
                Ok(opened) => trigger = Some(Arc::new(opened)),
                Err(error) => return without(&error),
            },
            Ok(true) => {}
        }
        let Some(waiting) = trigger.clone() else {
            sleep(INTERVAL).await;
            continue;
        };
        match spawn_blocking(move || waiting.wait(INTERVAL)).await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => {
                if handle.on_pressure().await.is_err() {
                    return;
                }
                sleep(PAUSE).await;
            }
            Ok(Err(error)) => return without(&error),
            // The daemon ends.
            Err(_) => return,
        }
    }
}

fn without(error: &io::Error) {
    tracing::info!(%error, "no reports of memory pressure: nodes are relieved by the intervals of schedules alone");
}

//! Handles Ctrl-C and SIGTERM while the daemon works.

use super::Daemon;
use crate::exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals. Once this exists, they do not end this program any more.
#[derive(Debug)]
pub struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Daemon {
    /// Starts to handle the signals.
    pub fn interrupts(&self) -> Result<Interrupts, Failure> {
        let _in_runtime = self.runtime.enter();
        let int = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
        let term = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
        Ok(Interrupts { int, term })
    }
}

impl Interrupts {
    /// Waits for one of the signals.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}

//! Ctrl-C and SIGTERM while the daemon works.

use super::Daemon;
use crate::exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals; they no longer end this program once this exists.
#[derive(Debug)]
pub struct Interrupts {
    int: Signal,
    term: Signal,
}

impl Daemon {
    /// Takes the signals over.
    pub fn interrupts(&self) -> Result<Interrupts, Failure> {
        let _in_runtime = self.runtime.enter();
        let int = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
        let term = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
        Ok(Interrupts { int, term })
    }
}

impl Interrupts {
    /// Waits for either.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}

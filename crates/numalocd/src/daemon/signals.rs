//! The signals that the daemon handles.

use std::io;
use tokio::signal::unix::{self, SignalKind};

/// Actions of the daemon on signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: stop within the configured time.
    Stop,
}

/// Receives the handled signals. Others keep their default action.
#[derive(Debug)]
pub struct Signals {
    hangup: unix::Signal,
    terminate: unix::Signal,
    interrupt: unix::Signal,
}

impl Signals {
    /// Handles the signals from now on.
    ///
    /// # Errors
    /// A signal handler cannot be installed.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: unix::signal(SignalKind::hangup())?,
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the signal to end. There is nothing to reload before the start is done.
    pub async fn stop(&mut self) {
        while self.next().await != Signal::Stop {}
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
        }
    }
}

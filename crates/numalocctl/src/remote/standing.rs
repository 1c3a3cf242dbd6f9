//! A daemon that is polled.

use super::Daemon;
use crate::{args::ConnectArgs, endpoint::Endpoint, exit::Failure};

/// A connection that is made with the first question, and again after a failure: it may be another daemon the next
/// time.
#[derive(Debug)]
pub struct Reconnecting {
    endpoint: Endpoint,
    connect: ConnectArgs,
    daemon: Option<Daemon>,
}

impl Reconnecting {
    /// A connection to there, which is not made yet.
    pub fn new(endpoint: Endpoint, connect: ConnectArgs) -> Self {
        Self { endpoint, connect, daemon: None }
    }

    /// Asks the daemon.
    ///
    /// # Errors
    /// As [`Daemon::connect`], and those of the question.
    pub fn ask<T>(
        &mut self,
        question: impl FnOnce(&Daemon) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let daemon = match self.daemon.take() {
            Some(daemon) => daemon,
            None => Daemon::connect(self.endpoint.clone(), &self.connect)?,
        };
        let answer = question(&daemon)?;
        self.daemon = Some(daemon);
        Ok(answer)
    }
}

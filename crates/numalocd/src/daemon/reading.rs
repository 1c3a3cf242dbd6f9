//! Reading the configuration while the daemon serves. It looks names of users and groups up, and a user database may
//! hang (a directory service that does not answer): that is waited for in a thread of its own, and by nothing else.

use crate::{
    cli::Args,
    config::{FileError, Loaded},
};
use anyhow::Context;
use std::{future::pending, mem};
use tokio::task::{JoinHandle, spawn_blocking};

/// The configuration as it is read, one at a time.
#[derive(Debug, Default)]
pub struct Reading {
    under_way: Option<JoinHandle<Result<Loaded, FileError>>>,
    /// Whether the files may have changed since that began.
    again: bool,
}

impl Reading {
    /// Begins to read it. If it is being read at the moment, it is read once more after that.
    pub fn begin(&mut self, args: &Args) {
        if self.under_way.is_some() {
            self.again = true;
            return;
        }
        let args = args.clone();
        self.under_way = Some(spawn_blocking(move || args.configuration()));
    }

    /// The configuration read last. Waits forever if nothing is being read. Nothing is lost if this is dropped early.
    ///
    /// # Errors
    /// A file cannot be read, or is wrong; a bug.
    pub async fn done(&mut self, args: &Args) -> anyhow::Result<Loaded> {
        loop {
            let Some(reading) = &mut self.under_way else { return pending().await };
            let read = reading.await;
            self.under_way = None;
            if !mem::take(&mut self.again) {
                return Ok(read.context("the configuration could not be read")??);
            }
            self.begin(args);
        }
    }
}

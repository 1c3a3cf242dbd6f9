//! Errors: what failed, on which device, and what to do next.

use std::{io, path::PathBuf};

/// What can go wrong with work queues.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read, or what was found could not be noted.
    #[error(transparent)]
    Host(#[from] numaloc_host::Error),
    /// No work queue can be set up.
    #[error("no work queue of a DSA device can be set up: {reason}")]
    NoQueue {
        /// Why not.
        reason: String,
    },
    /// The driver has refused a step of the configuration.
    #[error("{path} does not take '{value}': {source}{status}; {advice}")]
    Refused {
        /// The attribute's file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// The driver's error.
        source: io::Error,
        /// What the device's cmd_status says, in brackets; empty if it says nothing.
        status: String,
        /// What it means, and what to do next.
        advice: &'static str,
    },
    /// The kernel still uses a work queue that is to be taken down.
    #[error(
        "the kernel still uses {queue} (clients is {clients}): switch the kernel's offload off, then run numalocd --restore-settings"
    )]
    InUse {
        /// The queue.
        queue: String,
        /// How many users it has.
        clients: u64,
    },
}

//! Errors: what failed, on which device, and what to do next.

use std::{io, path::PathBuf};

/// Errors of work queues.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// A file could not be read, or what was found could not be noted.
    #[error(transparent)]
    Host(#[from] numaloc_host::Error),
    /// No work queue can be set up.
    #[error("no work queue of a DSA device can be set up: {reason}")]
    NoQueue { reason: String },
    /// The driver has refused a step of the configuration.
    #[error("{path} does not take '{value}': {source}{status}; {advice}")]
    Refused {
        path: PathBuf,
        value: String,
        source: io::Error,
        /// The device's cmd_status, in brackets; empty if it says nothing.
        status: String,
        /// The meaning, and what to do next.
        advice: &'static str,
    },
    /// The kernel still uses a work queue that is to be taken down.
    #[error(
        "the kernel still uses {queue} (clients is {clients}): switch the kernel's offload off, then run numalocd --restore-settings"
    )]
    InUse {
        queue: String,
        /// Number of its users.
        clients: u64,
    },
}

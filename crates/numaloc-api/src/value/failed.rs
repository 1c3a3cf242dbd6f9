//! Processes whose memory a job could not survey or move.

use numaloc_core::{Identity, ProcessOutcome};

/// A process whose memory a job could not survey or move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProcess {
    /// Its pid and start time.
    pub identity: Identity,
    /// Command name as in /proc/PID/comm.
    pub comm: String,
    /// The error of the kernel, as text.
    pub error: String,
}

impl FailedProcess {
    /// The failure that `process` reports; `None` if it succeeded.
    pub fn of(process: &ProcessOutcome) -> Option<Self> {
        let (identity, comm) = (process.identity, process.comm.clone());
        Some(Self { identity, comm, error: process.error.clone()? })
    }
}

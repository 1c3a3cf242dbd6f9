//! Processes that failed.

use serde::Serialize;

/// A process that failed.
#[derive(Clone, Debug, Serialize)]
pub struct FailedDoc {
    /// Its pid.
    pub pid: i32,
    /// Its start, in clock ticks after boot.
    pub start_time_ticks: u64,
    /// Its name.
    pub comm: String,
    /// The error of the kernel.
    pub error: String,
}

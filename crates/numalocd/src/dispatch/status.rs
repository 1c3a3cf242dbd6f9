//! The daemon's status, as the dispatcher reports it.

use crate::store::Holds;
use numaloc_api::value::JobState;
use std::time::SystemTime;

/// Number of jobs in a state.
pub type JobCount = (JobState, usize);

#[derive(Clone, Debug)]
pub struct DaemonStatus {
    /// When the daemon started, by the wall clock.
    pub started: SystemTime,
    /// Number of jobs in each state; states without jobs are left out.
    pub jobs: Vec<JobCount>,
    /// Number of schedules, paused ones included.
    pub schedules: usize,
    pub workloads: usize,
    /// Bytes moved since the start.
    pub moved_bytes: u64,
    /// Id of the store that the records are in.
    pub store_id: u64,
    /// The holds (drained, paused) that keep moves from beginning.
    pub holds: Holds,
    /// Number of schedules that find their work undone again and again.
    pub contests: usize,
    /// Problems of the daemon, and what to do about them.
    pub problems: Vec<String>,
}

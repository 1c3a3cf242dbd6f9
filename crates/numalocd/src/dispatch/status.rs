//! What the daemon is doing, as the dispatcher tells it.

use crate::store::Holds;
use numaloc_api::value::JobState;
use std::time::SystemTime;

/// How many jobs are in a state.
pub type JobCount = (JobState, usize);

/// What the daemon is doing.
#[derive(Clone, Debug)]
pub struct DaemonStatus {
    /// When the daemon started, by the wall clock.
    pub started: SystemTime,
    /// Number of jobs in each state; states without jobs are left out.
    pub jobs: Vec<JobCount>,
    /// How many schedules there are, paused ones included.
    pub schedules: usize,
    /// How many workloads are registered.
    pub workloads: usize,
    /// Bytes moved since the start.
    pub moved_bytes: u64,
    /// Id of the store that the records are in.
    pub store_id: u64,
    /// The holds (drained, paused) that keep moves from beginning.
    pub holds: Holds,
    /// Number of schedules that find their work undone again and again.
    pub contests: usize,
    /// What the daemon cannot do, and what to do about it.
    pub problems: Vec<String>,
}

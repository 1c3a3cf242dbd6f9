//! States, progress and filters of jobs.

use super::{ScheduleId, WorkloadId};
use std::{collections::BTreeMap, time::SystemTime};

/// The states of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Accepted and waiting for its turn.
    Queued,
    /// The target is looked at and its move is planned.
    Planning,
    /// A run is moving its pages.
    Running,
    /// A client has paused it, until one resumes or cancels it.
    Paused,
    /// All memory that was to be moved is local.
    Succeeded,
    /// It ended, and some of the memory that was to be moved is still remote.
    Partial,
    /// There was nothing to do.
    Skipped,
    /// It could not be carried out.
    Failed,
    /// A client has cancelled it; what was moved until then stays moved.
    Cancelled,
    /// The daemon stopped or died while it was running.
    Interrupted,
    /// As [`Self::Interrupted`], but it continues when the daemon is back. This is not an end.
    Suspended,
}

impl JobState {
    /// Every state, in the order of declaration.
    pub const ALL: [JobState; 11] = [
        Self::Queued,
        Self::Planning,
        Self::Running,
        Self::Paused,
        Self::Succeeded,
        Self::Partial,
        Self::Skipped,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
        Self::Suspended,
    ];

    /// Whether a job in this state has ended.
    pub fn is_end(self) -> bool {
        use JobState::{Paused, Planning, Queued, Running, Suspended};
        !matches!(self, Queued | Planning | Running | Paused | Suspended)
    }
}

/// The progress of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Bytes that the job is to move.
    pub planned_bytes: u64,
    /// Bytes that a second look has found on their target so far.
    pub moved_bytes: u64,
    /// Bytes that the job is done with so far: moved or given up.
    pub settled_bytes: u64,
    /// The reason why it is slowed down at the moment, as text for people; empty if it is not.
    pub held_back: String,
    /// When these numbers were measured.
    pub measured: SystemTime,
}

/// Selects the jobs that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<JobState>,
    /// Only jobs that this schedule has created.
    pub schedule: Option<ScheduleId>,
    /// Only jobs of this client, for example `uid:1000`.
    pub creator: Option<String>,
    /// Created at this time or later.
    pub created_since: Option<SystemTime>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
    /// A workload that the target names.
    pub workload: Option<WorkloadId>,
}

//! Jobs.

use super::{ScheduleId, WorkloadId};
use std::{collections::BTreeMap, time::SystemTime};

/// The states of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Accepted and waiting for its turn.
    Queued,
    /// The target is looked at and its move is planned.
    Planning,
    /// Memory is being moved.
    Running,
    /// Paused by a client.
    Paused,
    /// All memory that was to be moved is local.
    Succeeded,
    /// It ended, and some of the memory that was to be moved is still remote.
    Partial,
    /// There was nothing to do.
    Skipped,
    /// It could not be carried out.
    Failed,
    /// Cancelled by a client.
    Cancelled,
    /// The daemon stopped or died while it was running.
    Interrupted,
    /// As [`Self::Interrupted`], but it continues when the daemon is back. This is not an end.
    Suspended,
}

impl JobState {
    /// All states.
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

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Bytes that the job is to move.
    pub planned_bytes: u64,
    /// Bytes that a second look has found on their target so far.
    pub moved_bytes: u64,
    /// Bytes that the job is done with so far: moved or given up.
    pub settled_bytes: u64,
    /// What slows it down at the moment, as text for people; empty if nothing does.
    pub held_back: String,
    /// When this was measured.
    pub measured: SystemTime,
}

/// Which jobs: those that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<JobState>,
    /// Created by this schedule.
    pub schedule: Option<ScheduleId>,
    /// Created by this client.
    pub creator: Option<String>,
    /// Created at this time or later.
    pub created_since: Option<SystemTime>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Whose target names this workload.
    pub workload: Option<WorkloadId>,
}

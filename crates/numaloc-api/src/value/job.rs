//! Jobs.

use super::{ScheduleId, WorkloadId};
use std::{collections::BTreeMap, time::SystemTime};

/// Where a job is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Accepted and waiting for its turn.
    Queued,
    /// Its target is being looked at.
    Planning,
    /// Memory is being moved.
    Running,
    /// Held by a client.
    Paused,
    /// Everything asked for is local.
    Succeeded,
    /// Ended with pages left that were asked for.
    Partial,
    /// There was nothing to do.
    Skipped,
    /// Could not be carried out.
    Failed,
    /// Ended by a client.
    Cancelled,
    /// The daemon died while it was under way.
    Interrupted,
    /// The same, and it goes on when the daemon is back.
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

    /// Whether it is an end.
    pub fn is_end(self) -> bool {
        use JobState::{Paused, Planning, Queued, Running, Suspended};
        !matches!(self, Queued | Planning | Running | Paused | Suspended)
    }
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Bytes that it set out to move.
    pub planned_bytes: u64,
    /// Bytes confirmed on their target so far.
    pub moved_bytes: u64,
    /// Bytes dealt with so far: moved, or given up.
    pub settled_bytes: u64,
    /// What holds it back at the moment, for people; empty if nothing does.
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

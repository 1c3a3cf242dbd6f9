//! Requests whose fields have been checked.

use super::{
    JobFilter, JobId, MigrationSpec, Policy, ScheduleFilter, ScheduleId, ScheduleSpec, Target,
    WorkloadFilter,
};
use numaloc_core::{Identity, NodeSet};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// Asks where the memory of a target is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetLocality {
    /// The processes whose memory is shown.
    pub target: Target,
    /// Decides which memory counts as home and as movable.
    pub policy: Policy,
}

/// Asks for where memory is, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLocality {
    /// The processes whose memory is shown.
    pub target: Target,
    /// Decides which memory counts as home and as movable.
    pub policy: Policy,
    /// Time between two readings.
    pub interval: Duration,
}

/// Asks for findings about placement, with commands that would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetAdvice {
    /// The processes that findings may be about; `None`: all of the host.
    pub target: Option<Target>,
    /// Time between the two readings of CPU times.
    pub interval: Duration,
    /// Subjects with less memory than this are left out.
    pub min_bytes: u64,
}

/// Asks what is known of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetLiveView {
    /// A process that is watched closely from now on.
    pub process: Option<Identity>,
}

/// Asks what is on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetNodeContents {
    /// The nodes; none: all nodes with memory.
    pub nodes: NodeSet,
}

/// The reaction if another job works on one of the same address spaces, or waits to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// The request fails, and no job is created.
    #[default]
    Refuse,
    /// The answer is that job, and no job is created.
    Join,
}

/// Asks for a job that moves memory once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateJob {
    /// The specification of the job: its target, where memory goes and how.
    pub spec: MigrationSpec,
    /// Makes the request safe to repeat.
    pub request_id: Option<String>,
    /// The reaction if another job is in the way.
    pub on_conflict: OnConflict,
    /// The id for the job; `None`: the daemon gives one.
    pub id: Option<JobId>,
    /// Labels that lists and watches of jobs can select by.
    pub labels: BTreeMap<String, String>,
    /// Only check whether the job could be created.
    pub validate_only: bool,
}

/// Asks to delete a job that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteJob {
    /// The job, which must have ended.
    pub id: JobId,
    /// Whether the call succeeds if the job does not exist.
    pub allow_missing: bool,
    /// Only check whether the job could be deleted.
    pub validate_only: bool,
}

/// Asks for a schedule that moves memory again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateSchedule {
    /// The id for the schedule; `None`: the daemon gives one.
    pub id: Option<ScheduleId>,
    /// The migration of each run, and when it is due.
    pub spec: ScheduleSpec,
    /// Makes the request safe to repeat.
    pub request_id: Option<String>,
    /// Only check whether the schedule could be created.
    pub validate_only: bool,
}

/// Asks to run a schedule now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSchedule {
    /// The schedule that is to run at once.
    pub id: ScheduleId,
    /// Makes the request safe to repeat.
    pub request_id: Option<String>,
}

/// Asks to remove a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteSchedule {
    /// The schedule that is to be removed.
    pub id: ScheduleId,
    /// The etag that it must have.
    pub etag: Option<String>,
    /// Whether the call succeeds if the schedule does not exist.
    pub allow_missing: bool,
    /// Only check whether the schedule could be removed.
    pub validate_only: bool,
}

impl DeleteSchedule {
    /// Removes what is there, whatever its etag.
    pub fn new(id: ScheduleId) -> Self {
        Self { id, etag: None, allow_missing: false, validate_only: false }
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Largest number of records in the page.
    pub size: usize,
    /// The token that the previous answer gave; `None`: from the start. It is not checked yet.
    pub token: Option<String>,
}

/// Asks for records that match a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOf<F> {
    /// The conditions that a record has to meet.
    pub filter: F,
    /// Where the page begins, and its size.
    pub page: Page,
}

/// Asks for a page of jobs.
pub type ListJobs = ListOf<JobFilter>;
/// Asks for a page of schedules.
pub type ListSchedules = ListOf<ScheduleFilter>;
/// Asks for a page of workloads.
pub type ListWorkloads = ListOf<WorkloadFilter>;

/// Asks for records that match a filter, and for their changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOf<F> {
    /// The conditions that a record has to meet.
    pub filter: F,
    /// Continue after the answer with this token; `None`: all records come first. It is not checked yet.
    pub resume_token: Option<String>,
}

/// Asks for jobs and their changes.
pub type WatchJobs = WatchOf<JobFilter>;
/// Asks for schedules and their changes.
pub type WatchSchedules = WatchOf<ScheduleFilter>;
/// Asks for workloads and their changes.
pub type WatchWorkloads = WatchOf<WorkloadFilter>;

/// An action of the daemon that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// The job ended as SUCCEEDED or PARTIAL, or was cancelled after it had moved some memory.
    Completed,
    /// The job ended as SKIPPED, or was cancelled before it had moved any memory.
    Skipped,
    /// The job ended as FAILED or INTERRUPTED.
    Failed,
    /// A job begins to move memory.
    Started,
    /// A client has paused a job or a schedule.
    Paused,
    /// A job or a schedule that was paused continues.
    Resumed,
    /// No member of a schedule's target exists any more.
    TargetGone,
    /// A schedule was removed, by a client or because its target was gone for long.
    ScheduleRemoved,
    /// Another program repeatedly moves away the memory that a schedule moves.
    PlacementContested,
    /// The memory that a schedule moves stays in place again.
    PlacementStable,
    /// A job has ended whose memory a DMA engine copied until something failed.
    OffloadFailed,
    /// A work queue of a DSA device could not be set up, or not taken down. It is about the host: about no job and no schedule.
    DsaQueueFailed,
}

impl EventType {
    /// Every type, in the order of declaration.
    pub const ALL: [EventType; 12] = [
        Self::Completed,
        Self::Skipped,
        Self::Failed,
        Self::Started,
        Self::Paused,
        Self::Resumed,
        Self::TargetGone,
        Self::ScheduleRemoved,
        Self::PlacementContested,
        Self::PlacementStable,
        Self::OffloadFailed,
        Self::DsaQueueFailed,
    ];

    /// Whether events of this type tell of the end of a job.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped | Self::Failed)
    }
}

/// Selects the events that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Permitted types; empty: any.
    pub types: Vec<EventType>,
    /// Only events about this job.
    pub job: Option<JobId>,
    /// About this schedule or its jobs.
    pub schedule: Option<ScheduleId>,
    /// Only events of this time and later ones.
    pub since: Option<SystemTime>,
    /// About what this client owns.
    pub creator: Option<String>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
}

/// Asks for a page of stored events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEvents {
    /// Conditions that the events have to meet.
    pub filter: EventFilter,
    /// Where the page begins, and its size.
    pub page: Page,
}

/// Asks for events as they happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvents {
    /// Conditions that the events have to meet.
    pub filter: EventFilter,
    /// The number of the event to start after; `None`: only events from now on.
    pub after: Option<u64>,
}

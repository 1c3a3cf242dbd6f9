//! The requests.

use super::{
    JobFilter, JobId, MigrationSpec, Policy, ScheduleFilter, ScheduleId, ScheduleSpec, Target,
};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// Asks where memory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetLocality {
    /// Whose memory.
    pub target: Target,
    /// What counts as home and as movable.
    pub policy: Policy,
}

/// Asks to be told where memory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLocality {
    /// Whose memory.
    pub target: Target,
    /// What counts as home and as movable.
    pub policy: Policy,
    /// Time between readings.
    pub interval: Duration,
}

/// What to do if another job is at work on one of the same address spaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Fail.
    #[default]
    Refuse,
    /// Give back that job.
    Join,
}

/// Asks for a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateJob {
    /// The migration.
    pub spec: MigrationSpec,
    /// Makes the request safe to repeat.
    pub request_id: Option<String>,
    /// What to do about another job.
    pub on_conflict: OnConflict,
    /// The id that it is to have; `None`: the daemon gives one.
    pub id: Option<JobId>,
    /// Labels for filters.
    pub labels: BTreeMap<String, String>,
    /// Only check whether it could be made.
    pub validate_only: bool,
}

/// Asks for a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateSchedule {
    /// The id that it is to have; `None`: the daemon gives one.
    pub id: Option<ScheduleId>,
    /// The schedule.
    pub spec: ScheduleSpec,
    /// Makes the request safe to repeat.
    pub request_id: Option<String>,
    /// Only check whether it could be made.
    pub validate_only: bool,
}

/// Asks to run a schedule now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSchedule {
    /// Which one.
    pub id: ScheduleId,
    /// Makes the request safe to repeat.
    pub request_id: Option<String>,
}

/// Asks to remove a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteSchedule {
    /// Which one.
    pub id: ScheduleId,
    /// The etag that it must have.
    pub etag: Option<String>,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Most entries.
    pub size: usize,
    /// Where to go on, as the answer before said; `None`: from the start. Not checked further.
    pub token: Option<String>,
}

/// Asks for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListJobs {
    /// Which ones.
    pub filter: JobFilter,
    /// How many.
    pub page: Page,
}

/// Asks for schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListSchedules {
    /// Which ones.
    pub filter: ScheduleFilter,
    /// How many.
    pub page: Page,
}

/// Asks to be told of jobs and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchJobs {
    /// Which ones.
    pub filter: JobFilter,
    /// Go on after this; `None`: all that there are come first. Not checked further.
    pub resume_token: Option<String>,
}

/// Asks to be told of schedules and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchSchedules {
    /// Which ones.
    pub filter: ScheduleFilter,
    /// Go on after this; `None`: all that there are come first. Not checked further.
    pub resume_token: Option<String>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Memory was moved, perhaps not all.
    Completed,
    /// There was nothing to do.
    Skipped,
    /// It could not be carried out.
    Failed,
    /// A job begins to move memory.
    Started,
    /// A job or a schedule is held.
    Paused,
    /// A job or a schedule that was held goes on.
    Resumed,
    /// Nothing of a schedule's target is there any more.
    TargetGone,
    /// A schedule was removed.
    ScheduleRemoved,
    /// What a schedule moves is undone again and again.
    FightBegun,
    /// What a schedule moves stays again.
    FightEnded,
}

impl EventType {
    /// All types.
    pub const ALL: [EventType; 10] = [
        Self::Completed,
        Self::Skipped,
        Self::Failed,
        Self::Started,
        Self::Paused,
        Self::Resumed,
        Self::TargetGone,
        Self::ScheduleRemoved,
        Self::FightBegun,
        Self::FightEnded,
    ];

    /// Whether it is the end of a job.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped | Self::Failed)
    }
}

/// Which events: those that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of one of these types; empty: of any.
    pub types: Vec<EventType>,
    /// Of this job.
    pub job: Option<JobId>,
    /// Of jobs of this schedule.
    pub schedule: Option<ScheduleId>,
    /// At this time or later.
    pub since: Option<SystemTime>,
}

/// Asks for stored events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEvents {
    /// Which ones.
    pub filter: EventFilter,
    /// How many.
    pub page: Page,
}

/// Asks to be told of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvents {
    /// Which ones.
    pub filter: EventFilter,
    /// Start after this stored one; `None`: only those from now on.
    pub after: Option<u64>,
}

//! Requests and records as values that have been checked, without generated types.

mod abridged;
mod failed;
mod few;
mod files;
mod job;
mod member;
mod name;
mod outcome;
mod partner;
mod record;
mod request;
mod schedule;
mod selector;
mod spec;
mod workload;

pub use failed::FailedProcess;
pub use few::first_few;
pub use files::{CachedFile, CachedFiles};
pub use job::{JobFilter, JobProgress, JobState};
pub use member::{MemberResult, MemberState, state_and_reason};
pub use name::{JobId, PATH_MAX, ScheduleId, WorkloadId, is_path};
pub(crate) use name::{TOKEN_MAX, is_token};
pub use numaloc_core::{CallStats, ProcessOutcome};
pub use outcome::{NamedOutcome, Outcome, nothing_to_move};
pub use partner::Partner;
pub use record::{Event, Job, JobJoin, PlanSummary, Schedule, Workload};
pub use request::{
    CreateJob, CreateSchedule, DeleteJob, DeleteSchedule, EventFilter, EventType, GetAdvice,
    GetLiveView, GetLocality, GetNodeContents, ListEvents, ListJobs, ListOf, ListSchedules,
    ListWorkloads, OnConflict, Page, RunSchedule, WatchEvents, WatchJobs, WatchLocality, WatchOf,
    WatchSchedules, WatchWorkloads,
};
pub use schedule::{ScheduleFilter, ScheduleSpec, ScheduleState, ScheduleUpdate, UpdateSchedule};
pub use selector::{Condition, NoSelector, Requirement, Selector};
pub use spec::{
    Emit, FoundAt, FoundMember, Limits, MigrationSpec, Missing, OnInterrupt, Pins, Policy,
    QosClass, Target, TargetProcess,
};
pub use workload::{
    RegisterWorkload, RenewWorkloads, UnregisterWorkload, WorkloadField, WorkloadFilter,
    WorkloadSet, WorkloadSpec, WorkloadsPart,
};

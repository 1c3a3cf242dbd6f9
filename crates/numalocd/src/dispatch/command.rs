//! What is asked of the dispatcher: one variant per call, with the channel for its answer.

use super::{
    changes::{Begin, RecordChanges, RecordKind},
    page::Listed,
    rest::{AnyEvents, AnyJob},
    selected::Selected,
    status::Status,
};
use crate::{
    access::Caller,
    order::{Found, Offers},
    refusal::Refusal,
    store::{Holds, Snapshot},
};
use numaloc_api::{
    encoded::ListedJob,
    value::{
        CreateJob, CreateSchedule, DeleteJob, DeleteSchedule, Event, EventFilter, Job, JobFilter,
        JobId, ListEvents, ListJobs, ListSchedules, ListWorkloads, MigrationSpec, Pins,
        RegisterWorkload, RenewWorkloads, RunSchedule, Schedule, ScheduleFilter, ScheduleId,
        Target, UnregisterWorkload, UpdateSchedule, Workload, WorkloadFilter, WorkloadId,
        WorkloadSet, WorkloadSpec,
    },
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::{oneshot, watch};

/// The channel for an answer. If the caller has gone, the answer is dropped, but the change stays made.
pub type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// A job, and whether it was there before.
pub type Made = (Arc<Job>, bool);

/// A schedule, and whether it was there before.
pub type MadeSchedule = (Arc<Schedule>, bool);

/// What is to be done to register a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registering {
    /// Nothing: an earlier request with the same request_id has registered this.
    Done(Arc<Workload>),
    /// Registering this, if the etag of what is registered under its name is still this one (empty: nothing is).
    Whole(Box<WorkloadSpec>, String),
}

/// What has become of a set of workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Workloads that are new or have changed.
    pub written: usize,
    /// Workloads that were registered with the same values already.
    pub unchanged: usize,
    /// Workloads that were forgotten.
    pub removed: usize,
}

/// What a client does to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Ends it.
    Cancel,
    /// Pauses it.
    Pause,
    /// Queues it again.
    Resume,
}

/// The kinds of hold. An operator sets and clears each independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// No move begins; those under way go on to their end.
    Drain,
    /// No move begins, and those under way end after their current batches and go back into the queue.
    Pause,
}

impl Command {
    /// Whether the command changes records. Changes that wait together share a commit.
    pub fn is_change(&self) -> bool {
        matches!(
            self,
            Self::CreateJob(..)
                | Self::ChangeJob(..)
                | Self::DeleteJob(..)
                | Self::CreateSchedule(..)
                | Self::UpdateSchedule(..)
                | Self::DeleteSchedule(..)
                | Self::RegisterWorkload(..)
                | Self::ReplaceWorkloads(..)
                | Self::UnregisterWorkload(..)
                | Self::SetHold(..)
        )
    }
}

/// A question or a change; see the methods of [`super::Handle`].
#[derive(Debug)]
pub enum Command {
    /// Resolves workloads of a caller, or of everybody.
    Select(Target, Option<Caller>, Reply<Selected>),
    /// Who may make room for a migration of a caller.
    Offers(MigrationSpec, Caller, Reply<Offers>),
    /// Creates or finds a job.
    CreateJob(Caller, CreateJob, Pins, Found, Reply<Made>),
    /// Finds the job of a request.
    FindRequest(Caller, CreateJob, Reply<Option<AnyJob>>),
    /// One job.
    GetJob(JobId, Reply<AnyJob>),
    /// A job as the store has it: for what could not be read beside the dispatcher.
    StoredJob(JobId, Reply<Option<Job>>),
    /// Events as the store has them, for the same.
    StoredEvents(Vec<u64>, Reply<Vec<Event>>),
    /// Jobs.
    ListJobs(ListJobs, Reply<Listed<ListedJob>>),
    /// Watches a job.
    WatchJob(JobId, Reply<(watch::Receiver<Arc<Job>>, AnyJob)>),
    /// Changes a job.
    ChangeJob(Caller, JobId, Change, Reply<Arc<Job>>),
    /// Deletes a job that has ended.
    DeleteJob(Caller, DeleteJob, Reply<()>),
    /// Creates a schedule.
    CreateSchedule(Caller, CreateSchedule, Pins, Reply<MadeSchedule>),
    /// Finds the schedule of a request.
    FindScheduleRequest(Caller, CreateSchedule, Reply<Option<Arc<Schedule>>>),
    /// One schedule.
    GetSchedule(ScheduleId, Reply<Arc<Schedule>>),
    /// Schedules.
    ListSchedules(ListSchedules, Reply<Listed<Arc<Schedule>>>),
    /// Has a schedule run now.
    RunSchedule(Caller, RunSchedule, Reply<Made>),
    /// Changes a schedule.
    UpdateSchedule(Caller, UpdateSchedule, Pins, Reply<Arc<Schedule>>),
    /// Removes a schedule.
    DeleteSchedule(Caller, DeleteSchedule, Reply<()>),
    /// What a request changes of a workload, and whether it has been made already.
    BeginRegister(Caller, RegisterWorkload, Reply<Registering>),
    /// Registers a workload.
    RegisterWorkload(Caller, RegisterWorkload, Reply<Arc<Workload>>),
    /// Registers a set of workloads, and forgets what is not in it.
    ReplaceWorkloads(Caller, WorkloadSet, Reply<Replaced>),
    /// Renews the leases of a set and counts its workloads. Stores nothing, so it is a question.
    RenewWorkloads(Caller, RenewWorkloads, Reply<usize>),
    /// Forgets a workload.
    UnregisterWorkload(Caller, UnregisterWorkload, Reply<()>),
    /// One workload.
    GetWorkload(WorkloadId, Reply<Arc<Workload>>),
    /// Workloads.
    ListWorkloads(ListWorkloads, Reply<Listed<Arc<Workload>>>),
    /// Changes of workloads after a number.
    WorkloadsAfter(WorkloadFilter, u64, usize, Reply<RecordChanges<Arc<Workload>, WorkloadId>>),
    /// Changes of jobs after a number.
    JobsAfter(JobFilter, u64, usize, Reply<RecordChanges<ListedJob, JobId>>),
    /// Changes of schedules after a number.
    SchedulesAfter(ScheduleFilter, u64, usize, Reply<RecordChanges<Arc<Schedule>, ScheduleId>>),
    /// Begins a watch of all records of a kind, or goes on with one after a token.
    BeginWatch(RecordKind, Option<String>, Reply<Begin>),
    /// Workloads whose cpusets are watched, after this one in the order of names.
    WatchedWorkloads(Option<WorkloadId>, usize, Reply<Vec<(WorkloadId, String)>>),
    /// The CPUs or nodes of these cgroups have changed.
    CpusetsChanged(BTreeSet<String>, Reply<()>),
    /// Events.
    ListEvents(ListEvents, Reply<(AnyEvents, Option<String>)>),
    /// Whether all events after a number are kept.
    CheckCursor(u64, Reply<()>),
    /// Events after a number.
    EventsAfter(EventFilter, u64, usize, Reply<(AnyEvents, u64)>),
    /// Sets or clears a hold (drained or paused).
    SetHold(Caller, Hold, bool, Reply<Holds>),
    /// What the store holds at this moment.
    Snapshot(Reply<Snapshot>),
    /// What the daemon is doing.
    Status(Reply<Status>),
    /// Ends runs after their current batches, then the dispatcher.
    Stop,
}

//! What the services ask of the dispatcher.

use super::{
    Begin, Hold, Refusal,
    command::{Change, Command, Reply},
};
use crate::{
    access::Caller,
    engine::{Aim, Found},
    store::{Holds, Snapshot},
};
use numaloc_api::{
    encoded::ListedJob,
    value::{
        CreateJob, CreateSchedule, DeleteSchedule, Event, EventFilter, Job, JobFilter, JobId,
        JobState, ListEvents, ListJobs, ListSchedules, ListWorkloads, Pins, QosClass,
        RegisterWorkload, RenewWorkloads, RunSchedule, Schedule, ScheduleFilter, ScheduleId,
        Target, UnregisterWorkload, UpdateSchedule, Workload, WorkloadFilter, WorkloadId,
        WorkloadSet,
    },
};
use std::{collections::BTreeSet, sync::Arc, time::SystemTime};
use tokio::sync::{mpsc, oneshot, watch};

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// Its entries.
    pub entries: Vec<T>,
    /// The token of the next page; `None`: there is none.
    pub next: Option<String>,
}

/// What a target means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// What it names, workloads by their cgroups.
    pub aim: Aim,
    /// The best class of the workloads that it names, if any has one.
    pub qos_class: Option<QosClass>,
}

/// A job, and whether it was there before.
pub type Made = (Arc<Job>, bool);

/// What has become of a set of workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// New, or changed.
    pub written: usize,
    /// There as they are.
    pub unchanged: usize,
    /// Forgotten.
    pub removed: usize,
}

/// What has become of a record of which a watch shows `T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange<T, K> {
    /// It is there: new, changed, or as it was before the watch.
    Present(T),
    /// It is not there, or not among those that are watched.
    Removed(K),
    /// What there was before the watch has been told.
    CaughtUp,
}

/// Some changes of records.
#[derive(Clone, Debug)]
pub struct RecordChanges<T, K> {
    /// Each with its number, and with what goes on after it.
    pub changes: Vec<(u64, RecordChange<T, K>, String)>,
    /// Up to which number was looked.
    pub seen: u64,
    /// What goes on after that.
    pub token: String,
}

/// What can be watched as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Jobs.
    Job,
    /// Schedules.
    Schedule,
    /// Workloads.
    Workload,
}

/// How many jobs are in a state.
pub type JobCount = (JobState, usize);

/// What the daemon is doing.
#[derive(Clone, Debug)]
pub struct Status {
    /// When it started.
    pub started: SystemTime,
    /// Jobs by state, those without any left out.
    pub jobs: Vec<JobCount>,
    /// Schedules.
    pub schedules: usize,
    /// Workloads.
    pub workloads: usize,
    /// Bytes moved since the start.
    pub moved_bytes: u64,
    /// Which store the records are in.
    pub store_id: u64,
    /// What keeps moves from beginning.
    pub holds: Holds,
    /// Schedules that find their work undone again and again.
    pub fights: usize,
    /// What it cannot do, and what to do about it.
    pub problems: Vec<String>,
}

/// Talks to the dispatcher. Cheap to clone. Every call fails with [`Refusal::Unavailable`] once it has stopped.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    last_event: watch::Receiver<u64>,
}

impl Handle {
    pub(super) fn new(commands: mpsc::Sender<Command>, last_event: watch::Receiver<u64>) -> Self {
        Self { commands, last_event }
    }

    /// One whose dispatcher has stopped.
    #[cfg(test)]
    pub fn stopped() -> Self {
        Self::new(mpsc::channel(1).0, watch::channel(0).1)
    }

    /// Sends a command and waits for the answer.
    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Refusal> {
        let gone = || Refusal::Unavailable { message: "the daemon is stopping".into() };
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Ends the runs under way after their batches in hand, saves them, and ends the dispatcher.
    pub async fn stop(&self) {
        // It has stopped already if this fails.
        let _ = self.commands.send(Command::Stop).await;
    }

    /// Resolves workloads for who only looks: everybody's, and processes that have these pids now.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: nothing of it is registered.
    pub async fn select(&self, target: Target) -> Result<Selected, Refusal> {
        self.ask(|reply| Command::Select(target, None, reply)).await
    }

    /// Resolves workloads for a job to be: those that `of` may select, and processes that have these pids now.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: nothing of it is registered for `of`.
    pub async fn select_for(&self, of: Caller, target: Target) -> Result<Selected, Refusal> {
        self.ask(|reply| Command::Select(target, Some(of), reply)).await
    }

    /// Creates a job for what was found, or gives back the one that it joins or that an earlier request made (then `true`).
    ///
    /// # Errors
    /// Conflict, already exists, quota, store.
    pub async fn create_job(
        &self,
        caller: Caller,
        request: CreateJob,
        pins: Pins,
        found: Found,
    ) -> Result<Made, Refusal> {
        self.ask(|reply| Command::CreateJob(caller, request, pins, found, reply)).await
    }

    /// A job that an earlier request of the caller with this request_id made; asked before the target is looked at, which
    /// may have gone meanwhile.
    ///
    /// # Errors
    /// Already exists: with another request.
    pub async fn find_request(
        &self,
        caller: Caller,
        request: CreateJob,
    ) -> Result<Option<Arc<Job>>, Refusal> {
        self.ask(|reply| Command::FindRequest(caller, request, reply)).await
    }

    /// One job, whole.
    ///
    /// # Errors
    /// Not found, store.
    pub async fn get_job(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        self.ask(|reply| Command::GetJob(id, reply)).await
    }

    /// Jobs, newest first.
    ///
    /// # Errors
    /// Page token.
    pub async fn list_jobs(&self, request: ListJobs) -> Result<Listed<ListedJob>, Refusal> {
        self.ask(|reply| Command::ListJobs(request, reply)).await
    }

    /// A job and its changes; the sender is dropped after the last one. Of one that has ended there is one value.
    ///
    /// # Errors
    /// Not found.
    pub async fn watch_job(&self, id: JobId) -> Result<watch::Receiver<Arc<Job>>, Refusal> {
        self.ask(|reply| Command::WatchJob(id, reply)).await
    }

    /// Ends a job after the batches in hand.
    ///
    /// # Errors
    /// Not found, wrong state, not permitted, store.
    pub async fn cancel_job(&self, caller: Caller, id: JobId) -> Result<Arc<Job>, Refusal> {
        self.ask(|reply| Command::ChangeJob(caller, id, Change::Cancel, reply)).await
    }

    /// Holds a job after the batches in hand.
    ///
    /// # Errors
    /// Not found, wrong state, not permitted, store.
    pub async fn pause_job(&self, caller: Caller, id: JobId) -> Result<Arc<Job>, Refusal> {
        self.ask(|reply| Command::ChangeJob(caller, id, Change::Pause, reply)).await
    }

    /// Queues a held job again.
    ///
    /// # Errors
    /// Not found, wrong state, not permitted, store.
    pub async fn resume_job(&self, caller: Caller, id: JobId) -> Result<Arc<Job>, Refusal> {
        self.ask(|reply| Command::ChangeJob(caller, id, Change::Resume, reply)).await
    }

    /// Creates a schedule, or gives back what an earlier request with the same request_id made.
    ///
    /// # Errors
    /// Already exists, quota, store.
    pub async fn create_schedule(
        &self,
        caller: Caller,
        request: CreateSchedule,
        pins: Pins,
    ) -> Result<Arc<Schedule>, Refusal> {
        self.ask(|reply| Command::CreateSchedule(caller, request, pins, reply)).await
    }

    /// A schedule that an earlier request of the caller with this request_id made; asked before the target is looked at,
    /// which may have gone meanwhile.
    ///
    /// # Errors
    /// Already exists: with another request.
    pub async fn find_schedule_request(
        &self,
        caller: Caller,
        request: CreateSchedule,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        self.ask(|reply| Command::FindScheduleRequest(caller, request, reply)).await
    }

    /// One schedule.
    ///
    /// # Errors
    /// Not found.
    pub async fn get_schedule(&self, id: ScheduleId) -> Result<Arc<Schedule>, Refusal> {
        self.ask(|reply| Command::GetSchedule(id, reply)).await
    }

    /// Schedules, newest first.
    ///
    /// # Errors
    /// Page token.
    pub async fn list_schedules(
        &self,
        request: ListSchedules,
    ) -> Result<Listed<Arc<Schedule>>, Refusal> {
        self.ask(|reply| Command::ListSchedules(request, reply)).await
    }

    /// Has a schedule run now: its job, and whether that was there before: queued or under way, or made by an earlier request
    /// with the same request_id.
    ///
    /// # Errors
    /// Not found, already exists, target not found or empty, etag (it was changed meanwhile), not permitted, store.
    pub async fn run_schedule(
        &self,
        caller: Caller,
        request: RunSchedule,
    ) -> Result<Made, Refusal> {
        self.ask(|reply| Command::RunSchedule(caller, request, reply)).await
    }

    /// Changes a schedule; `pins` go with a new target.
    ///
    /// # Errors
    /// Invalid, not found, etag, not permitted, store.
    pub async fn update_schedule(
        &self,
        caller: Caller,
        request: UpdateSchedule,
        pins: Pins,
    ) -> Result<Arc<Schedule>, Refusal> {
        self.ask(|reply| Command::UpdateSchedule(caller, request, pins, reply)).await
    }

    /// Removes a schedule.
    ///
    /// # Errors
    /// Not found, etag, not permitted, store.
    pub async fn delete_schedule(
        &self,
        caller: Caller,
        request: DeleteSchedule,
    ) -> Result<(), Refusal> {
        self.ask(|reply| Command::DeleteSchedule(caller, request, reply)).await
    }

    /// Registers a workload.
    ///
    /// # Errors
    /// Etag, not permitted, quota, store.
    pub async fn register_workload(
        &self,
        caller: Caller,
        request: RegisterWorkload,
    ) -> Result<Arc<Workload>, Refusal> {
        self.ask(|reply| Command::RegisterWorkload(caller, request, reply)).await
    }

    /// Makes a set of the caller's what it declares, all or nothing.
    ///
    /// # Errors
    /// Not permitted, quota, store.
    pub async fn replace_workloads(
        &self,
        caller: Caller,
        set: WorkloadSet,
    ) -> Result<Replaced, Refusal> {
        self.ask(|reply| Command::ReplaceWorkloads(caller, set, reply)).await
    }

    /// Begins the leases of a set of the caller's anew. Gives back how many workloads it has.
    ///
    /// # Errors
    /// Only when the daemon stops.
    pub async fn renew_workloads(
        &self,
        caller: Caller,
        request: RenewWorkloads,
    ) -> Result<usize, Refusal> {
        self.ask(|reply| Command::RenewWorkloads(caller, request, reply)).await
    }

    /// Forgets a workload.
    ///
    /// # Errors
    /// Not found, etag, not permitted, store.
    pub async fn unregister_workload(
        &self,
        caller: Caller,
        request: UnregisterWorkload,
    ) -> Result<(), Refusal> {
        self.ask(|reply| Command::UnregisterWorkload(caller, request, reply)).await
    }

    /// One workload.
    ///
    /// # Errors
    /// Not found.
    pub async fn get_workload(&self, id: WorkloadId) -> Result<Arc<Workload>, Refusal> {
        self.ask(|reply| Command::GetWorkload(id, reply)).await
    }

    /// Workloads in the order of their names.
    ///
    /// # Errors
    /// Page token.
    pub async fn list_workloads(
        &self,
        request: ListWorkloads,
    ) -> Result<Listed<Arc<Workload>>, Refusal> {
        self.ask(|reply| Command::ListWorkloads(request, reply)).await
    }

    /// Changes of workloads after number `after`, 0: all workloads, at most `most`, oldest first.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: not all are known any more.
    pub async fn workloads_after(
        &self,
        filter: WorkloadFilter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<Arc<Workload>, WorkloadId>, Refusal> {
        self.ask(|reply| Command::WorkloadsAfter(filter, after, most, reply)).await
    }

    /// Changes of jobs after number `after`, 0: all jobs, as lists show them; at most `most`, oldest first.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: not all are known any more.
    pub async fn jobs_after(
        &self,
        filter: JobFilter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<ListedJob, JobId>, Refusal> {
        self.ask(|reply| Command::JobsAfter(filter, after, most, reply)).await
    }

    /// Changes of schedules after number `after`, 0: all schedules; at most `most`, oldest first.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: not all are known any more.
    pub async fn schedules_after(
        &self,
        filter: ScheduleFilter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<Arc<Schedule>, ScheduleId>, Refusal> {
        self.ask(|reply| Command::SchedulesAfter(filter, after, most, reply)).await
    }

    /// Begins a watch of all records of a kind. With a token of such a watch it goes on after that change.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: not all changes after it are known.
    pub async fn begin_watch(
        &self,
        of: RecordKind,
        token: Option<String>,
    ) -> Result<Begin, Refusal> {
        self.ask(|reply| Command::BeginWatch(of, token, reply)).await
    }

    /// Workloads with their cgroups after one by its name, `most` at most; none while no schedule waits for its next run.
    ///
    /// # Errors
    /// Only when it has stopped.
    pub async fn watched_workloads(
        &self,
        after: Option<WorkloadId>,
        most: usize,
    ) -> Result<Vec<(WorkloadId, String)>, Refusal> {
        self.ask(|reply| Command::WatchedWorkloads(after, most, reply)).await
    }

    /// Has schedules run that wait and that these cgroups, which have other CPUs or nodes now, belong to.
    ///
    /// # Errors
    /// Only when it has stopped.
    pub async fn cpusets_changed(&self, cgroups: BTreeSet<String>) -> Result<(), Refusal> {
        self.ask(|reply| Command::CpusetsChanged(cgroups, reply)).await
    }

    /// Stored events, oldest first.
    ///
    /// # Errors
    /// Page token, store.
    pub async fn list_events(&self, request: ListEvents) -> Result<Listed<Arc<Event>>, Refusal> {
        self.ask(|reply| Command::ListEvents(request, reply)).await
    }

    /// Stored events after number `after` that fit, oldest first, at most `most`, and up to which number was looked.
    ///
    /// # Errors
    /// Store.
    pub async fn events_after(
        &self,
        filter: EventFilter,
        after: u64,
        most: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Refusal> {
        self.ask(|reply| Command::EventsAfter(filter, after, most, reply)).await
    }

    /// Whether a client that has seen this event can go on after it.
    ///
    /// # Errors
    /// [`Refusal::Cursor`]: some after it have been forgotten, or it has not been there.
    pub async fn check_cursor(&self, after: u64) -> Result<(), Refusal> {
        self.ask(|reply| Command::CheckCursor(after, reply)).await
    }

    /// The number of the last event; changes with each new one. A watcher reads what it has not seen with
    /// [`Self::events_after`], so that nothing queues up for a slow one.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.last_event.clone()
    }

    /// Begins (`on`) or ends what keeps moves from beginning; gives back what does now.
    ///
    /// # Errors
    /// Store.
    pub async fn set_hold(&self, caller: Caller, hold: Hold, on: bool) -> Result<Holds, Refusal> {
        self.ask(|reply| Command::SetHold(caller, hold, on, reply)).await
    }

    /// What the store holds at this moment, to be copied while it goes on.
    ///
    /// # Errors
    /// Store.
    pub async fn snapshot(&self) -> Result<Snapshot, Refusal> {
        self.ask(Command::Snapshot).await
    }

    /// What the daemon is doing.
    ///
    /// # Errors
    /// Only when it has stopped.
    pub async fn status(&self) -> Result<Status, Refusal> {
        self.ask(Command::Status).await
    }
}

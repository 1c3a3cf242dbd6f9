//! What the services ask of the dispatcher.

use super::{
    changes::{Begin, RecordChanges},
    command::{
        Change, Command, Hold, JobAction, Made, MadeSchedule, Registering, Replaced, stopping,
    },
    dispatcher::Dispatcher,
    lists::{Listable, WATCHED_BYTES},
    page::Listed,
    rest::{AnyEvents, AnyJob, Reading},
    selected::{Selected, plain},
    status::Status,
};
use crate::{
    access::Caller,
    order::{Found, Offers},
    refusal::Refusal,
    store::{Holds, Snapshot, Weight},
};
use numaloc_api::value::{
    CreateJob, CreateSchedule, DeleteJob, DeleteSchedule, Event, EventFilter, Job, JobId,
    ListEvents, ListOf, MigrationSpec, Pins, RegisterWorkload, RenewWorkloads, RunSchedule,
    Schedule, ScheduleId, Target, UnregisterWorkload, UpdateSchedule, Workload, WorkloadId,
    WorkloadSet,
};
use numaloc_core::MakeRoom;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::{mpsc, oneshot, watch};

/// What a change counts for whose request names nothing of any length, in bytes.
const SMALL: usize = 1024;

/// Talks to the dispatcher. Cheap to clone. Every call fails with [`Refusal::Unavailable`] once the dispatcher has stopped.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: mpsc::Sender<Command<Dispatcher>>,
    last_event: watch::Receiver<u64>,
    reading: Reading,
}

impl Handle {
    pub(super) fn new(
        commands: mpsc::Sender<Command<Dispatcher>>,
        last_event: watch::Receiver<u64>,
    ) -> Self {
        Self { commands, last_event, reading: Reading::default() }
    }

    /// The turns in which records are read beside the dispatcher.
    #[cfg(test)]
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// A handle whose dispatcher has stopped.
    #[cfg(test)]
    pub fn stopped() -> Self {
        Self::new(mpsc::channel(1).0, watch::channel(0).1)
    }

    /// Asks the dispatcher a question, which changes no record.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Dispatcher) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let question = move |dispatcher: &mut Dispatcher| {
            // This fails only if the caller has gone.
            let _ = reply.send(question(dispatcher));
        };
        self.send(Command::Question(Box::new(question)), answer).await
    }

    /// Has the dispatcher change records; the change writes about this number of bytes. If the caller goes away, the change
    /// is made nevertheless.
    async fn change<T: Send + 'static>(
        &self,
        bytes: usize,
        change: impl FnOnce(&mut Dispatcher) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let change = move |dispatcher: &mut Dispatcher| {
            let done = match dispatcher.stopping {
                Some(_) => Err(stopping()),
                None => change(dispatcher),
            };
            dispatcher.answer(reply, done);
        };
        self.send(Command::Change(Change { bytes, make: Box::new(change) }), answer).await
    }

    /// Sends a command and waits for its answer.
    async fn send<T>(
        &self,
        command: Command<Dispatcher>,
        answer: oneshot::Receiver<Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        self.commands.send(command).await.map_err(|_| stopping())?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Ends the runs under way after their current batches, saves them, and ends the dispatcher.
    pub async fn stop(&self) {
        // This fails only if the dispatcher has stopped already.
        let _ = self.commands.send(Command::Stop).await;
    }

    /// Resolves a target for a caller that only looks: workloads of all owners, and the processes that have these pids now.
    /// A target that names neither cgroups nor workloads does not wait for the dispatcher.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: no workload of the target is registered.
    pub async fn select(&self, target: Target) -> Result<Selected, Refusal> {
        match plain(&target) {
            Some(selected) => Ok(selected),
            None => self.ask(move |dispatcher| dispatcher.select(&target, None, None)).await,
        }
    }

    /// Resolves a target for a job to be created: workloads that `of` may select, and the processes that have these pids
    /// now. It waits as [`Self::select`] does.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: no workload of the target is registered for `of`.
    pub async fn select_for(&self, of: Caller, target: Target) -> Result<Selected, Refusal> {
        match plain(&target) {
            Some(selected) => Ok(selected),
            None => self.ask(move |dispatcher| dispatcher.select(&target, Some(&of), None)).await,
        }
    }

    /// Who may make room for a migration of `of`. Waits for the dispatcher only if there may be somebody.
    ///
    /// # Errors
    /// The dispatcher has gone.
    pub async fn offers(&self, of: Caller, spec: MigrationSpec) -> Result<Offers, Refusal> {
        if spec.policy.options.make_room != MakeRoom::Exchange {
            return Ok(Offers::default());
        }
        self.ask(move |dispatcher| Ok(dispatcher.offers(&spec, &of))).await
    }

    /// Creates a job for what was found (`false`). Or gives back the job that the request joins, or that an earlier request
    /// with the same request_id made (`true`).
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
        let bytes = request.spec.weight() + found.members.weight();
        self.change(bytes, move |dispatcher| dispatcher.create_job(&caller, request, pins, found))
            .await
    }

    /// The job that an earlier request of the caller with this request_id made. To be asked before the target is looked at,
    /// because the target may have gone meanwhile.
    ///
    /// # Errors
    /// Already exists: the request_id was used for another request.
    pub async fn find_request(
        &self,
        caller: Caller,
        request: CreateJob,
    ) -> Result<Option<Arc<Job>>, Refusal> {
        match self.ask(move |dispatcher| dispatcher.find_any_request(&caller, &request)).await? {
            Some(job) => self.whole(job).await.map(Some),
            None => Ok(None),
        }
    }

    /// One job, with its plan and outcome.
    ///
    /// # Errors
    /// Not found, store.
    pub async fn get_job(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        let job = self.ask(move |dispatcher| dispatcher.get_any_job(&id)).await?;
        self.whole(job).await
    }

    /// A job with its plan and outcome, which is read beside the dispatcher.
    async fn whole(&self, (job, reader): AnyJob) -> Result<Arc<Job>, Refusal> {
        let Some(reader) = reader else { return Ok(job) };
        let id = job.id.clone();
        let whole = match self.reading.take(move || Ok(reader.job(&id)?)).await {
            Ok(whole) => whole,
            // The dispatcher can have the store opened anew.
            Err(_) => {
                let id = job.id.clone();
                self.ask(move |dispatcher| dispatcher.records.stored_job(&id)).await?
            }
        };
        Ok(whole.map_or(job, Arc::new))
    }

    /// The same of events.
    async fn whole_events(&self, mut events: AnyEvents) -> Result<Vec<Arc<Event>>, Refusal> {
        let Some(reader) = events.reader.take() else { return Ok(events.with(Vec::new())) };
        let numbers = events.numbers();
        let asked = numbers.clone();
        let read = match self.reading.take(move || Ok(reader.events(&asked)?)).await {
            Ok(read) => read,
            Err(_) => {
                self.ask(move |dispatcher| dispatcher.records.stored_events(&numbers)).await?
            }
        };
        Ok(events.with(read))
    }

    /// A job and its changes. The sender is dropped after the last one. For a job that has ended there is only one value.
    ///
    /// # Errors
    /// Not found.
    pub async fn watch_job(&self, id: JobId) -> Result<watch::Receiver<Arc<Job>>, Refusal> {
        let (changes, job) = self.ask(move |dispatcher| dispatcher.watch_job(&id)).await?;
        match job.1 {
            None => Ok(changes),
            // It has ended, so this is its only value.
            Some(_) => Ok(watch::channel(self.whole(job).await?).1),
        }
    }

    /// Ends a job after its current batches.
    ///
    /// # Errors
    /// Not found, wrong state, not permitted, store.
    pub async fn cancel_job(&self, caller: Caller, id: JobId) -> Result<Arc<Job>, Refusal> {
        self.change(SMALL, move |dispatcher| dispatcher.change_job(&caller, &id, JobAction::Cancel))
            .await
    }

    /// Pauses a job after its current batches.
    ///
    /// # Errors
    /// Not found, wrong state, not permitted, store.
    pub async fn pause_job(&self, caller: Caller, id: JobId) -> Result<Arc<Job>, Refusal> {
        self.change(SMALL, move |dispatcher| dispatcher.change_job(&caller, &id, JobAction::Pause))
            .await
    }

    /// Queues a paused job again.
    ///
    /// # Errors
    /// Not found, wrong state, not permitted, store.
    pub async fn resume_job(&self, caller: Caller, id: JobId) -> Result<Arc<Job>, Refusal> {
        self.change(SMALL, move |dispatcher| dispatcher.change_job(&caller, &id, JobAction::Resume))
            .await
    }

    /// Deletes a job that has ended.
    ///
    /// # Errors
    /// Not found, wrong state, not permitted, store.
    pub async fn delete_job(&self, caller: Caller, request: DeleteJob) -> Result<(), Refusal> {
        self.change(SMALL, move |dispatcher| dispatcher.delete_job(&caller, &request)).await
    }

    /// Creates a schedule (`false`), or gives back what an earlier request with the same request_id made (`true`).
    ///
    /// # Errors
    /// Already exists, quota, store.
    pub async fn make_schedule(
        &self,
        caller: Caller,
        request: CreateSchedule,
        pins: Pins,
    ) -> Result<MadeSchedule, Refusal> {
        let bytes = request.spec.migration.weight();
        self.change(bytes, move |dispatcher| dispatcher.create_schedule(&caller, request, pins))
            .await
    }

    /// The schedule of [`Self::make_schedule`].
    ///
    /// # Errors
    /// Those of [`Self::make_schedule`].
    #[cfg(test)]
    pub async fn create_schedule(
        &self,
        caller: Caller,
        request: CreateSchedule,
        pins: Pins,
    ) -> Result<Arc<Schedule>, Refusal> {
        Ok(self.make_schedule(caller, request, pins).await?.0)
    }

    /// The schedule that an earlier request of the caller with this request_id made. To be asked before the target is
    /// looked at, because the target may have gone meanwhile.
    ///
    /// # Errors
    /// Already exists: the request_id was used for another request.
    pub async fn find_schedule_request(
        &self,
        caller: Caller,
        request: CreateSchedule,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        self.ask(move |dispatcher| dispatcher.find_schedule_request(&caller, &request)).await
    }

    /// One schedule.
    ///
    /// # Errors
    /// Not found.
    pub async fn get_schedule(&self, id: ScheduleId) -> Result<Arc<Schedule>, Refusal> {
        self.ask(move |dispatcher| dispatcher.get_schedule(&id)).await
    }

    /// Runs a schedule now. Gives back its job, and whether that existed before: queued or under way, or made by an earlier request
    /// with the same request_id.
    ///
    /// # Errors
    /// Not found, already exists, target not found or empty, etag (the schedule was changed meanwhile), not permitted, store.
    pub async fn run_schedule(
        &self,
        caller: Caller,
        request: RunSchedule,
    ) -> Result<Made, Refusal> {
        // The dispatcher answers once the engine has looked for the target.
        let (reply, answer) = oneshot::channel();
        let run = move |dispatcher: &mut Dispatcher| dispatcher.run_now(&caller, request, reply);
        self.send(Command::Question(Box::new(run)), answer).await
    }

    /// Changes a schedule. `pins` belong to the new target, if the change has one.
    ///
    /// # Errors
    /// Invalid, not found, etag, not permitted, store.
    pub async fn update_schedule(
        &self,
        caller: Caller,
        request: UpdateSchedule,
        pins: Pins,
    ) -> Result<Arc<Schedule>, Refusal> {
        let bytes = request.update.target.as_ref().map_or(SMALL, Weight::weight);
        self.change(bytes, move |dispatcher| dispatcher.update_schedule(&caller, request, pins))
            .await
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
        self.change(SMALL, move |dispatcher| dispatcher.delete_schedule(&caller, request)).await
    }

    /// What a request with a mask or a request_id comes to. To be asked before the cgroup of the workload is looked for.
    ///
    /// # Errors
    /// Invalid, not found, name taken, already exists, etag, not permitted.
    pub async fn begin_register(
        &self,
        caller: Caller,
        request: RegisterWorkload,
    ) -> Result<Registering, Refusal> {
        self.ask(move |dispatcher| dispatcher.begin_register(&caller, &request)).await
    }

    /// Registers a workload as a whole.
    ///
    /// # Errors
    /// Name taken, etag, not permitted, quota, store.
    pub async fn register_workload(
        &self,
        caller: Caller,
        request: RegisterWorkload,
    ) -> Result<Arc<Workload>, Refusal> {
        let bytes = request.spec.weight();
        self.change(bytes, move |dispatcher| dispatcher.register_workload(&caller, request)).await
    }

    /// Replaces a set of the caller's workloads by what the set declares, all or nothing.
    ///
    /// # Errors
    /// Not permitted, quota, store.
    pub async fn replace_workloads(
        &self,
        caller: Caller,
        set: WorkloadSet,
    ) -> Result<Replaced, Refusal> {
        let bytes = set.specs.weight();
        self.change(bytes, move |dispatcher| dispatcher.replace_workloads(&caller, set)).await
    }

    /// Renews the leases of a set of the caller's workloads. Gives back how many workloads the set has.
    ///
    /// # Errors
    /// Only when the daemon stops.
    pub async fn renew_workloads(
        &self,
        caller: Caller,
        request: RenewWorkloads,
    ) -> Result<usize, Refusal> {
        self.ask(move |dispatcher| Ok(dispatcher.renew_workloads(&caller, &request))).await
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
        self.change(SMALL, move |dispatcher| dispatcher.unregister_workload(&caller, &request))
            .await
    }

    /// One workload.
    ///
    /// # Errors
    /// Not found.
    pub async fn get_workload(&self, id: WorkloadId) -> Result<Arc<Workload>, Refusal> {
        self.ask(move |dispatcher| dispatcher.get_workload(&id)).await
    }

    /// Jobs and schedules, newest first; workloads in the order of their names.
    ///
    /// # Errors
    /// Page token.
    pub async fn list<R: Listable>(
        &self,
        request: ListOf<R::Filter>,
    ) -> Result<Listed<R::Shown>, Refusal> {
        self.ask(move |dispatcher| dispatcher.list::<R>(&request)).await
    }

    /// At most `most` changes of records with numbers above `after`, oldest first. 0: all records.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: some of these changes are not known any more.
    pub async fn changes_after<R: Listable>(
        &self,
        filter: R::Filter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<R::Shown, R::Id>, Refusal> {
        self.ask(move |dispatcher| dispatcher.changes_after::<R>(&filter, after, most)).await
    }

    /// Begins a watch of all records of a kind; with a token of an earlier watch, after the change that the token names.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: not all changes after it are known.
    pub async fn begin_watch<R: Listable>(&self, token: Option<String>) -> Result<Begin, Refusal> {
        self.ask(move |dispatcher| dispatcher.begin_watch::<R>(token.as_deref())).await
    }

    /// At most `most` workloads with their cgroups, after `after` in the order of names. None while no schedule waits for
    /// its next run.
    ///
    /// # Errors
    /// Only when it has stopped.
    pub async fn watched_workloads(
        &self,
        after: Option<WorkloadId>,
        most: usize,
    ) -> Result<Vec<(WorkloadId, String)>, Refusal> {
        self.ask(move |dispatcher| Ok(dispatcher.watched_workloads(after.as_ref(), most))).await
    }

    /// Makes waiting schedules due whose targets include one of these cgroups. The CPUs or nodes of these cgroups have
    /// changed.
    ///
    /// # Errors
    /// Only when it has stopped.
    pub async fn cpusets_changed(&self, cgroups: BTreeSet<String>) -> Result<(), Refusal> {
        self.ask(move |dispatcher| {
            dispatcher.cpusets_changed(cgroups);
            Ok(())
        })
        .await
    }

    /// Stored events, oldest first.
    ///
    /// # Errors
    /// Page token, store.
    pub async fn list_events(&self, request: ListEvents) -> Result<Listed<Arc<Event>>, Refusal> {
        let (events, next) = self.ask(move |dispatcher| dispatcher.list_events(&request)).await?;
        Ok(Listed { entries: self.whole_events(events).await?, next })
    }

    /// At most `most` stored events after number `after` that match the filter, oldest first; and the number of the last
    /// event that was looked at.
    ///
    /// # Errors
    /// Store.
    pub async fn events_after(
        &self,
        filter: EventFilter,
        after: u64,
        most: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Refusal> {
        let asked = move |dispatcher: &mut Dispatcher| {
            dispatcher.events_after(&filter, after, most, WATCHED_BYTES)
        };
        let (events, seen) = self.ask(asked).await?;
        Ok((self.whole_events(events).await?, seen))
    }

    /// Whether a client that has seen this event can go on after it.
    ///
    /// # Errors
    /// [`Refusal::Cursor`]: some later events have been forgotten, or there never was an event with this number.
    pub async fn check_cursor(&self, after: u64) -> Result<(), Refusal> {
        self.ask(move |dispatcher| dispatcher.check_cursor(after)).await
    }

    /// Receives the number of the last event, which changes with each new one. A watcher reads the events it has not seen
    /// with [`Self::events_after`], so that nothing queues up for a slow watcher.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.last_event.clone()
    }

    /// Sets (`on`) or clears a hold. Gives back all holds as they are now.
    ///
    /// # Errors
    /// Store.
    pub async fn set_hold(&self, caller: Caller, hold: Hold, on: bool) -> Result<Holds, Refusal> {
        self.change(SMALL, move |dispatcher| dispatcher.set_hold(&caller, hold, on)).await
    }

    /// What the store holds at this moment. It can be copied while the store is used.
    ///
    /// # Errors
    /// Store.
    pub async fn snapshot(&self) -> Result<Snapshot, Refusal> {
        self.ask(|dispatcher| dispatcher.records.snapshot()).await
    }

    /// What the daemon is doing.
    ///
    /// # Errors
    /// Only when it has stopped.
    pub async fn status(&self) -> Result<Status, Refusal> {
        self.ask(|dispatcher| Ok(dispatcher.status())).await
    }
}

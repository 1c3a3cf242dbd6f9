//! The calls of the services to the dispatcher.

use super::{
    changes::{Begin, RecordChanges},
    command::{
        Change, Command, Hold, JobAction, Made, MadeSchedule, Registering, Replaced, stopping,
    },
    dispatcher::Dispatcher,
    lists::{Listable, WATCHED_BYTES},
    page::Listed,
    rest::{AnyEvents, AnyJob, ReadTurns},
    selected::{Selected, plain},
    shown::JobNow,
    status::DaemonStatus,
    working::LiveWork,
};
use crate::{
    access::Caller,
    accounts::Client,
    refusal::Refusal,
    store::{Holds, StoreSnapshot, Weight},
};
use numaloc_api::{
    encoded::Encoded,
    value::{
        CreateJob, CreateSchedule, DeleteJob, DeleteSchedule, Event, EventFilter, Job, JobId,
        ListEvents, ListOf, MigrationSpec, Pins, RegisterWorkload, RenewWorkloads, RunSchedule,
        Schedule, ScheduleId, Target, UnregisterWorkload, UpdateSchedule, Workload, WorkloadId,
        WorkloadSet,
    },
};
use numaloc_core::{MakeRoom, Options};
use numaloc_engine::{FoundTarget, Offers};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};

/// Weight of a change whose request names nothing of any length, in bytes.
const SMALL: usize = 1024;

/// Talks to the dispatcher. Cheap to clone. Every call fails with [`Refusal::Unavailable`] once the dispatcher has
/// stopped.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: mpsc::Sender<Command<Dispatcher>>,
    last_event: watch::Receiver<u64>,
    reading: ReadTurns,
}

impl Handle {
    pub(super) fn new(
        commands: mpsc::Sender<Command<Dispatcher>>,
        last_event: watch::Receiver<u64>,
    ) -> Self {
        Self { commands, last_event, reading: ReadTurns::default() }
    }

    /// The turns in which records are read beside the dispatcher.
    #[cfg(test)]
    pub(super) fn reading(&self) -> &ReadTurns {
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

    /// Has the dispatcher change records for a client; the change writes about this number of bytes. If the caller goes
    /// away, the change is made nevertheless.
    async fn change<T: Send + 'static>(
        &self,
        client: Client,
        bytes: usize,
        change: impl FnOnce(&mut Dispatcher) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let change = move |dispatcher: &mut Dispatcher| {
            let done = match dispatcher.stopping {
                Some(_) => Err(stopping()),
                None => dispatcher.charged(&client, change),
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

    /// Resolves a target for a caller that only looks: workloads of all owners, and the processes that have these pids
    /// now. A target that names neither cgroups nor workloads does not wait for the dispatcher.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: no workload of the target is registered.
    pub async fn select(&self, target: Target) -> Result<Selected, Refusal> {
        match plain(&target) {
            Some(selected) => Ok(selected),
            None => self.ask(move |dispatcher| dispatcher.select(&target, None, None)).await,
        }
    }

    /// Resolves a target for a job to be created: workloads that `of` may select, and the processes that have these
    /// pids now. It waits as [`Self::select`] does.
    ///
    /// # Errors
    /// [`Refusal::TargetNotFound`]: no workload of the target is registered for `of`.
    pub async fn select_for(&self, of: Caller, target: Target) -> Result<Selected, Refusal> {
        match plain(&target) {
            Some(selected) => Ok(selected),
            None => self.ask(move |dispatcher| dispatcher.select(&target, Some(&of), None)).await,
        }
    }

    /// The workloads that may make room for a migration of `of`. Waits for the dispatcher only if there may be any.
    ///
    /// # Errors
    /// The dispatcher has gone.
    pub async fn offers(&self, of: Caller, spec: MigrationSpec) -> Result<Offers, Refusal> {
        if spec.policy.options.make_room != MakeRoom::Exchange {
            return Ok(Offers::default());
        }
        self.ask(move |dispatcher| Ok(dispatcher.offers(&spec, &of))).await
    }

    /// The job that an earlier request of the caller with this request_id made: its id, and all of it. To be asked before
    /// the target is looked at, because the target may have gone meanwhile.
    ///
    /// # Errors
    /// Already exists: the request_id was used for another request.
    pub async fn earlier_job(
        &self,
        caller: Caller,
        request: CreateJob,
    ) -> Result<Option<(JobId, Encoded<Job>)>, Refusal> {
        match self.ask(move |dispatcher| dispatcher.find_any_request(&caller, &request)).await? {
            Some(job) => Ok(Some((job.0.id.clone(), self.whole(job).await?))),
            None => Ok(None),
        }
    }

    /// One job, with its plan and outcome.
    ///
    /// # Errors
    /// Not found, store.
    pub async fn whole_job(&self, id: JobId) -> Result<Encoded<Job>, Refusal> {
        let job = self.ask(move |dispatcher| dispatcher.get_any_job(&id)).await?;
        self.whole(job).await
    }

    /// A job with its plan and outcome, which is read beside the dispatcher.
    async fn whole(&self, (job, stored): AnyJob) -> Result<Encoded<Job>, Refusal> {
        let Some(stored) = stored else { return Ok(Encoded::from(&*job)) };
        let whole = match self.reading.job(job.id.clone(), stored).await {
            Ok(whole) => whole,
            // The dispatcher can have the store opened again.
            Err(_) => {
                let id = job.id.clone();
                self.ask(move |dispatcher| dispatcher.records.encoded_job(&id)).await?
            }
        };
        Ok(whole.unwrap_or_else(|| Encoded::from(&*job)))
    }

    async fn whole_events(&self, mut events: AnyEvents) -> Result<Vec<Encoded<Event>>, Refusal> {
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

    /// A job and its changes. The sender is dropped after the last one. For a job that has ended there is only one
    /// value.
    ///
    /// # Errors
    /// Not found.
    pub async fn watch_job(&self, id: JobId) -> Result<watch::Receiver<JobNow>, Refusal> {
        let (changes, job) = self.ask(move |dispatcher| dispatcher.watch_job(&id)).await?;
        match job.1 {
            None => Ok(changes),
            // It has ended, so this is its only value.
            Some(_) => {
                let known = job.0.clone();
                Ok(watch::channel(JobNow::ended(known, self.whole(job).await?)).1)
            }
        }
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

    /// Runs a schedule now. Gives back its job, and whether that existed before: queued or under way, or made by an
    /// earlier request with the same request_id.
    ///
    /// # Errors
    /// Not found, already exists, target not found or empty, etag (the schedule was changed meanwhile), not permitted,
    /// store.
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

    /// Begins a watch of all records of a kind; with a token of an earlier watch, after the change that the token
    /// names.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: not all changes after it are known.
    pub async fn begin_watch<R: Listable>(&self, token: Option<String>) -> Result<Begin, Refusal> {
        self.ask(move |dispatcher| dispatcher.begin_watch::<R>(token.as_deref())).await
    }

    /// Stored events, oldest first.
    ///
    /// # Errors
    /// Page token, store.
    pub async fn whole_event_list(
        &self,
        request: ListEvents,
    ) -> Result<Listed<Encoded<Event>>, Refusal> {
        let (events, next) = self.ask(move |dispatcher| dispatcher.list_events(&request)).await?;
        Ok(Listed { entries: self.whole_events(events).await?, next })
    }

    /// At most `most` stored events after number `after` that match the filter, oldest first; and the number of the
    /// last event that was looked at.
    ///
    /// # Errors
    /// Store.
    pub async fn whole_events_after(
        &self,
        filter: EventFilter,
        after: u64,
        most: usize,
    ) -> Result<(Vec<Encoded<Event>>, u64), Refusal> {
        let asked = move |dispatcher: &mut Dispatcher| {
            dispatcher.events_after(&filter, after, most, WATCHED_BYTES)
        };
        let (events, seen) = self.ask(asked).await?;
        Ok((self.whole_events(events).await?, seen))
    }

    /// Receives the number of the last event, which changes with each new one. A watcher reads the events it has not
    /// seen with [`Self::whole_events_after`], so that nothing queues up for a slow watcher.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.last_event.clone()
    }
}

/// Calls that only ask or change: their documentation, whom a change is charged to and how many bytes it is about to
/// write, and what the dispatcher does.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $kind:ident $([$($charged:expr),+])? $name:ident($($arg:ident: $type:ty),*) -> $answer:ty
            = |$d:ident| $call:expr;
    )+) => {
        impl Handle {$(
            $(#[$doc])*
            pub async fn $name(&self, $($arg: $type),*) -> Result<$answer, Refusal> {
                self.$kind($($($charged,)+)? move |$d: &mut Dispatcher| $call).await
            }
        )+}
    };
}

calls! {
    /// Creates a job for what was found (`false`). Or gives back the job that the request joins, or that an earlier
    /// request with the same request_id made (`true`). Refused for: conflict, already exists, quota, store.
    change[caller.client(), request.spec.weight() + found.members.weight()]
    create_job(caller: Caller, request: CreateJob, pins: Pins, found: FoundTarget) -> Made
        = |d| d.create_job(&caller, request, pins, found);

    /// Ends a job after its current batches. Refused for: not found, wrong state, not permitted, store.
    change[caller.client(), SMALL] cancel_job(caller: Caller, id: JobId) -> Arc<Job>
        = |d| d.change_job(&caller, &id, JobAction::Cancel);

    /// Pauses a job after its current batches. Refused as [`Self::cancel_job`].
    change[caller.client(), SMALL] pause_job(caller: Caller, id: JobId) -> Arc<Job>
        = |d| d.change_job(&caller, &id, JobAction::Pause);

    /// Queues a paused job again. Refused as [`Self::cancel_job`].
    change[caller.client(), SMALL] resume_job(caller: Caller, id: JobId) -> Arc<Job>
        = |d| d.change_job(&caller, &id, JobAction::Resume);

    /// Deletes a job that has ended. Refused as [`Self::cancel_job`].
    change[caller.client(), SMALL] delete_job(caller: Caller, request: DeleteJob) -> ()
        = |d| d.delete_job(&caller, &request);

    /// The schedule that an earlier request of the caller with this request_id made. To be asked before the target is
    /// looked at, because the target may have gone meanwhile. Refused if the request_id was used for another request.
    ask find_schedule_request(caller: Caller, request: CreateSchedule) -> Option<Arc<Schedule>>
        = |d| d.find_schedule_request(&caller, &request);

    /// Creates a schedule (`false`), or gives back what an earlier request with the same request_id made (`true`).
    /// Refused for: already exists, quota, store.
    change[caller.client(), request.spec.migration.weight()]
    make_schedule(caller: Caller, request: CreateSchedule, pins: Pins) -> MadeSchedule
        = |d| d.create_schedule(&caller, request, pins);

    /// The schedule of this name, as the book has it.
    ask get_schedule(id: ScheduleId) -> Arc<Schedule> = |d| d.get_schedule(&id);

    /// Changes a schedule. `pins` belong to the new target, if the change has one. Refused for: invalid, not found,
    /// etag, not permitted, store.
    change[caller.client(), request.update.target.as_ref().map_or(SMALL, Weight::weight)]
    update_schedule(caller: Caller, request: UpdateSchedule, pins: Pins) -> Arc<Schedule>
        = |d| d.update_schedule(&caller, request, pins);

    /// Removes a schedule. Refused for: not found, etag, not permitted, store.
    change[caller.client(), SMALL] delete_schedule(caller: Caller, request: DeleteSchedule) -> ()
        = |d| d.delete_schedule(&caller, request);

    /// Evaluates a request with a mask or a request_id. To be asked before the cgroup of the workload is looked for.
    /// Refused for: invalid, not found, name taken, already exists, etag, not permitted.
    ask begin_register(caller: Caller, request: RegisterWorkload) -> Registering
        = |d| d.begin_register(&caller, &request);

    /// Registers a workload as a whole. Refused for: name taken, etag, not permitted, quota, store.
    change[caller.client(), request.spec.weight()]
    register_workload(caller: Caller, request: RegisterWorkload) -> Arc<Workload>
        = |d| d.register_workload(&caller, request);

    /// Replaces a set of the caller's workloads by what the set declares, all or nothing. Refused for: not permitted,
    /// quota, store.
    change[caller.client(), set.specs.weight()] replace_workloads(caller: Caller, set: WorkloadSet) -> Replaced
        = |d| d.replace_workloads(&caller, set);

    /// Renews the leases of a set of the caller's workloads. Gives back how many workloads the set has.
    ask renew_workloads(caller: Caller, request: RenewWorkloads) -> usize
        = |d| Ok(d.renew_workloads(&caller, &request));

    /// Forgets a workload. Refused for: not found, etag, not permitted, store.
    change[caller.client(), SMALL] unregister_workload(caller: Caller, request: UnregisterWorkload) -> ()
        = |d| d.unregister_workload(&caller, &request);

    /// The workload of this name, as the book has it.
    ask get_workload(id: WorkloadId) -> Arc<Workload> = |d| d.get_workload(&id);

    /// At most `most` workloads with their cgroups, after `after` in the order of names. None while no schedule waits
    /// for its next run.
    ask watched_workloads(after: Option<WorkloadId>, most: usize) -> Vec<(WorkloadId, String)>
        = |d| Ok(d.watched_workloads(after.as_ref(), most));

    /// Makes waiting schedules due whose targets include one of these cgroups. The CPUs or nodes of these cgroups have
    /// changed.
    ask cpusets_changed(cgroups: BTreeSet<String>) -> () = |d| {
        d.cpusets_changed(cgroups);
        Ok(())
    };

    /// The options of a plan, with the configuration's bounds where it names none.
    ask bounded(options: Options) -> Options = |d| Ok(d.config().bounded(options));

    /// Whether a schedule that relieves a node waits for its next look.
    ask awaits_pressure() -> bool = |d| Ok(d.awaits_pressure());

    /// Has schedules that relieve a node look at once: the kernel reports memory pressure.
    ask on_pressure() -> () = |d| {
        d.on_pressure();
        Ok(())
    };

    /// Whether a client that has seen this event can continue after it. Refused ([`Refusal::Cursor`]) if some later
    /// events have been forgotten, or there never was an event with this number.
    ask check_cursor(after: u64) -> () = |d| d.check_cursor(after);

    /// Sets (`on`) or clears a hold. Gives back all holds as they are now.
    change[caller.client(), SMALL] set_hold(caller: Caller, hold: Hold, on: bool) -> Holds
        = |d| d.set_hold(&caller, hold, on);

    /// The contents of the store at this moment. It can be copied while the store is used.
    ask snapshot() -> StoreSnapshot = |d| d.records.snapshot();

    /// The work that a live view shows that began `up` ago.
    ask live_work(up: Duration) -> LiveWork = |d| Ok(d.live_work(up));

    ask status() -> DaemonStatus = |d| Ok(d.status());
}

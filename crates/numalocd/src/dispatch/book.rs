//! The book: all records, as far as they are kept in memory. They change only by `Write`s, which are committed to the
//! store.

use super::{
    collection::Collection, labels::Labels, names::WorkloadNames, shown::JobNow, used::Used,
};
use crate::{
    accounts::{Accounts, Client},
    config::Quota,
    refusal::Refusal,
    store::{Contents, EventHead, EventRecord, Holds, Kept, Last, Write},
};
use numaloc_api::{
    encoded::Encoded,
    value::{
        Event, EventType, Job, JobId, JobProgress, JobState, Schedule, ScheduleId, Workload,
        WorkloadId,
    },
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};
use tokio::sync::watch;

/// All records. Of a job that has ended, the book does not keep the plan and the outcome; the store has the whole
/// record.
#[derive(Debug, Default)]
pub struct Book {
    jobs: Collection<Job>,
    counts: BTreeMap<JobState, usize>,
    schedules: Collection<Schedule>,
    workloads: Collection<Workload>,
    names: WorkloadNames,
    labels: Labels,
    used: Used,
    events: VecDeque<EventHead>,
    /// The last events, whole: all who watch events read them.
    recent: Recent,
    last: Last,
    holds: Holds,
    watchers: HashMap<u64, watch::Sender<JobNow>>,
    last_event: watch::Sender<u64>,
}

impl Book {
    /// A book with the records of the store, which charges them to `accounts`.
    pub fn new(contents: Contents, accounts: Accounts) -> Self {
        let mut book = Self {
            used: Used::new(accounts),
            events: contents.events.into(),
            last: contents.last,
            holds: contents.holds,
            last_event: watch::Sender::new(contents.last.event),
            ..Self::default()
        };
        // A schedule's open job counts for the owner of the schedule, so schedules come first.
        contents.schedules.into_iter().for_each(|schedule| book.put_schedule(Arc::new(schedule)));
        contents.jobs.into_iter().for_each(|kept| book.put_job(kept));
        contents.workloads.into_iter().for_each(|workload| book.put_workload(Arc::new(workload)));
        book.jobs.publish();
        book.schedules.publish();
        book.workloads.publish();
        book
    }

    /// Takes over committed writes and notifies watchers.
    pub fn apply(&mut self, writes: Vec<Write>) {
        for write in writes {
            self.take(write.clone());
            self.publish(&write);
        }
    }

    /// Takes over a write without notifying watchers.
    pub fn take(&mut self, write: Write) {
        match write {
            Write::Job(job) => self.put_job(job.into()),
            Write::DropJob(id) => self.drop_job(&id),
            Write::Schedule(schedule) => self.put_schedule(schedule),
            Write::DropSchedule(id) => drop(self.schedules.remove(&id, &mut self.used)),
            Write::Workload(workload) => self.put_workload(workload),
            Write::DropWorkload(id) => self.drop_workload(&id),
            Write::Event(event) => {
                self.last.event = self.last.event.max(event.head.number);
                self.events.push_back(event.head.clone());
                self.recent.add(event);
            }
            Write::DropEvent(number) => self.drop_event(number),
            Write::Holds(holds) => self.hold(holds),
        }
    }

    /// Notifies watchers of a stored write.
    pub fn publish(&mut self, write: &Write) {
        match write {
            Write::Job(job) => {
                self.jobs.publish();
                let Some(number) = job.id.number() else { return };
                if let Some(watchers) = self.watchers.get(&number) {
                    watchers.send_modify(|now| now.replace(job.clone()));
                }
                if job.state.is_end() {
                    // Dropping the sender ends the watches, after they have shown the last state.
                    self.watchers.remove(&number);
                }
            }
            Write::DropJob(id) => {
                self.jobs.publish();
                drop(id.number().and_then(|number| self.watchers.remove(&number)));
            }
            Write::Event(event) => drop(self.last_event.send_replace(event.head.number)),
            Write::Schedule(_) | Write::DropSchedule(_) => self.schedules.publish(),
            Write::Workload(_) | Write::DropWorkload(_) => self.workloads.publish(),
            // The state messages of queued jobs name the hold.
            Write::Holds(_) => self.jobs.publish(),
            Write::DropEvent(_) => {}
        }
    }

    /// Returns what undoes `write`; to be called before that is taken over. `None`: nothing undoes it (removal of an
    /// event).
    pub fn inverse(&self, write: &Write) -> Option<Undo> {
        let job = |id: &JobId| Undo::Job(id.clone(), self.jobs.by_id(id).cloned());
        let schedule =
            |id: &ScheduleId| Undo::Schedule(id.clone(), self.schedules.by_id(id).cloned());
        let workload =
            |id: &WorkloadId| Undo::Workload(id.clone(), self.workloads.by_id(id).cloned());
        Some(match write {
            Write::Job(new) => job(&new.id),
            Write::DropJob(id) => job(id),
            Write::Schedule(new) => schedule(&new.id),
            Write::DropSchedule(id) => schedule(id),
            Write::Workload(new) => workload(&new.spec.id),
            Write::DropWorkload(id) => workload(id),
            Write::Event(event) => Undo::Event(event.head.number),
            Write::Holds(_) => Undo::Holds(self.holds),
            Write::DropEvent(_) => return None,
        })
    }

    /// Puts back what [`Self::inverse`] gave.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Job(_, Some(before)) => self.put_job(before),
            Undo::Job(id, None) => self.drop_job(&id),
            Undo::Schedule(_, Some(before)) => self.put_schedule(before),
            Undo::Schedule(id, None) => drop(self.schedules.remove(&id, &mut self.used)),
            Undo::Workload(_, Some(before)) => self.put_workload(before),
            Undo::Workload(id, None) => self.drop_workload(&id),
            Undo::Event(number) => self.drop_event(number),
            Undo::Holds(before) => self.hold(before),
        }
    }

    /// Resets the highest numbers given to `last`, after the records made since have been removed.
    pub fn set_last(&mut self, last: Last) {
        self.last = last;
    }

    fn put_job(&mut self, kept: Kept) {
        let job = &kept.job;
        self.last.job = self.last.job.max(job.id.number().unwrap_or_default());
        *self.counts.entry(job.state).or_default() += 1;
        let owner = self.client(job);
        let before = self.jobs.put(kept, owner, &mut self.used);
        self.uncount(before);
    }

    fn drop_job(&mut self, id: &JobId) {
        let removed = self.jobs.remove(id, &mut self.used);
        self.uncount(removed);
    }

    /// Subtracts a job that was in the book from the counts.
    fn uncount(&mut self, before: Option<Kept>) {
        if let Some(count) = before.and_then(|before| self.counts.get_mut(&before.job.state)) {
            *count -= 1;
        }
    }

    fn put_schedule(&mut self, schedule: Arc<Schedule>) {
        self.last.schedule = self.last.schedule.max(schedule.id.number().unwrap_or_default());
        let owner = Client::new(&schedule.creator, schedule.creator_gid);
        self.schedules.put(schedule, owner, &mut self.used);
    }

    fn put_workload(&mut self, workload: Arc<Workload>) {
        if let Some(before) = self.workloads.by_id(&workload.spec.id) {
            self.names.remove(before);
        }
        self.names.add(&workload);
        self.labels.put(&workload);
        let owner = Client::new(&workload.creator, workload.creator_gid);
        self.workloads.put(workload, owner, &mut self.used);
    }

    fn drop_workload(&mut self, id: &WorkloadId) {
        if let Some(dropped) = self.workloads.remove(id, &mut self.used) {
            self.names.remove(&dropped);
            self.labels.remove(id);
        }
    }

    fn drop_event(&mut self, number: u64) {
        // Usually this is the oldest event.
        let at = self.events.binary_search_by_key(&number, |head| head.number);
        at.ok().and_then(|at| self.events.remove(at));
        self.recent.remove(number);
    }

    /// The daemon is drained or all moves are paused, or no more: the state message of each queued job changes.
    fn hold(&mut self, holds: Holds) {
        self.holds = holds;
        let queued: Vec<_> = self.jobs_in(JobState::Queued).map(|job| job.id.clone()).collect();
        queued.iter().for_each(|id| self.jobs.progress(id));
    }

    /// Whom a job belongs to, and that client's group, which a grant may be for: the creator of its schedule, or its
    /// own.
    pub fn owner<'a>(&'a self, job: &'a Job) -> (&'a str, Option<u32>) {
        match job.schedule.as_ref().and_then(|id| self.schedules.by_id(id)) {
            Some(schedule) => (&schedule.creator, schedule.creator_gid),
            None => (&job.creator, job.creator_gid),
        }
    }

    /// Whom a job counts for.
    pub fn client(&self, job: &Job) -> Client {
        let (name, gid) = self.owner(job);
        Client::new(name, gid)
    }

    /// Checks whether the quota of its owner allows a job that is new or has changed. No quota bounds the runs of
    /// schedules that configuration files declare: there is one for each schedule at most.
    ///
    /// # Errors
    /// As [`Collection::check`].
    pub fn check_job(&self, job: &Job, quota: &Quota) -> Result<(), Refusal> {
        let schedule = job.schedule.as_ref().and_then(|id| self.schedules.by_id(id));
        match schedule.and_then(|schedule| schedule.declared_in.as_ref()) {
            Some(_) => Ok(()),
            None => self.jobs.check(job, &self.client(job), &self.used, quota),
        }
    }
    /// The same of a schedule. No quota bounds what files of the configuration declare.
    ///
    /// # Errors
    /// As [`Self::check_job`].
    pub fn check_schedule(&self, schedule: &Schedule, quota: &Quota) -> Result<(), Refusal> {
        match schedule.declared_in {
            Some(_) => Ok(()),
            None => {
                let owner = Client::new(&schedule.creator, schedule.creator_gid);
                self.schedules.check(schedule, &owner, &self.used, quota)
            }
        }
    }
    /// The same of a workload.
    ///
    /// # Errors
    /// As [`Self::check_job`].
    pub fn check_workload(&self, workload: &Workload, quota: &Quota) -> Result<(), Refusal> {
        let owner = Client::new(&workload.creator, workload.creator_gid);
        self.workloads.check(workload, &owner, &self.used, quota)
    }

    pub fn jobs(&self) -> &Collection<Job> {
        &self.jobs
    }
    pub fn schedules(&self) -> &Collection<Schedule> {
        &self.schedules
    }
    pub fn workloads(&self) -> &Collection<Workload> {
        &self.workloads
    }
    pub fn job(&self, id: &JobId) -> Option<&Arc<Job>> {
        Some(&self.jobs.by_id(id)?.job)
    }
    pub fn schedule(&self, id: &ScheduleId) -> Option<&Arc<Schedule>> {
        self.schedules.by_id(id)
    }
    /// Jobs that have not ended, the oldest first.
    pub fn open_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.open_numbers().filter_map(|number| Some(&self.jobs.get(&number)?.job))
    }
    /// The numbers of jobs that have not ended, the oldest first.
    pub fn open_numbers(&self) -> impl Iterator<Item = u64> {
        self.jobs.counted().copied()
    }
    /// Number of jobs in each state.
    pub fn counts(&self) -> &BTreeMap<JobState, usize> {
        &self.counts
    }
    pub fn jobs_in(&self, state: JobState) -> impl Iterator<Item = &Arc<Job>> {
        self.open_jobs().filter(move |job| job.state == state)
    }
    /// Index of the workloads by cgroup, container id, pod uid and set.
    pub fn names(&self) -> &WorkloadNames {
        &self.names
    }
    /// Index of the workloads by namespace and labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }
    /// Notes progress of a job for clients that watch jobs.
    pub fn progressed(&mut self, id: &JobId) {
        self.jobs.progress(id);
        self.jobs.publish();
    }
    /// Use of its quota by each client.
    pub fn used(&self) -> &Used {
        &self.used
    }
    /// The parts of events that are kept in memory, the oldest event first.
    pub fn events(&self) -> &VecDeque<EventHead> {
        &self.events
    }
    /// An event, if it is one of the last.
    pub fn recent_event(&self, number: u64) -> Option<&Encoded<Event>> {
        self.recent.get(number)
    }
    /// The schedule's last event that is the end of a run, or `TargetGone`.
    pub fn last_end_of(&self, schedule: &ScheduleId) -> Option<&EventHead> {
        let is_end = |kind: EventType| kind.is_end() || kind == EventType::TargetGone;
        let is_of =
            |head: &&EventHead| head.schedule.as_ref().is_some_and(|of| of.is_same(schedule));
        let mut of_schedule = self.events.iter().rev().filter(is_of);
        of_schedule.find(|head| is_end(head.kind))
    }
    /// The highest numbers ever given.
    pub fn last(&self) -> Last {
        self.last
    }
    /// The holds (drained, paused) that keep moves from beginning.
    pub fn holds(&self) -> Holds {
        self.holds
    }
    /// Receives the number of the last event.
    pub fn watch_events(&self) -> watch::Receiver<u64> {
        self.last_event.subscribe()
    }

    /// Watches a job. The receiver has the record as it is now, and each later one. A job that has ended has no later
    /// record.
    pub fn watch_job(&mut self, job: Arc<Job>) -> watch::Receiver<JobNow> {
        let Some(number) = job.id.number().filter(|_| !job.state.is_end()) else {
            return watch::channel(JobNow::new(job)).1;
        };
        self.watchers
            .entry(number)
            .or_insert_with(|| watch::Sender::new(JobNow::new(job)))
            .subscribe()
    }
    /// Whether a client watches the job.
    pub fn is_watched(&self, id: &JobId) -> bool {
        let watchers = id.number().and_then(|number| self.watchers.get(&number));
        watchers.is_some_and(|watchers| watchers.receiver_count() > 0)
    }
    /// Shows watchers a job without storing it.
    pub fn show(&self, job: Arc<Job>) {
        if let Some(watchers) = job.id.number().and_then(|number| self.watchers.get(&number)) {
            watchers.send_modify(|now| now.replace(job));
        }
    }
    /// Shows watchers the progress of a job without storing it.
    pub fn show_progress(&self, number: u64, progress: JobProgress) {
        if let Some(watchers) = self.watchers.get(&number) {
            watchers.send_modify(|now| now.progress = Some(progress));
        }
    }
}

/// The last events, at most [`Recent::MOST`] and [`Recent::BYTES`].
#[derive(Debug, Default)]
struct Recent {
    events: VecDeque<Arc<EventRecord>>,
    bytes: usize,
}

impl Recent {
    const MOST: usize = 512;
    const BYTES: usize = 1 << 20;

    fn add(&mut self, event: Arc<EventRecord>) {
        self.bytes += event.head.bytes;
        self.events.push_back(event);
        while self.events.len() > Self::MOST || self.bytes > Self::BYTES {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.head.bytes;
        }
    }

    fn at(&self, number: u64) -> Option<usize> {
        self.events.binary_search_by_key(&number, |event| event.head.number).ok()
    }

    fn get(&self, number: u64) -> Option<&Encoded<Event>> {
        Some(&self.events.get(self.at(number)?)?.encoded)
    }

    fn remove(&mut self, number: u64) {
        if let Some(removed) = self.at(number).and_then(|at| self.events.remove(at)) {
            self.bytes -= removed.head.bytes;
        }
    }
}

/// Puts the book back: the record as it was before, or nothing if there was none.
#[derive(Debug)]
pub enum Undo {
    Job(JobId, Option<Kept>),
    Schedule(ScheduleId, Option<Arc<Schedule>>),
    Workload(WorkloadId, Option<Arc<Workload>>),
    /// The event with this number was added.
    Event(u64),
    Holds(Holds),
}

//! The book: all records, as far as they are kept in memory. They change only by `Write`s, which are committed to the
//! store.

use super::{
    changes::Changes,
    labels::Labels,
    names::Names,
    used::{Sort, Used},
};
use crate::{
    config::Quota,
    refusal::Refusal,
    store::{Contents, EventHead, Holds, Kept, Last, Weight, Write},
};
use numaloc_api::value::{
    Event, EventType, Job, JobId, JobState, Schedule, ScheduleId, Workload, WorkloadId,
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};
use tokio::sync::watch;

/// All records, by number or name. Of a job that has ended, the book does not keep the plan and the outcome; the store has
/// the whole record.
#[derive(Debug)]
pub struct Book {
    jobs: BTreeMap<u64, Kept>,
    open: BTreeMap<u64, Counted>,
    counts: BTreeMap<JobState, usize>,
    schedules: BTreeMap<u64, Arc<Schedule>>,
    workloads: BTreeMap<WorkloadId, Arc<Workload>>,
    names: Names,
    labels: Labels,
    job_changes: Changes<JobId>,
    schedule_changes: Changes<ScheduleId>,
    workload_changes: Changes<WorkloadId>,
    used: Used,
    events: VecDeque<EventHead>,
    /// The last events, whole: all who watch events read them.
    recent: Recent,
    last: Last,
    holds: Holds,
    /// (who asked for it, request_id) -> number of the job or schedule.
    job_requests: HashMap<(String, String), u64>,
    schedule_requests: HashMap<(String, String), u64>,
    /// Ids that clients have chosen.
    chosen_jobs: HashMap<String, u64>,
    chosen_schedules: HashMap<String, u64>,
    watchers: HashMap<u64, watch::Sender<Arc<Job>>>,
    last_event: watch::Sender<u64>,
}

impl Book {
    /// A book with the records of the store.
    pub fn new(contents: Contents) -> Self {
        let mut book = Self {
            jobs: BTreeMap::new(),
            open: BTreeMap::new(),
            counts: BTreeMap::new(),
            schedules: BTreeMap::new(),
            workloads: BTreeMap::new(),
            names: Names::default(),
            labels: Labels::default(),
            job_changes: Changes::new(fastrand::u64(..)),
            schedule_changes: Changes::new(fastrand::u64(..)),
            workload_changes: Changes::new(fastrand::u64(..)),
            used: Used::default(),
            events: contents.events.into(),
            recent: Recent::default(),
            last: contents.last,
            holds: contents.holds,
            job_requests: HashMap::new(),
            schedule_requests: HashMap::new(),
            chosen_jobs: HashMap::new(),
            chosen_schedules: HashMap::new(),
            watchers: HashMap::new(),
            last_event: watch::Sender::new(contents.last.event),
        };
        // A schedule's open job counts for the owner of the schedule, so schedules come first.
        contents.schedules.into_iter().for_each(|schedule| book.put_schedule(Arc::new(schedule)));
        contents.jobs.into_iter().for_each(|kept| book.keep(kept));
        contents.workloads.into_iter().for_each(|workload| book.put_workload(Arc::new(workload)));
        book.job_changes.publish();
        book.schedule_changes.publish();
        book.workload_changes.publish();
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
            Write::Job(job) => self.keep(job.into()),
            Write::DropJob(id) => self.drop_job(&id),
            Write::Schedule(schedule) => self.put_schedule(schedule),
            Write::DropSchedule(id) => self.drop_schedule(&id),
            Write::Workload(workload) => self.put_workload(workload),
            Write::DropWorkload(id) => {
                self.drop_workload(&id);
                self.workload_changes.remove(&id);
            }
            Write::Event(event) => {
                self.last.event = self.last.event.max(event.number);
                self.events.push_back(EventHead::from(&*event));
                self.recent.add(event);
            }
            Write::DropEvent(number) => {
                // Usually this is the oldest event.
                let at = self.events.binary_search_by_key(&number, |head| head.number);
                at.ok().and_then(|at| self.events.remove(at));
                self.recent.remove(number);
            }
            Write::Holds(holds) => self.hold(holds),
        }
    }

    /// Notifies watchers of a stored write.
    pub fn publish(&mut self, write: &Write) {
        match write {
            Write::Job(job) => {
                self.job_changes.publish();
                let Some(number) = job.id.number() else { return };
                if let Some(watchers) = self.watchers.get(&number) {
                    watchers.send_replace(job.clone());
                }
                if job.state.is_end() {
                    // Dropping the sender ends the watches, after they have shown the last state.
                    self.watchers.remove(&number);
                }
            }
            Write::DropJob(id) => {
                self.job_changes.publish();
                drop(id.number().and_then(|number| self.watchers.remove(&number)));
            }
            Write::Event(event) => drop(self.last_event.send_replace(event.number)),
            Write::Schedule(_) | Write::DropSchedule(_) => self.schedule_changes.publish(),
            Write::Workload(_) | Write::DropWorkload(_) => self.workload_changes.publish(),
            // It is said of queued jobs.
            Write::Holds(_) => self.job_changes.publish(),
            Write::DropEvent(_) => {}
        }
    }

    /// What undoes `write`; to be asked before `write` is taken over. `None`: nothing undoes it (removal of an event), or the
    /// record to remove is not there.
    pub fn inverse(&self, write: &Write) -> Option<Undo> {
        let write = match write {
            // Of an ended job the book has less than a write brings.
            Write::DropJob(id) => return self.kept(id).cloned().map(Undo::Keep),
            Write::Job(job) => match self.job(&job.id) {
                Some(before) => Write::Job(before.clone()),
                None => Write::DropJob(job.id.clone()),
            },
            Write::Schedule(schedule) => match self.schedule(&schedule.id) {
                Some(before) => Write::Schedule(before.clone()),
                None => Write::DropSchedule(schedule.id.clone()),
            },
            Write::Workload(workload) => match self.workloads.get(&workload.spec.id) {
                Some(before) => Write::Workload(before.clone()),
                None => Write::DropWorkload(workload.spec.id.clone()),
            },
            Write::DropSchedule(id) => Write::Schedule(self.schedule(id)?.clone()),
            Write::DropWorkload(id) => Write::Workload(self.workloads.get(id)?.clone()),
            Write::Event(event) => Write::DropEvent(event.number),
            Write::Holds(_) => Write::Holds(self.holds),
            Write::DropEvent(_) => return None,
        };
        Some(Undo::Write(write))
    }

    /// Puts back what [`Self::inverse`] gave.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Write(write) => self.take(write),
            Undo::Keep(kept) => self.keep(kept),
        }
    }

    /// Resets the highest numbers given to `last`, after the records made since have been removed.
    pub fn set_last(&mut self, last: Last) {
        self.last = last;
    }

    fn keep(&mut self, kept: Kept) {
        let job = &kept.job;
        let Some(number) = job.id.number() else { return };
        self.job_changes.put(&job.id);
        self.last.job = self.last.job.max(number);
        if job.id.id() != number.to_string() {
            self.chosen_jobs.insert(job.id.id().to_owned(), number);
        }
        if let Some(key) = request(asked_by(job), &job.request_id) {
            self.job_requests.insert(key, number);
        }
        *self.counts.entry(job.state).or_default() += 1;
        self.uncount(number);
        if !job.state.is_end() {
            let (owner, _) = self.owner(job);
            let counted = Counted { owner: owner.to_owned(), sort: sort(job), bytes: job.weight() };
            self.used.add(&counted.owner, counted.sort, counted.bytes);
            self.open.insert(number, counted);
        }
        self.jobs.insert(number, kept);
    }

    /// Subtracts the version of a job that the book has from the counts.
    fn uncount(&mut self, number: u64) {
        let Some(Kept { job, .. }) = self.jobs.get(&number) else { return };
        if let Some(count) = self.counts.get_mut(&job.state) {
            *count -= 1;
        }
        if let Some(Counted { owner, sort, bytes }) = self.open.remove(&number) {
            self.used.take(&owner, sort, bytes);
        }
    }

    /// Whom a job belongs to, and that client's group, which a grant may be for: the creator of its schedule, or its own.
    pub fn owner<'a>(&'a self, job: &'a Job) -> (&'a str, Option<u32>) {
        match job.schedule.as_ref().and_then(|id| self.schedule(id)) {
            Some(schedule) => (&schedule.creator, schedule.creator_gid),
            None => (&job.creator, job.creator_gid),
        }
    }

    /// Checks whether the quota of its owner allows a job that is new or has changed.
    ///
    /// # Errors
    /// As [`Used::check`].
    pub fn check_job(&self, job: &Job, quota: &Quota) -> Result<(), Refusal> {
        let before = job.id.number().and_then(|number| self.open.get(&number));
        let before = before.map(|counted| counted.bytes);
        self.used.check(self.owner(job).0, sort(job), job.weight(), before, quota)
    }

    /// The daemon is drained or all moves are paused, or no more: each queued job says so.
    fn hold(&mut self, holds: Holds) {
        self.holds = holds;
        for number in self.open.keys() {
            if let Some(Kept { job, .. }) = self.jobs.get(number)
                && job.state == JobState::Queued
            {
                self.job_changes.progress(&job.id);
            }
        }
    }

    fn drop_job(&mut self, id: &JobId) {
        let Some(number) = id.number() else { return };
        self.job_changes.remove(id);
        self.chosen_jobs.remove(id.id());
        self.uncount(number);
        let dropped = self.jobs.remove(&number);
        if let Some(key) =
            dropped.and_then(|Kept { job, .. }| request(asked_by(&job), &job.request_id))
        {
            self.job_requests.remove(&key);
        }
    }

    fn put_schedule(&mut self, schedule: Arc<Schedule>) {
        let Some(number) = schedule.id.number() else { return };
        self.schedule_changes.put(&schedule.id);
        self.last.schedule = self.last.schedule.max(number);
        if schedule.id.id() != number.to_string() {
            self.chosen_schedules.insert(schedule.id.id().to_owned(), number);
        }
        if let Some(key) = request(&schedule.creator, &schedule.request_id) {
            self.schedule_requests.insert(key, number);
        }
        self.used.add(&schedule.creator, Sort::Schedule, schedule.weight());
        if let Some(before) = self.schedules.insert(number, schedule) {
            self.used.take(&before.creator, Sort::Schedule, before.weight());
        }
    }

    fn drop_schedule(&mut self, id: &ScheduleId) {
        self.schedule_changes.remove(id);
        self.chosen_schedules.remove(id.id());
        let dropped = id.number().and_then(|number| self.schedules.remove(&number));
        if let Some(dropped) = &dropped {
            self.used.take(&dropped.creator, Sort::Schedule, dropped.weight());
        }
        let key = dropped.and_then(|schedule| request(&schedule.creator, &schedule.request_id));
        key.and_then(|key| self.schedule_requests.remove(&key));
    }

    fn put_workload(&mut self, workload: Arc<Workload>) {
        self.drop_workload(&workload.spec.id);
        self.names.add(&workload);
        self.labels.put(&workload);
        self.workload_changes.put(&workload.spec.id);
        self.used.add(&workload.creator, Sort::Workload, workload.weight());
        self.workloads.insert(workload.spec.id.clone(), workload);
    }

    fn drop_workload(&mut self, id: &WorkloadId) {
        if let Some(dropped) = self.workloads.remove(id) {
            self.names.remove(&dropped);
            self.labels.remove(id);
            self.used.take(&dropped.creator, Sort::Workload, dropped.weight());
        }
    }

    /// A job.
    pub fn job(&self, id: &JobId) -> Option<&Arc<Job>> {
        Some(&self.kept(id)?.job)
    }
    /// A job as it is kept, with what lists show of it.
    pub fn kept(&self, id: &JobId) -> Option<&Kept> {
        let chosen = || self.chosen_jobs.get(id.id()).copied();
        let kept = self.jobs.get(&id.number().or_else(chosen)?)?;
        // A job whose id a client has chosen cannot be found by its number.
        Some(kept).filter(|kept| kept.job.id == *id)
    }
    /// All jobs by number.
    pub fn jobs(&self) -> &BTreeMap<u64, Kept> {
        &self.jobs
    }
    /// Jobs that have not ended, the oldest first.
    pub fn open_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.open.keys().filter_map(|number| Some(&self.jobs.get(number)?.job))
    }
    /// The numbers of jobs that have not ended, the oldest first.
    pub fn open_numbers(&self) -> impl Iterator<Item = u64> {
        self.open.keys().copied()
    }
    /// How many jobs are in each state.
    pub fn counts(&self) -> &BTreeMap<JobState, usize> {
        &self.counts
    }
    /// Jobs in a state.
    pub fn jobs_in(&self, state: JobState) -> impl Iterator<Item = &Arc<Job>> {
        self.open_jobs().filter(move |job| job.state == state)
    }
    /// The job that a request of this client made.
    pub fn job_of_request(&self, creator: &str, request_id: &str) -> Option<&Arc<Job>> {
        let number = self.job_requests.get(&(creator.to_owned(), request_id.to_owned()))?;
        Some(&self.jobs.get(number)?.job)
    }
    /// A schedule.
    pub fn schedule(&self, id: &ScheduleId) -> Option<&Arc<Schedule>> {
        let chosen = || self.chosen_schedules.get(id.id()).copied();
        let known = self.schedules.get(&id.number().or_else(chosen)?);
        known.filter(|schedule| schedule.id == *id)
    }
    /// All schedules by number.
    pub fn schedules(&self) -> &BTreeMap<u64, Arc<Schedule>> {
        &self.schedules
    }
    /// The schedule that a request made.
    pub fn schedule_of_request(&self, creator: &str, request_id: &str) -> Option<&Arc<Schedule>> {
        let number = self.schedule_requests.get(&(creator.to_owned(), request_id.to_owned()))?;
        self.schedules.get(number)
    }
    /// All workloads by name.
    pub fn workloads(&self) -> &BTreeMap<WorkloadId, Arc<Workload>> {
        &self.workloads
    }
    /// Index of the workloads by cgroup, container id, pod uid and set.
    pub fn names(&self) -> &Names {
        &self.names
    }
    /// Index of the workloads by namespace and labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }
    /// The last change of each job, in order.
    pub fn job_changes(&self) -> &Changes<JobId> {
        &self.job_changes
    }
    /// The last change of each schedule, in order.
    pub fn schedule_changes(&self) -> &Changes<ScheduleId> {
        &self.schedule_changes
    }
    /// The last change of each workload, in order.
    pub fn workload_changes(&self) -> &Changes<WorkloadId> {
        &self.workload_changes
    }
    /// Notes progress of a job for those who watch jobs.
    pub fn progressed(&mut self, id: &JobId) {
        self.job_changes.progress(id);
        self.job_changes.publish();
    }
    /// How much of its quota each client uses.
    pub fn used(&self) -> &Used {
        &self.used
    }
    /// The parts of events that are kept in memory, the oldest event first.
    pub fn events(&self) -> &VecDeque<EventHead> {
        &self.events
    }
    /// An event, if it is one of the last.
    pub fn recent_event(&self, number: u64) -> Option<&Arc<Event>> {
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
    pub fn watch_job(&mut self, job: Arc<Job>) -> watch::Receiver<Arc<Job>> {
        let Some(number) = job.id.number().filter(|_| !job.state.is_end()) else {
            return watch::channel(job).1;
        };
        self.watchers.entry(number).or_insert_with(|| watch::Sender::new(job)).subscribe()
    }
    /// Whether somebody watches the job.
    pub fn is_watched(&self, id: &JobId) -> bool {
        let watchers = id.number().and_then(|number| self.watchers.get(&number));
        watchers.is_some_and(|watchers| watchers.receiver_count() > 0)
    }
    /// Shows watchers the progress of a job without storing it.
    pub fn show(&self, job: Job) {
        if let Some(watchers) = job.id.number().and_then(|number| self.watchers.get(&number)) {
            watchers.send_replace(Arc::new(job));
        }
    }
}

/// The last events, at most [`Recent::MOST`] and about [`Recent::BYTES`].
#[derive(Debug, Default)]
struct Recent {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

impl Recent {
    const MOST: usize = 512;
    const BYTES: usize = 1 << 20;

    fn add(&mut self, event: Arc<Event>) {
        self.bytes += event.weight();
        self.events.push_back(event);
        while self.events.len() > Self::MOST || self.bytes > Self::BYTES {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.weight();
        }
    }

    fn at(&self, number: u64) -> Option<usize> {
        self.events.binary_search_by_key(&number, |event| event.number).ok()
    }

    fn get(&self, number: u64) -> Option<&Arc<Event>> {
        self.events.get(self.at(number)?)
    }

    fn remove(&mut self, number: u64) {
        if let Some(removed) = self.at(number).and_then(|at| self.events.remove(at)) {
            self.bytes -= removed.weight();
        }
    }
}

/// What puts the book back.
#[derive(Debug)]
pub enum Undo {
    /// A write.
    Write(Write),
    /// The job that was removed.
    Keep(Kept),
}

/// What an open job counts for.
#[derive(Debug)]
struct Counted {
    owner: String,
    sort: Sort,
    bytes: usize,
}

fn sort(job: &Job) -> Sort {
    if job.schedule.is_some() { Sort::Run } else { Sort::OpenJob }
}

/// Who has asked for a job: its creator, or who has had its schedule run.
fn asked_by(job: &Job) -> &str {
    job.requester.as_ref().unwrap_or(&job.creator)
}

fn request(creator: &str, request_id: &Option<String>) -> Option<(String, String)> {
    Some((creator.to_owned(), request_id.clone()?))
}

//! Jobs, from request to end. "Batches in hand" are the batches of pages that a run is moving at the moment.
//!
//! ```text
//!                CreateJob                          ResumeJob
//!                    |          in another's way  +-------------+
//!                    v        +----------------+  |             |
//!                 QUEUED <----+                |  |          PAUSED
//!                    |  \ PauseJob             |  v             ^
//!   its turn         |   +---------------------|--|-------------+
//!                    v                         | QUEUED         |
//!                 PLANNING --------------------+                |
//!                    |  |  \ nothing to do, or not possible     |
//!   planned, and     |  |   +--> SKIPPED, FAILED                |
//!   no job in its way|  |                                       |
//!                    v  +---- PauseJob, and the batches         |
//!                 RUNNING --- in hand are done -----------------+
//!                    |
//!                    +--> SUCCEEDED, PARTIAL, FAILED; CANCELLED; INTERRUPTED or SUSPENDED
//! ```
//! A RUNNING job that makes room for others is QUEUED again. CancelJob ends QUEUED and PAUSED jobs at once; PLANNING
//! and RUNNING jobs end once the batches in hand are done. When the daemon stops or dies, a PLANNING job is QUEUED
//! again: nothing has been moved yet. A RUNNING job becomes INTERRUPTED, unless its policy is to resume: then it is
//! SUSPENDED (if the daemon could still store that), and QUEUED again at the next start.

use super::{
    Made,
    command::JobAction,
    dispatcher::Dispatcher,
    ends::joined,
    owned::check_owner,
    rest::{AnyJob, StoredJob},
    shown::JobNow,
};
use crate::{
    access::Caller,
    refusal::Refusal,
    store::{Kept, Write},
};
use numaloc_api::value::{
    CreateJob, EventType, Job, JobId, JobJoin, JobState, MigrationSpec, OnConflict, Pins,
};
use numaloc_engine::FoundTarget;
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};

impl Dispatcher {
    pub(super) fn find_request(
        &mut self,
        caller: &Caller,
        request: &CreateJob,
    ) -> Result<Option<Arc<Job>>, Refusal> {
        let known = self.known_request(caller, request)?;
        known.map(|job| self.get_job(&job.id)).transpose()
    }

    /// As [`Self::find_request`], to be read beside the dispatcher.
    pub(super) fn find_any_request(
        &mut self,
        caller: &Caller,
        request: &CreateJob,
    ) -> Result<Option<AnyJob>, Refusal> {
        let known = self.known_request(caller, request)?;
        known.map(|job| self.get_any_job(&job.id)).transpose()
    }

    fn known_request(
        &self,
        caller: &Caller,
        request: &CreateJob,
    ) -> Result<Option<Arc<Job>>, Refusal> {
        let Some(request_id) = &request.request_id else { return Ok(None) };
        match self.records.jobs().of_request(&caller.name, request_id).map(|kept| &kept.job) {
            Some(job) if is_same(job, &caller.name, request) => Ok(Some(job.clone())),
            Some(job) => Err(Refusal::AlreadyExists {
                request_id: request_id.clone(),
                name: job.id.to_string(),
            }),
            None => Ok(None),
        }
    }

    pub(super) fn create_job(
        &mut self,
        caller: &Caller,
        request: CreateJob,
        pins: Pins,
        found: FoundTarget,
    ) -> Result<Made, Refusal> {
        if let Some(job) = self.find_request(caller, &request)? {
            return Ok((job, true));
        }
        if let Some(taken) = request.id.as_ref().and_then(|id| self.records.job(id)) {
            return Err(Refusal::NameTaken { name: taken.id.to_string() });
        }
        if let Some(id) = &request.id {
            self.config().check_name(caller, id.id())?;
        }
        self.check_relief(&request.spec, None)?;
        let in_the_way = self.in_the_way(&found);
        if let Some(other) = in_the_way.first() {
            // A job that is being cancelled or paused will not do what was asked for, so no request can join it.
            let goes_on = in_the_way.iter().find(|job| job.wanted.is_none());
            return match (request.on_conflict, goes_on) {
                (OnConflict::Join, Some(other)) => self.join(caller, &request, other),
                _ => Err(Refusal::Conflict { job: other.id.clone() }),
            };
        }
        let CreateJob { spec, request_id, id, labels, validate_only, .. } = request;
        let new = self.new_job(spec, caller.name.clone());
        let id = match id.zip(new.id.number()) {
            Some((id, number)) => id.with_number(number),
            None => new.id.clone(),
        };
        let job = Arc::new(Job {
            id,
            request_id,
            creator_gid: caller.gid,
            pins,
            labels,
            ..new.with_members(found.members.clone())
        });
        self.records.check_job(&job, &self.config().quota)?;
        if validate_only {
            return Ok((job, false));
        }
        self.commit(vec![Write::Job(job.clone())])?;
        if let Some(number) = job.id.number() {
            self.open.learn(number, &found);
        }
        Ok((self.with_progress(job), false))
    }

    /// Notes with a job that a request has joined it: if the answer is lost, a repeat gets the same job, and makes
    /// none.
    fn join(
        &mut self,
        caller: &Caller,
        request: &CreateJob,
        other: &Arc<Job>,
    ) -> Result<Made, Refusal> {
        let Some(request_id) = request.request_id.clone().filter(|_| !request.validate_only) else {
            return Ok((self.with_progress(other.clone()), true));
        };
        let (client, digest) = (caller.name.clone(), request.digest());
        let joined = JobJoin { client, request_id, digest };
        let job = Arc::new((**other).clone().joined_by(joined));
        self.commit(vec![Write::Job(job.clone())])?;
        Ok((self.with_progress(job), true))
    }

    /// A new job with the next number, not stored yet.
    pub(super) fn new_job(&self, spec: MigrationSpec, creator: String) -> Job {
        let id = JobId::numbered(self.records.last().job + 1);
        Job::new(id, spec, creator, self.wall())
    }

    /// Open jobs, not paused, that have an address space of `found`, the oldest first.
    fn in_the_way(&self, found: &FoundTarget) -> Vec<Arc<Job>> {
        let overlaps = |job: &&Arc<Job>| {
            let other = job.id.number().and_then(|number| self.open.found(number));
            let other = other.filter(|_| job.state != JobState::Paused);
            other.is_some_and(|other| other.meets(found))
        };
        self.records.open_jobs().filter(overlaps).cloned().collect()
    }

    /// A job with its progress if it is open, or with its plan and outcome if it has ended.
    pub(super) fn get_job(&mut self, id: &JobId) -> Result<Arc<Job>, Refusal> {
        let job = self.known(id)?;
        if !job.state.is_end() {
            return Ok(self.with_progress(job));
        }
        // The changes of the present group are not in the store yet.
        if self.records.has_draft() {
            return Ok(job);
        }
        let whole = self.records.stored_job(&job.id)?;
        Ok(whole.map_or(job, Arc::new))
    }

    /// As [`Self::get_job`]; of a job that has ended, where its plan and outcome are.
    pub(super) fn get_any_job(&mut self, id: &JobId) -> Result<AnyJob, Refusal> {
        let Kept { job, bytes, .. } = self.records.jobs().known(id)?;
        let (job, bytes) = (job.clone(), *bytes);
        if job.state.is_end() {
            Ok((job, Some(StoredJob { reader: self.records.reader()?, bytes })))
        } else {
            Ok((self.with_progress(job), None))
        }
    }

    /// Watches a job; with the job as it is now.
    pub(super) fn watch_job(
        &mut self,
        id: &JobId,
    ) -> Result<(watch::Receiver<JobNow>, AnyJob), Refusal> {
        let any = self.get_any_job(id)?;
        Ok((self.records.watch_job(any.0.clone()), any))
    }

    /// A job as the book has it. One that has ended is without plan and outcome.
    pub(super) fn known(&self, id: &JobId) -> Result<Arc<Job>, Refusal> {
        Ok(self.records.jobs().known(id)?.job.clone())
    }

    /// The hold that keeps a job in the queue, for people; `None`: the job is not queued, or moves are not held.
    pub(super) fn why_queued(&self, job: &Job) -> Option<String> {
        let why = self.records.holds().why().filter(|_| job.state == JobState::Queued)?;
        Some(format!("waits: {why}"))
    }

    /// A job with its present progress. If it is queued and a hold is set, its message gives the reason.
    pub(super) fn with_progress(&self, job: Arc<Job>) -> Arc<Job> {
        if let Some(state_message) = self.why_queued(&job) {
            return Arc::new(Job { state_message, ..(*job).clone() });
        }
        let run = job.id.number().and_then(|number| self.runs.get(&number));
        match run.filter(|run| run.is_moving()) {
            Some(run) => {
                Arc::new(Job { progress: Some(run.progress_now(self.wall())), ..(*job).clone() })
            }
            None => job,
        }
    }

    pub(super) fn change_job(
        &mut self,
        caller: &Caller,
        id: &JobId,
        change: JobAction,
    ) -> Result<Arc<Job>, Refusal> {
        let job = self.known(id)?;
        self.check_owner_of(caller, &job)?;
        if job.state.is_end() {
            return match change {
                JobAction::Cancel if job.state == JobState::Cancelled => self.get_job(id),
                _ => Err(Refusal::WrongState {
                    name: id.to_string(),
                    state: job.state.name(),
                    action: change.participle(),
                }),
            };
        }
        let by = &caller.name;
        let under_way = matches!(job.state, JobState::Planning | JobState::Running);
        match (change, job.wanted) {
            (JobAction::Cancel, _) if !under_way => {
                self.end_job(&job, JobState::Cancelled, format!("cancelled by {by}"), None)?;
            }
            (JobAction::Cancel, wanted) if wanted != Some(JobState::Cancelled) => {
                self.want(&job, Some(JobState::Cancelled), by)?;
            }
            (JobAction::Pause, None) if under_way => {
                self.want(&job, Some(JobState::Paused), by)?;
            }
            (JobAction::Pause, None) if job.state == JobState::Queued => {
                self.put_job(&job, JobState::Paused, format!("paused by {by}"))?;
            }
            (JobAction::Resume, Some(JobState::Paused)) => {
                self.want(&job, None, by)?;
            }
            (JobAction::Resume, None) if job.state == JobState::Paused => {
                self.put_job(&job, JobState::Queued, String::new())?;
            }
            _ => {}
        }
        Ok(self.with_progress(self.known(id)?))
    }

    /// Refuses a caller that may not change this job. A schedule's jobs belong to the owner of the schedule.
    pub(super) fn check_owner_of(&self, caller: &Caller, job: &Job) -> Result<(), Refusal> {
        check_owner(caller, &job.id, self.owner_name(job))
    }

    /// Stores what the client `by` wants of a job that is under way (`None`: that it continues), and ends its run after
    /// the current batches.
    fn want(&mut self, job: &Job, wanted: Option<JobState>, by: &str) -> Result<(), Refusal> {
        let state_message = match wanted {
            Some(JobState::Cancelled) => format!("is being cancelled by {by}"),
            Some(_) => format!("is being paused by {by}"),
            None => format!("resumed by {by}"),
        };
        let changed = Job { wanted, state_message, ..job.clone() };
        self.commit(vec![Write::Job(Arc::new(changed))])?;
        let number = job.id.number().unwrap_or_default();
        let ended_by = wanted.map(|_| by.to_owned());
        self.then(move |dispatcher| {
            if let Some(run) = dispatcher.runs.get_mut(&number) {
                run.ended_by = ended_by;
                let is_cancel = wanted == Some(JobState::Cancelled);
                run.cancelled = is_cancel.then(|| run.cancelled.unwrap_or_else(Instant::now));
                run.cancel();
            }
        });
        Ok(())
    }

    /// Stores a job in another state that is not an end. Adds an event if the job is now paused, or no longer paused.
    pub(super) fn put_job(
        &mut self,
        job: &Job,
        state: JobState,
        state_message: String,
    ) -> Result<(), Refusal> {
        let event = match (job.state, state) {
            (JobState::Paused, JobState::Paused) => None,
            (_, JobState::Paused) => Some((EventType::Paused, state_message.clone())),
            (JobState::Paused, _) => Some((EventType::Resumed, "continues".to_owned())),
            _ => None,
        };
        let event = event.map(|(kind, message)| self.of_job(job, kind, message));
        let changed = Job { state, wanted: None, state_message, ..job.clone() };
        let writes = [Write::Job(Arc::new(changed))].into_iter().chain(self.tell(event));
        self.commit(writes.collect())
    }
}

impl Dispatcher {
    /// Stores a job whose run has ended early and that stays open. If its record has become larger than the quota of
    /// its owner allows, the job ends: nothing may stay in memory for as long as clients like without counting for one.
    pub(super) fn stay_open(
        &mut self,
        job: &Job,
        state: JobState,
        message: String,
    ) -> Result<(), Refusal> {
        match self.records.check_job(job, &self.config().quota) {
            Ok(()) => self.put_job(job, state, message),
            Err(refusal) => {
                let message = joined([message, refusal.to_string()]);
                self.end_job(job, JobState::Failed, message, None)
            }
        }
    }
}

/// Whether a request for this job would create `stored`. If it asks for no class, the class of `stored` (a workload's)
/// is the same.
fn is_same(stored: &Job, client: &str, request: &CreateJob) -> bool {
    let is_its =
        |it: &&JobJoin| it.client == client && Some(&it.request_id) == request.request_id.as_ref();
    if let Some(joined) = stored.joined.iter().find(is_its) {
        return joined.digest == request.digest();
    }
    let mut asked = request.spec.clone();
    let class = asked.policy.qos_class.or(stored.spec.policy.qos_class);
    asked.policy.qos_class = class;
    let id = request.id.as_ref().unwrap_or(&stored.id);
    let is_run = stored.requester.is_some();
    !is_run && stored.spec == asked && stored.labels == request.labels && stored.id == *id
}

impl JobAction {
    fn participle(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Pause => "paused",
            Self::Resume => "resumed",
        }
    }
}

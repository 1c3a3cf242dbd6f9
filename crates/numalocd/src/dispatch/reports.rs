//! Reports of the engine, and their effects.

use super::{dispatcher::Dispatcher, ends::joined, queue::TakenByJobs, recover::resumes, run::Run};
use crate::{order::EngineReport, refusal::Refusal, store::Write};
use numaloc_api::value::{Job, JobState, MemberResult, Outcome, first_few};
use numaloc_engine::{Ended, Planned};
use std::sync::Arc;
use tokio::time::Instant;

/// The message of a job that is planned but has no place to move yet.
const PLACES_TAKEN: &str =
    "waits: the limit of moving jobs is reached (queue.moves in the configuration)";

impl Dispatcher {
    /// Handles a report. If its consequences cannot be stored now, the report is kept for later.
    pub(super) fn on_report(&mut self, report: EngineReport) {
        if let Err(refusal) = self.take_in(&report) {
            tracing::warn!(%refusal, "a job's change waits until it can be stored");
            self.late.push_back(report);
        }
    }

    /// Handles again the reports whose consequences could not be stored.
    pub(super) fn catch_up(&mut self) {
        for report in std::mem::take(&mut self.late) {
            self.on_report(report);
        }
    }

    fn take_in(&mut self, report: &EngineReport) -> Result<(), Refusal> {
        let (EngineReport::Planned(id, _) | EngineReport::Ended(id, _)) = report;
        let (Some(number), Ok(job)) = (id.number(), self.known(id)) else { return Ok(()) };
        let Some(run) = self.runs.get(&number) else { return Ok(()) };
        match report {
            EngineReport::Planned(..) if run.is_planned || run.is_moving() => Ok(()),
            EngineReport::Planned(_, planned) => self.on_planned(number, &job, planned),
            EngineReport::Ended(_, ended) => self.on_ended(number, &job, ended),
        }
    }

    fn on_planned(
        &mut self,
        number: u64,
        job: &Job,
        planned: &Result<Planned, Refusal>,
    ) -> Result<(), Refusal> {
        let cancelled = self.runs.get(&number).is_some_and(Run::is_cancelled);
        if let (Some(run), Ok(planned)) = (self.runs.get_mut(&number), planned) {
            run.note.clone_from(&planned.note);
            run.returned.clone_from(&planned.returned);
            run.planned_bytes = planned.planned_bytes;
            run.found = Some(planned.found.bare());
        }
        match planned {
            _ if cancelled => self.stopped(job, None)?,
            Err(refusal @ Refusal::NoTargetNode { .. }) => {
                self.end_job(job, JobState::Skipped, refusal.to_string(), None)?;
            }
            Err(refusal) => self.end_job(job, JobState::Failed, refusal.to_string(), None)?,
            Ok(planned) => {
                let job = Job { plan: Some(planned.summary.clone()), ..job.clone() };
                let members = planned.found.members.clone();
                if let Some((state, why)) = &planned.nothing {
                    let share = Some(planned.local_percent);
                    let members = all_legs(&job, members);
                    let job = job.with_members(members);
                    self.end_without_moving(&job, *state, why.clone(), share)?;
                } else {
                    self.open.learn(number, &planned.found);
                    // Until this run has ended, the members keep their results from earlier runs.
                    let job = if job.outcome.is_some() { job } else { job.with_members(members) };
                    match self.records.check_job(&job, &self.config().quota) {
                        Ok(()) => return self.proceed(number, job),
                        Err(refusal) => {
                            self.end_job(&job, JobState::Failed, refusal.to_string(), None)?;
                        }
                    }
                }
            }
        }
        // Dropping the run signals the engine not to move.
        self.drop_run(number);
        self.changed = true;
        Ok(())
    }

    /// Starts the move of a planned job. If another job has its memory or nodes, it goes back into the queue and is
    /// planned again later. If it lacks only a place to move, it keeps its plan: each page is looked at again just
    /// before it is moved.
    ///
    /// The rights of its owner are checked again, because it may have been planned long ago.
    pub(super) fn proceed(&mut self, number: u64, job: Job) -> Result<(), Refusal> {
        let may_as_before = |run: &Run| self.owner_of(&job).as_ref() == Ok(&run.owner);
        let changed = !self.runs.get(&number).is_some_and(may_as_before);
        let other = || "the rights of its owner have changed".to_owned();
        if let Some(why) = changed.then(other).or_else(|| self.blocked(number)) {
            self.put_job(&job, JobState::Queued, format!("waits: {why}"))?;
            // Dropping the run signals the engine not to move.
            self.drop_run(number);
            self.changed = true;
            return Ok(());
        }
        if self.has_place(number) {
            return self.go(number, job);
        }
        if job.state_message != PLACES_TAKEN {
            self.put_job(&job, JobState::Planning, PLACES_TAKEN.to_owned())?;
        }
        self.runs.get_mut(&number).into_iter().for_each(|run| run.is_planned = true);
        Ok(())
    }

    /// The reason why a planned job has to wait after all: a hold, or a job that moves already. Jobs that are only
    /// planned do not count: of two jobs planned at the same time, the first one continues.
    fn blocked(&self, number: u64) -> Option<String> {
        if let Some(why) = self.records.holds().why() {
            return Some(why.to_owned());
        }
        let moving = self.runs.iter().filter(|(other, run)| **other != number && run.is_moving());
        let taken = TakenByJobs::by(moving.filter_map(|(_, run)| run.found.as_ref()));
        taken.blocks(self.runs.get(&number)?.found.as_ref()?, &self.config().queue)
    }

    fn go(&mut self, number: u64, job: Job) -> Result<(), Refusal> {
        let now = self.wall();
        let Some(run) = self.runs.get(&number) else { return Ok(()) };
        let progress = Some(run.progress(now));
        let started = job.started.or(Some(now));
        let state_message = String::new();
        let running = Job { state: JobState::Running, started, progress, state_message, ..job };
        let event = self.start_event(&running);
        let writes = [Write::Job(Arc::new(running))].into_iter().chain(self.tell(event));
        self.commit(writes.collect())?;
        let Some(run) = self.runs.get_mut(&number) else { return Ok(()) };
        run.moving = Some(Instant::now());
        // Sending fails only if the engine has gone, which happens only when the daemon ends.
        let _ = run.go.take().map(|go| go.send(()));
        Ok(())
    }

    fn on_ended(
        &mut self,
        number: u64,
        job: &Job,
        ended: &Result<Ended, Refusal>,
    ) -> Result<(), Refusal> {
        let progress = self.runs.get(&number).map(|run| run.progress(self.wall()));
        let job = Job { progress: progress.or_else(|| job.progress.clone()), ..job.clone() };
        match ended {
            Err(refusal) => self.end_job(&job, JobState::Failed, refusal.to_string(), None)?,
            Ok(Ended { outcome, members, trail }) => {
                let note = self.runs.get_mut(&number).and_then(|run| {
                    run.trail.clone_from(trail);
                    run.note.clone()
                });
                let whole = match &job.outcome {
                    Some(before) => Arc::new(before.continued_by(outcome)),
                    None => outcome.clone(),
                };
                let members = all_legs(&job, members.clone());
                let job = job.with_members(members);
                match whole.end(job.spec.policy.options.judged_ratio()) {
                    (JobState::Cancelled, _) => self.stopped(&job, Some(whole))?,
                    (state, why) => {
                        let message = joined([why, made_room(&whole), note.unwrap_or_default()]);
                        self.end_job(&job, state, message, Some(whole))?;
                    }
                }
                // Counted only now, because a report that could not be stored is handled again.
                self.moved_bytes += outcome.account().moved_bytes();
            }
        }
        self.drop_run(number);
        self.changed = true;
        Ok(())
    }

    /// Ends cancelled jobs whose planning or run does not end. Later reports of their threads are about jobs that have
    /// ended.
    pub(super) fn give_up(&mut self, now: Instant) -> Result<(), Refusal> {
        let is_over = |run: &Run| run.given_up().is_some_and(|at| at <= now);
        let over: Vec<u64> =
            self.runs.iter().filter(|(_, run)| is_over(run)).map(|(number, _)| *number).collect();
        for number in over {
            if let Some(job) = self.records.jobs().get(&number).map(|kept| kept.job.clone()) {
                tracing::warn!(job = %job.id, "a cancelled job does not end: the daemon no longer waits for it");
                self.stopped(&job, None)?;
            }
            self.drop_run(number);
            self.changed = true;
        }
        Ok(())
    }

    /// A run was ended before it was finished: by a client that wants the job cancelled or paused, because the daemon
    /// stops, or to make room for others.
    pub(super) fn stopped(
        &mut self,
        job: &Job,
        outcome: Option<Arc<Outcome>>,
    ) -> Result<(), Refusal> {
        let run = job.id.number().and_then(|number| self.runs.get(&number));
        let by = |done: &str| match run.and_then(|run| run.ended_by.as_deref()) {
            Some(by) => format!("{done} by {by}"),
            None => done.to_owned(),
        };
        match job.wanted {
            Some(JobState::Cancelled) => {
                let message = by("cancelled");
                self.end_job(job, JobState::Cancelled, message, outcome)
            }
            Some(_) => {
                let message = by("paused");
                self.stay_open(&with(job, outcome), JobState::Paused, message)
            }
            None if self.stopping.is_some() && job.state == JobState::Running && resumes(job) => {
                let message = "the daemon was stopped; continues when it is back".to_owned();
                self.stay_open(&with(job, outcome), JobState::Suspended, message)
            }
            None if self.stopping.is_some() && job.state == JobState::Running => {
                let message = "the daemon was stopped".to_owned();
                self.end_job(job, JobState::Interrupted, message, outcome)
            }
            None => {
                let why = run.and_then(|run| run.back).unwrap_or_default().to_owned();
                self.stay_open(&with(job, outcome), JobState::Queued, why)
            }
        }
    }
}

fn with(job: &Job, outcome: Option<Arc<Outcome>>) -> Job {
    let outcome = outcome.or_else(|| job.outcome.clone());
    Job { outcome, ..job.clone() }
}

/// The results of a job's members after one more run, whose own results are `next`.
fn all_legs(job: &Job, next: Vec<MemberResult>) -> Vec<MemberResult> {
    let target_ratio = job.spec.policy.options.judged_ratio();
    match job.outcome {
        Some(_) => MemberResult::all_continued_by(&job.members, next, target_ratio),
        None => next,
    }
}

/// Workloads whose memory made room for a job; empty if none did.
fn made_room(outcome: &Outcome) -> String {
    let moved = outcome.partners.iter().filter(|partner| partner.account.moved_bytes() > 0);
    let moved: Vec<_> = moved.collect();
    let bytes: u64 = moved.iter().map(|partner| partner.account.moved_bytes()).sum();
    let names = first_few(moved.iter().map(|partner| &partner.member));
    names.map_or_else(String::new, |names| format!("{bytes} bytes of {names} made room"))
}

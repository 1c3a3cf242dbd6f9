//! The end of a job: its last record, its event and its schedule's next run, in one commit.

use super::{Refusal, dispatcher::Dispatcher, fight::Fight, restart::resumes};
use crate::store::{Weight, Write};
use numaloc_api::value::{
    Event, EventType, FailedProcess, Job, JobState, Missing, Outcome, ScheduleId, first_few,
};
use numaloc_core::NodeSet;
use std::sync::Arc;
use tokio::time::Instant;

/// A repeating schedule reports a ratio again when it has changed by more than so many points.
const POINTS: f64 = 10.0;

impl Dispatcher {
    /// Ends a job. Without an outcome of its last run it keeps that of the runs before.
    pub(super) fn end_job(
        &mut self,
        job: &Job,
        state: JobState,
        message: String,
        outcome: Option<Arc<Outcome>>,
    ) -> Result<(), Refusal> {
        let outcome = outcome.or_else(|| job.outcome.clone());
        self.end(Job { outcome, ..job.clone() }, state, message, None)
    }

    /// Ends a job that had nothing to do, with the local share that was found, in percent.
    pub(super) fn end_without_moving(
        &mut self,
        job: &Job,
        message: String,
        local_percent: Option<f64>,
    ) -> Result<(), Refusal> {
        // One that had moved something before it was held has done its work.
        let state = if job.outcome.is_some() { JobState::Succeeded } else { JobState::Skipped };
        self.end(job.clone(), state, message, local_percent)
    }

    fn end(
        &mut self,
        job: Job,
        state: JobState,
        state_message: String,
        local_percent: Option<f64>,
    ) -> Result<(), Refusal> {
        let now = self.wall();
        let state_message = joined([state_message, not_there(&job.missing)]);
        let job = Arc::new(Job { state, state_message, wanted: None, ended: Some(now), ..job });
        let mut writes = vec![Write::Job(job.clone())];
        let event = self.event(&job, local_percent).filter(|event| self.is_news(event));
        writes.extend(event.map(|event| Write::Event(Arc::new(event))));
        let fight = self.fight_after(&job);
        let follow_up = self.after_run(&job, fight.as_ref());
        writes.extend(follow_up.iter().map(|(schedule, _)| Write::Schedule(schedule.clone())));
        self.commit(writes)?;
        self.ended_bytes += job.weight();
        let follow_up = follow_up.map(|(schedule, due)| (schedule.id.clone(), due));
        self.then(move |dispatcher| dispatcher.after_end(&job, fight, follow_up, local_percent));
        Ok(())
    }

    /// What follows from an end that is stored.
    fn after_end(
        &mut self,
        job: &Job,
        fight: Option<Fight>,
        follow_up: Option<(ScheduleId, Option<Instant>)>,
        local_percent: Option<f64>,
    ) {
        let number = job.id.number().unwrap_or_default();
        self.found.remove(&number);
        self.behind.remove(&number);
        if let Some((schedule, fight)) = job.schedule.as_ref().zip(fight) {
            self.set_fight(schedule, fight);
        }
        if let Some((schedule, due)) = follow_up {
            self.set_due(&schedule, due);
        }
        self.edges.metrics.job_ended(job);
        let ratio = job.outcome.as_ref().and_then(|outcome| outcome.after);
        let ratio = ratio.map(|after| after.movable.percent()).or(local_percent);
        if let (Some(percent), Ok(owner)) = (ratio, self.owner_of(job))
            && let Some(id) = self.only_workload(job, &owner)
        {
            self.edges.metrics.workload_local(id, percent);
        }
        // A field `message` would be a second MESSAGE in the journal.
        tracing::info!(job = %job.id, state = job.state.name(), why = job.state_message, "job ended");
    }

    fn event(&self, job: &Job, local_percent: Option<f64>) -> Option<Event> {
        let outcome = job.outcome.as_deref();
        let moved_bytes = outcome.map_or(0, |outcome| outcome.account().moved_bytes());
        let kind = match job.state {
            JobState::Succeeded | JobState::Partial => EventType::Completed,
            JobState::Skipped => EventType::Skipped,
            // One that goes on at the next start has not come to its end.
            JobState::Interrupted if resumes(job) => return None,
            JobState::Failed | JobState::Interrupted => EventType::Failed,
            JobState::Cancelled if moved_bytes > 0 => EventType::Completed,
            JobState::Cancelled => EventType::Skipped,
            JobState::Queued | JobState::Planning | JobState::Running | JobState::Paused => {
                return None;
            }
        };
        let flows = || outcome.into_iter().flat_map(|outcome| outcome.flows.keys());
        let mut from = NodeSet::new();
        let mut to = NodeSet::new();
        flows().for_each(|&(source, _)| from.insert(source));
        flows().for_each(|&(_, target)| to.insert(target));
        let after = outcome.and_then(|outcome| outcome.after);
        let failed = outcome.into_iter().flat_map(|outcome| &outcome.processes);
        let failed = failed.filter_map(|process| {
            let (identity, comm) = (process.identity, process.comm.clone());
            Some(FailedProcess { identity, comm, error: process.error.clone()? })
        });
        let before = outcome.map(|outcome| outcome.before.movable.percent());
        let after_percent = after.map(|after| after.movable.percent());
        Some(Event {
            number: self.book.last().event + 1,
            kind,
            time: self.wall(),
            job: job.id.clone(),
            schedule: job.schedule.clone(),
            target: job.spec.target.clone(),
            from,
            to,
            before_percent: before.or(local_percent),
            after_percent: after_percent.or(local_percent),
            remote_bytes: after.map(|after| after.movable.remote_bytes),
            failed: failed.collect(),
            missing: job.missing.clone(),
            message: message(job, moved_bytes, before.zip(after_percent)),
        })
    }

    /// Whether an event is to be told: always, but of a repeating schedule only the first, one of another kind than the
    /// last, and one with another ratio.
    fn is_news(&self, event: &Event) -> bool {
        let repeats = |schedule| {
            self.book.schedule(schedule).is_some_and(|schedule| !schedule.spec.interval.is_zero())
        };
        let Some(schedule) = event.schedule.as_ref().filter(|schedule| repeats(schedule)) else {
            return true;
        };
        let Some(last) = self.book.last_event_of(schedule) else { return true };
        let ratios = last.after_percent.zip(event.after_percent);
        last.kind != event.kind
            || last.after_percent.is_some() != event.after_percent.is_some()
            || ratios.is_some_and(|(last, now)| (last - now).abs() > POINTS)
    }
}

/// What of a target was not there, for people; empty if all was.
fn not_there(missing: &[Missing]) -> String {
    let names = first_few(missing.iter().map(|missing| &missing.member));
    names.map(|names| format!("not there: {names}")).unwrap_or_default()
}

/// Several things to be said at an end.
pub(super) fn joined(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

fn message(job: &Job, moved_bytes: u64, ratio: Option<(f64, f64)>) -> String {
    let mut message = job.state.name().to_ascii_lowercase();
    if moved_bytes > 0 {
        message.push_str(&format!(", {:.1} MiB moved", moved_bytes as f64 / f64::from(1 << 20)));
    }
    if let Some((before, after)) = ratio {
        message.push_str(&format!(", {before:.1} % -> {after:.1} % local"));
    }
    if !job.state_message.is_empty() {
        message.push_str(": ");
        message.push_str(&job.state_message);
    }
    message
}

//! The processes that jobs work on, for live views.

use super::{dispatcher::Dispatcher, run::Run};
use numaloc_api::{
    WorkingJob,
    value::{Job, JobState},
};
use numaloc_core::Flows;
use std::time::Duration;
use tokio::time::Instant;

/// The work that live views show.
#[derive(Clone, Debug, Default)]
pub struct LiveWork {
    /// The open jobs with the processes that are known of them: moving jobs first, then by number. Behind them jobs
    /// that have ended since the view began.
    pub jobs: Vec<WorkingJob>,
    /// Bytes that jobs have moved since the daemon started, by nodes.
    pub flows: Flows,
}

impl Dispatcher {
    /// The work that a view shows that began `up` ago.
    pub(super) fn live_work(&self, up: Duration) -> LiveWork {
        let open = self.records.open_numbers().filter_map(|number| self.working_job(number));
        let (mut jobs, waiting): (Vec<_>, Vec<_>) =
            open.partition(|job| job.state == JobState::Running);
        jobs.extend(waiting);
        // No job ended before the clock began.
        let begin = Instant::now().checked_sub(up);
        jobs.extend(self.open.ended_since(begin).cloned());
        LiveWork { jobs, flows: self.open.flows().clone() }
    }

    fn working_job(&self, number: u64) -> Option<WorkingJob> {
        let job = &self.records.jobs().get(&number)?.job;
        let run = self.runs.get(&number);
        // The findings of a plan are newer.
        let found = run.and_then(|run| run.found.as_ref()).or_else(|| self.open.found(number))?;
        let moving = run.filter(|run| run.is_moving()).map(|run| run.progress_now(self.wall()));
        let now = moving.as_ref().map_or(0, |progress| progress.moved_bytes);
        Some(WorkingJob {
            id: Some(job.id.clone()),
            state: job.state,
            state_message: self.why_queued(job).unwrap_or_else(|| job.state_message.clone()),
            progress: moving.or_else(|| job.progress.clone()),
            moved_bytes: moved_before(job) + now,
            processes: found.processes.clone(),
        })
    }

    /// Remembers a job that has ended, if it has moved memory of processes, and counts what it has moved.
    pub(super) fn remember(&mut self, number: u64, job: &Job) {
        job.outcome.iter().for_each(|outcome| self.open.count(&outcome.flows));
        let run = self.runs.get(&number).and_then(|run: &Run| run.found.as_ref());
        let Some(found) = run.or_else(|| self.open.found(number)) else { return };
        let moved_bytes = moved_before(job);
        if moved_bytes == 0 || found.processes.is_empty() {
            return;
        }
        let ended = WorkingJob {
            id: Some(job.id.clone()),
            state: job.state,
            state_message: String::new(),
            progress: None,
            moved_bytes,
            processes: found.processes.clone(),
        };
        self.open.remember(Instant::now(), ended);
    }
}

/// Bytes that the ended runs of a job have moved.
pub(super) fn moved_before(job: &Job) -> u64 {
    job.outcome.as_ref().map_or(0, |outcome| outcome.account().moved_bytes())
}

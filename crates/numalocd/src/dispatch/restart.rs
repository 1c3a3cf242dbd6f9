//! What becomes of what the last daemon left, and what is forgotten in time.

use super::{Refusal, dispatcher::Dispatcher};
use crate::store::{Kept, Weight, Write};
use numaloc_api::value::{Job, JobState, OnInterrupt};
use std::collections::BTreeMap;

/// A schedule's ended jobs beyond so many are forgotten, so that it does not push out those of clients.
const JOBS_OF_SCHEDULE: usize = 20;
/// As many records are forgotten in one commit.
const FORGET: usize = 1000;

impl Dispatcher {
    /// Deals with jobs that were under way. Does nothing that cannot be stored: then it is called again.
    pub(super) fn recover(&mut self) -> Result<(), Refusal> {
        if self.recovered {
            return Ok(());
        }
        let is_left = |job: &&Job| {
            matches!(job.state, JobState::Planning | JobState::Running | JobState::Suspended)
                // As a daemon before there was SUSPENDED has left it.
                || (job.state == JobState::Interrupted && resumes(job))
        };
        let left = self.book.jobs().values().map(|kept| &*kept.job).filter(is_left);
        for id in left.map(|job| job.id.clone()).collect::<Vec<_>>() {
            let job = self.get_job(&id)?;
            match (job.state, job.wanted) {
                (_, Some(JobState::Cancelled)) => {
                    let message = "cancelled; the daemon ended meanwhile".to_owned();
                    self.end_job(&job, JobState::Cancelled, message, None)?;
                }
                (_, Some(_)) => {
                    let message = "held; the daemon ended meanwhile".to_owned();
                    self.put_job(&job, JobState::Paused, message)?;
                }
                // Nothing has been moved yet.
                (JobState::Planning, None) => {
                    self.put_job(&job, JobState::Queued, String::new())?;
                }
                (_, None) if resumes(&job) => {
                    let again = Job { ended: None, ..(*job).clone() };
                    let message = "interrupted by the end of the daemon, planned anew".to_owned();
                    self.put_job(&again, JobState::Queued, message)?;
                }
                (_, None) => {
                    let message = "the daemon ended while it was under way".to_owned();
                    self.end_job(&job, JobState::Interrupted, message, None)?;
                }
            }
        }
        self.recovered = true;
        self.set_all_due();
        Ok(())
    }

    /// Forgets what is too old or too much, some at a time. Gives back whether there may be more.
    pub(super) fn forget(&mut self) -> Result<bool, Refusal> {
        let retention = self.config().retention;
        self.ended_bytes = 0;
        let now = self.wall();
        let is_old = |time| now.duration_since(time).is_ok_and(|age| age > retention.age);
        let mut writes = Vec::new();
        let (mut kept, mut bytes) = (0, 0);
        let mut of_schedule: BTreeMap<&str, usize> = BTreeMap::new();
        let jobs = self.book.jobs().values();
        for Kept { job, listed } in jobs.rev().filter(|kept| kept.job.state.is_end()) {
            let schedule = job.schedule.as_ref().map(|schedule| schedule.id());
            let runs = schedule.map(|schedule| of_schedule.entry(schedule).or_default());
            let too_many = runs.is_some_and(|runs| {
                *runs += 1;
                *runs > JOBS_OF_SCHEDULE
            });
            let weight = listed.as_ref().map_or(0, Weight::weight);
            let is_full = kept >= retention.jobs || bytes + weight > retention.bytes;
            if too_many || is_full || job.ended.is_some_and(is_old) {
                writes.push(Write::DropJob(job.id.clone()));
            } else {
                kept += 1;
                bytes += weight;
            }
        }
        // The oldest first, as with events.
        writes.reverse();
        let events = self.book.events();
        let mut bytes = 0;
        let fits = events.iter().rev().take(retention.events).take_while(|head| {
            bytes += head.bytes;
            bytes <= retention.bytes
        });
        let surplus = events.len() - fits.count();
        let old = events.iter().enumerate();
        let old = old.take_while(|(index, head)| *index < surplus || is_old(head.time));
        writes.extend(old.map(|(_, head)| Write::DropEvent(head.number)));
        let more = writes.len() > FORGET;
        writes.truncate(FORGET);
        if !writes.is_empty() {
            self.commit(writes)?;
        }
        Ok(more)
    }
}

/// Whether the job goes on at the next start when the daemon ends.
pub(super) fn resumes(job: &Job) -> bool {
    job.spec.policy.on_interrupt == OnInterrupt::Resume
}

//! The start: jobs that the last daemon left under way, and what only memory had.

use super::{
    dispatcher::{Dispatcher, Lookup},
    turn::work_of,
};
use crate::{refusal::Refusal, store::Kept};
use numaloc_api::value::{Job, JobId, JobState, OnInterrupt};
use numaloc_engine::FoundTarget;

/// A job with which the daemon has ended this number of times in a row is not begun again.
const ENDS: u32 = 3;

impl Dispatcher {
    /// Handles the jobs that the last daemon left under way. If something cannot be stored, this is called again later.
    pub(super) fn recover(&mut self) -> Result<(), Refusal> {
        if self.recovered {
            return Ok(());
        }
        let is_left = |job: &&Job| {
            matches!(job.state, JobState::Planning | JobState::Running | JobState::Suspended)
                // An older version of the daemon, without SUSPENDED, has left it so.
                || (job.state == JobState::Interrupted && resumes(job))
        };
        let left = self.records.jobs().values().map(|kept| &*kept.job).filter(is_left);
        for id in left.map(|job| job.id.clone()).collect::<Vec<_>>() {
            let job = self.get_job(&id)?;
            match (job.state, job.wanted) {
                (_, Some(JobState::Cancelled)) => {
                    let message = "cancelled; the daemon ended meanwhile".to_owned();
                    self.end_job(&job, JobState::Cancelled, message, None)?;
                }
                (_, Some(_)) => {
                    let message = "paused; the daemon ended meanwhile".to_owned();
                    self.put_job(&job, JobState::Paused, message)?;
                }
                // It may be what ended the daemon.
                (_, None) if self.records.under_way().ends(work_of(&job)) >= ENDS => {
                    let message =
                        format!("the daemon has ended {ENDS} times while it was under way");
                    self.end_job(&job, JobState::Failed, message, None)?;
                    if job.schedule.is_none() {
                        self.records.under_way().end(work_of(&job));
                    }
                }
                // Nothing has been moved yet.
                (JobState::Planning, None) => {
                    self.put_job(&job, JobState::Queued, String::new())?;
                }
                (_, None) if resumes(&job) => {
                    let again = Job { ended: None, ..(*job).clone() };
                    let message = "interrupted by the end of the daemon, planned again".to_owned();
                    self.put_job(&again, JobState::Queued, message)?;
                }
                (_, None) => {
                    let message = "the daemon ended while it was under way".to_owned();
                    self.end_job(&job, JobState::Interrupted, message, None)?;
                }
            }
        }
        self.tell_news()?;
        self.recovered = true;
        self.set_all_due();
        let numbers: Vec<u64> = self.records.schedules().keys().copied().collect();
        numbers.into_iter().for_each(|number| self.recall_relief(number));
        self.begin_all_leases();
        self.unseen = self.records.open_numbers().collect();
        self.look_up();
        Ok(())
    }

    /// Stores the news of the host.
    fn tell_news(&mut self) -> Result<(), Refusal> {
        let news = self.news.iter().map(|(kind, message)| self.of_host(*kind, message.clone()));
        let events = self.tell(news);
        if !events.is_empty() {
            self.commit(events)?;
            self.news.clear();
        }
        Ok(())
    }

    /// Asks the engine for the processes of the next open job of the last daemon, which alone knew which jobs share
    /// memory. One at a time: all targets together may be large.
    fn look_up(&mut self) {
        while let Some(number) = self.unseen.pop_front() {
            let kept = self.records.jobs().get(&number);
            let Some(Kept { job, .. }) = kept.filter(|kept| !kept.job.state.is_end()) else {
                continue;
            };
            // A job whose target cannot be resolved now ends at its turn.
            let Ok(owner) = self.owner_of(job) else { continue };
            let (target, options) = (&job.spec.target, job.spec.policy.options.clone());
            let Ok(selected) = self.select(target, Some(&owner), Some(&job.pins)) else { continue };
            let lookup = Lookup { job: job.id.clone(), aim: selected.aim, options, owner };
            // This fails only when the daemon ends.
            let _ = self.edges.lookups.send(lookup);
            return;
        }
    }

    /// Notes the processes and nodes of a job that was open at the start, unless more is known by now. `None`: nothing
    /// was found.
    pub(super) fn on_looked_up(&mut self, id: &JobId, found: Option<FoundTarget>) {
        let is_open = self.records.job(id).is_some_and(|job| !job.state.is_end());
        if let Some((number, found)) = id.number().filter(|_| is_open).zip(found) {
            self.open.learn_first(number, &found);
        }
        self.look_up();
    }
}

/// Whether the job's policy is to continue at the next start after the daemon has ended.
pub(super) fn resumes(job: &Job) -> bool {
    job.spec.policy.on_interrupt == OnInterrupt::Resume
}

//! Reports contested placements of schedules: an event, a line in the log, the state message.

use super::{
    contest::{Contest, STAYS},
    dispatcher::Dispatcher,
};
use numaloc_api::value::{Event, EventType, Job, ScheduleId};
use numaloc_engine::Trail;
use std::sync::Arc;

impl Dispatcher {
    /// The trail of the last run of the job's schedule. `None` for a job that continues an earlier run of its own.
    pub(super) fn trail(&self, job: &Job) -> Option<Arc<Trail>> {
        // What a relief has moved away comes back by the schedule itself.
        let is_relief = job.spec.policy.options.relief.is_some();
        let schedule = job.schedule.as_ref().filter(|_| job.outcome.is_none() && !is_relief)?;
        let number = self.records.schedule(schedule)?.id.number()?;
        self.agenda.contest(number)?.trail().cloned()
    }

    /// The state of the schedule's contest after a job that ends now. `None` if the schedule does not repeat or the job
    /// has no run.
    pub(super) fn contest_after(&self, job: &Job) -> Option<Contest> {
        let schedule = self.records.schedule(job.schedule.as_ref()?)?;
        let run = self.runs.get(&job.id.number()?)?;
        let before = schedule.id.number().and_then(|number| self.agenda.contest(number));
        let next = || {
            let before = before.cloned().unwrap_or_default();
            before.after(run.returned.as_ref(), run.trail.clone())
        };
        (!schedule.spec.interval.is_zero()).then(next)
    }

    /// The event for a contest that begins or ends with this job.
    pub(super) fn contest_event(&self, job: &Job, next: Option<&Contest>) -> Option<Event> {
        let (schedule, next) = job.schedule.as_ref().zip(next)?;
        let number = self.records.schedule(schedule)?.id.number()?;
        let before = self.agenda.contest(number);
        let (kind, message) = match (before.is_some_and(Contest::is_on), next.is_on()) {
            (false, true) => (EventType::PlacementContested, next.message().to_owned()),
            (true, false) => (EventType::PlacementStable, STAYS.to_owned()),
            _ => return None,
        };
        Some(self.of_job(job, kind, message))
    }

    /// Keeps the new state of a schedule's contest, and logs when a contest has begun or ended.
    pub(super) fn set_contest(&mut self, schedule: &ScheduleId, contest: Contest) {
        let known = self.records.schedule(schedule).and_then(|known| known.id.number());
        let Some(number) = known else { return };
        let now = contest.is_on();
        let message = contest.message().to_owned();
        let before = self.agenda.set_contest(number, contest).is_some_and(|before| before.is_on());
        match (before, now) {
            (false, true) => tracing::warn!(%schedule, "{message}"),
            (true, false) => tracing::info!(%schedule, "{STAYS}"),
            _ => {}
        }
    }

    /// The state message of a schedule whose placement is contested; empty: none.
    pub(super) fn contest_message(&self, schedule: &ScheduleId) -> String {
        let contest = schedule.number().and_then(|number| self.agenda.contest(number));
        contest.map(|contest| contest.message().to_owned()).unwrap_or_default()
    }
}

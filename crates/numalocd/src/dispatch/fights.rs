//! What follows from fights of schedules: an event, a line in the log, a word for users.

use super::{
    dispatcher::Dispatcher,
    fight::{Fight, STAYS},
};
use numaloc_api::value::{Event, EventType, Job, ScheduleId};
use numaloc_engine::Trail;
use std::sync::Arc;

impl Dispatcher {
    /// What the last run of the job's schedule has moved. `None` for a job that continues an earlier run of its own.
    pub(super) fn trail(&self, job: &Job) -> Option<Arc<Trail>> {
        let schedule = job.schedule.as_ref().filter(|_| job.outcome.is_none())?;
        let number = self.records.schedule(schedule)?.id.number()?;
        self.agenda.fight(number)?.trail().cloned()
    }

    /// The state of the schedule's fight after a job that ends now. `None` if the schedule does not repeat or the job has
    /// no run.
    pub(super) fn fight_after(&self, job: &Job) -> Option<Fight> {
        let schedule = self.records.schedule(job.schedule.as_ref()?)?;
        let run = self.runs.get(&job.id.number()?)?;
        let before = schedule.id.number().and_then(|number| self.agenda.fight(number));
        let next = || {
            let before = before.cloned().unwrap_or_default();
            before.after(run.returned.as_ref(), run.trail.clone())
        };
        (!schedule.spec.interval.is_zero()).then(next)
    }

    /// The event that a fight begins or ends with this job, if it does.
    pub(super) fn fight_event(&self, job: &Job, next: Option<&Fight>) -> Option<Event> {
        let (schedule, next) = job.schedule.as_ref().zip(next)?;
        let number = self.records.schedule(schedule)?.id.number()?;
        let before = self.agenda.fight(number);
        let (kind, message) = match (before.is_some_and(Fight::is_on), next.is_on()) {
            (false, true) => (EventType::FightBegun, next.message().to_owned()),
            (true, false) => (EventType::FightEnded, STAYS.to_owned()),
            _ => return None,
        };
        Some(self.of_job(job, kind, message))
    }

    /// Keeps the new state of a schedule's fight, and logs when a fight has begun or ended.
    pub(super) fn set_fight(&mut self, schedule: &ScheduleId, fight: Fight) {
        let known = self.records.schedule(schedule).and_then(|known| known.id.number());
        let Some(number) = known else { return };
        let now = fight.is_on();
        let message = fight.message().to_owned();
        let before = self.agenda.set_fight(number, fight).is_some_and(|before| before.is_on());
        match (before, now) {
            (false, true) => tracing::warn!(%schedule, "{message}"),
            (true, false) => tracing::info!(%schedule, "{STAYS}"),
            _ => {}
        }
    }

    /// What users are to be told of a schedule's fight; empty: nothing.
    pub(super) fn fight_message(&self, schedule: &ScheduleId) -> String {
        let fight = schedule.number().and_then(|number| self.agenda.fight(number));
        fight.map(|fight| fight.message().to_owned()).unwrap_or_default()
    }
}

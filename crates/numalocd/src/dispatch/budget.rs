//! Bytes that the runs of a schedule may move in an hour. The hour begins with the end of the first run that has moved something.

use super::{dispatcher::Dispatcher, working::moved_before};
use crate::{refusal::Refusal, store::Write};
use numaloc_api::value::{Job, Schedule, ScheduleState};
use numaloc_core::amount::shown_size;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

/// Bytes that a schedule has moved in the hour that is under way at `now`, and when that hour ends. An hour in the future is one from before
/// the clock was set back, and over.
fn of_hour(known: &Schedule, now: SystemTime) -> Option<(u64, Duration)> {
    let gone = now.duration_since(known.hour_start?).ok()?;
    Some((known.hour_moved_bytes, HOUR.checked_sub(gone).filter(|left| !left.is_zero())?))
}

impl Dispatcher {
    /// What a job may still move, less what its own runs have moved or, if it has a schedule, that of this hour.
    pub(super) fn budget_left(&self, job: &Job) -> Option<u64> {
        let of_schedule = job.schedule.as_ref().and_then(|id| self.records.schedule(id));
        let of_hour = of_schedule.and_then(|known| of_hour(known, self.wall()));
        let used = of_hour.map_or(0, |(bytes, _)| bytes).saturating_add(moved_before(job));
        Some(job.spec.limits.hourly_budget_bytes?.saturating_sub(used))
    }

    /// A schedule after a job, with what has moved in this hour.
    pub(super) fn in_hour(&self, known: Schedule, job: &Job) -> Schedule {
        let moved = moved_before(job);
        if moved == 0 || known.spec.migration.limits.hourly_budget_bytes.is_none() {
            return known;
        }
        let now = self.wall();
        let (before, start) = match of_hour(&known, now) {
            Some((bytes, _)) => (bytes, known.hour_start),
            None => (0, Some(now)),
        };
        Schedule { hour_moved_bytes: before.saturating_add(moved), hour_start: start, ..known }
    }

    /// How long a schedule has to wait until it may move anything; `None`: it may.
    pub(super) fn wait_for_budget(&self, known: &Schedule) -> Option<Duration> {
        let budget = known.spec.migration.limits.hourly_budget_bytes?;
        let (moved, wait) = of_hour(known, self.wall())?;
        (moved >= budget).then_some(wait)
    }

    /// Has a schedule wait for the next hour.
    pub(super) fn await_hour(&mut self, known: &Schedule, wait: Duration) -> Result<(), Refusal> {
        let schedule = Schedule {
            state: ScheduleState::Waiting,
            state_message: format!("{} have moved in an hour", shown_size(known.hour_moved_bytes)),
            next_run: Some(self.wall() + wait),
            gone: None,
            ..known.clone()
        };
        self.commit(vec![Write::Schedule(Arc::new(schedule))])?;
        self.set_due(&known.id, Some(Instant::now() + wait));
        Ok(())
    }
}

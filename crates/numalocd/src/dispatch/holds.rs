//! Holds: an operator drains the daemon or pauses all moves. Holds are stored, so a restart does not end them.

use super::{command::Hold, dispatcher::Dispatcher};
use crate::{
    access::Caller,
    refusal::Refusal,
    store::{Holds, Write},
};
use numaloc_api::value::JobState;

impl Dispatcher {
    /// Sets (`on`) or clears a hold. If it is so already, nothing changes.
    pub(super) fn set_hold(
        &mut self,
        caller: &Caller,
        hold: Hold,
        on: bool,
    ) -> Result<Holds, Refusal> {
        let mut holds = self.records.holds();
        let since = match hold {
            Hold::Drain => &mut holds.drained,
            Hold::Pause => &mut holds.paused,
        };
        if since.is_some() == on {
            return Ok(holds);
        }
        *since = on.then(|| self.wall());
        self.commit(vec![Write::Holds(holds)])?;
        let by = caller.name.clone();
        self.then(move |dispatcher| {
            tracing::info!(by, "{}", news(hold, on));
            dispatcher.show_queued();
        });
        Ok(holds)
    }

    /// Shows watchers of queued jobs what these wait for now.
    fn show_queued(&self) {
        let watched =
            self.records.jobs_in(JobState::Queued).filter(|job| self.records.is_watched(&job.id));
        for job in watched {
            self.records.show(self.with_progress(job.clone()));
        }
    }

    /// Ends all runs after their current batches; their jobs go back into the queue.
    pub(super) fn pause_all(&mut self) {
        for number in self.runs.keys().copied().collect::<Vec<_>>() {
            self.put_back(number, "waits: all moves are paused");
        }
    }
}

fn news(hold: Hold, on: bool) -> &'static str {
    match (hold, on) {
        (Hold::Drain, true) => "drained: no move begins until this is ended",
        (Hold::Drain, false) => "no longer drained",
        (Hold::Pause, true) => "all moves are paused until this is ended",
        (Hold::Pause, false) => "moves are no longer paused",
    }
}

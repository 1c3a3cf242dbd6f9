//! Holds: an operator drains the daemon or pauses all moves. Holds are stored, so a restart does not end them.

use super::dispatcher::Dispatcher;
use crate::{
    access::Caller,
    refusal::Refusal,
    store::{Holds, Write},
};
use numaloc_api::value::JobState;

/// The kinds of hold. An operator sets and clears each independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// No move begins; those under way go on to their end.
    Drain,
    /// No move begins, and those under way end after their current batches and go back into the queue.
    Pause,
}

impl Dispatcher {
    /// Sets (`on`) or clears a hold. If it is so already, nothing changes.
    pub(super) fn set_hold(
        &mut self,
        caller: &Caller,
        hold: Hold,
        on: bool,
    ) -> Result<Holds, Refusal> {
        let mut holds = self.book.holds();
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
            self.book.jobs_in(JobState::Queued).filter(|job| self.book.is_watched(&job.id));
        for job in watched {
            self.book.show((*self.with_progress(job.clone())).clone());
        }
    }

    /// Ends all runs after their current batches; their jobs go back into the queue.
    pub(super) fn hold_all(&mut self) {
        for number in self.runs.keys().copied().collect::<Vec<_>>() {
            self.put_back(number, "waits: all moves are paused");
        }
    }
}

fn news(hold: Hold, on: bool) -> &'static str {
    match (hold, on) {
        (Hold::Drain, true) => "drained: no move begins until this is ended",
        (Hold::Drain, false) => "drained no more",
        (Hold::Pause, true) => "all moves are paused until this is ended",
        (Hold::Pause, false) => "moves are paused no more",
    }
}

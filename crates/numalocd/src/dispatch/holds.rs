//! What keeps moves from beginning: an operator who drains the daemon, or pauses all moves. It is stored, so that a restart
//! does not end it.

use super::{Refusal, dispatcher::Dispatcher};
use crate::{
    access::Caller,
    store::{Holds, Write},
};
use numaloc_api::value::JobState;

/// What an operator begins and ends, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// No move begins; those under way go on to their end.
    Drain,
    /// Besides, those under way end after their batches in hand.
    Pause,
}

impl Dispatcher {
    /// Begins (`on`) or ends a hold. One that is as it should be stays as it is.
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

    /// Has all runs end after their batches in hand and go back into the queue.
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

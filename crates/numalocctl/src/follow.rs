//! Shows on standard error how a job of the daemon continues.

use crate::{
    fields::amount,
    job::{is_end, state},
    output::complain,
    progress::{ProgressDisplay, Wish},
};
use numaloc_api::v1;

/// Shows each change of state, and progress while memory is moved.
#[derive(Debug)]
pub struct Follow {
    wish: Wish,
    state: Option<v1::JobState>,
    progress: ProgressDisplay,
}

impl Follow {
    pub fn new(wish: Wish) -> Self {
        Self { wish, state: None, progress: ProgressDisplay::Off }
    }

    pub fn update(&mut self, job: &v1::Job) {
        if self.state != Some(job.state()) {
            self.progress.finish();
            self.progress = ProgressDisplay::Off;
            self.state = Some(job.state());
            if self.wish.is_granted() && !is_end(job.state()) {
                let reason = match &job.state_message[..] {
                    "" => String::new(),
                    message => format!(": {message}"),
                };
                complain(&format!("{} is {}{reason}", job.name, state(job)));
            }
        }
        let is_running = job.state() == v1::JobState::Running;
        let Some(progress) = job.progress.as_ref().filter(|_| is_running) else { return };
        if matches!(self.progress, ProgressDisplay::Off) {
            self.progress = ProgressDisplay::new(self.wish, amount(progress.planned_bytes));
        }
        self.progress.update(amount(progress.settled_bytes), &progress.held_back);
    }

    /// Leaves the terminal as it was.
    pub fn finish(&self) {
        self.progress.finish();
    }
}

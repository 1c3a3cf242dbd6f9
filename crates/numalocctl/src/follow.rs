//! Shows on standard error how a job of the daemon goes on.

use crate::{
    doc::JobDoc,
    job_state::JobState,
    output::complain,
    progress::{Progress, Wish},
};

/// Shows each change of state, and progress while memory is moved.
#[derive(Debug)]
pub struct Follow {
    wish: Wish,
    state: Option<JobState>,
    progress: Progress,
}

impl Follow {
    /// Nothing is shown yet.
    pub fn new(wish: Wish) -> Self {
        Self { wish, state: None, progress: Progress::Off }
    }

    /// Shows what is new.
    pub fn update(&mut self, job: &JobDoc) {
        if self.state != Some(job.state) {
            self.progress.finish();
            self.progress = Progress::Off;
            self.state = Some(job.state);
            if self.wish.is_granted() && !job.state.is_end() {
                let message = job.state_message.as_deref();
                let reason = message.map_or(String::new(), |message| format!(": {message}"));
                complain(&format!("{} is {}{reason}", job.name, job.state.name()));
            }
        }
        let Some(progress) = job.progress.as_ref().filter(|_| job.state == JobState::Running)
        else {
            return;
        };
        if matches!(self.progress, Progress::Off) {
            self.progress = Progress::new(self.wish, progress.planned_bytes);
        }
        let held_back = progress.held_back.as_deref().unwrap_or_default();
        self.progress.update(progress.settled_bytes, held_back);
    }

    /// Leaves the terminal as it was.
    pub fn finish(&self) {
        self.progress.finish();
    }
}

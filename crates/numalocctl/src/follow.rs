//! Follows a job of the daemon to its end, and shows on standard error how it continues.

use crate::{
    exit::{Code, Failure},
    fields::amount,
    job::{is_end, state},
    output::complain,
    progress::{ProgressDisplay, Wish},
    remote::{Daemon, OnCtrlC, Watched},
};
use numaloc_api::{v1, value::JobId};

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

/// Follows a job to its end. `seen` gets each of its states.
pub fn follow(
    daemon: &Daemon,
    id: &JobId,
    on_interrupt: OnCtrlC<'_>,
    wish: Wish,
    mut seen: impl FnMut(&v1::Job) -> Result<(), Failure>,
) -> Result<v1::Job, Failure> {
    let mut follow = Follow::new(wish);
    let watched = daemon.watch_job(id, on_interrupt, |job| {
        follow.update(job);
        seen(job)
    });
    follow.finish();
    match watched? {
        Watched::Ended(job) => Ok(*job),
        Watched::Left { cancelled: true } => Err(Failure::Left(format!(
            "{id} was cancelled and is ending: `numalocctl jobs watch {id}` follows it"
        ))),
        Watched::Left { cancelled: false } => Err(Failure::Left(format!(
            "{id} was there before and continues: `numalocctl jobs cancel {id}` ends it"
        ))),
    }
}

pub fn job_id(job: &v1::Job) -> Result<JobId, Failure> {
    JobId::from_name(&job.name).ok_or_else(|| {
        let name = &job.name;
        let message = format!(
            "unexpected answer from numalocd about {name:.100}: check that both have the same version (numalocctl version)"
        );
        Failure::Refused { code: Code::Failure, message }
    })
}

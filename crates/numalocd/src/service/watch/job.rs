//! The changes of a job until its end.

use super::{Watch, stopping};
use crate::{dispatch::JobNow, refusal::Refusal, store::Weight};
use numaloc_api::{encoded::FollowedJob, value::JobState};
use std::time::Duration;
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

/// Least time between two answers that show the same state.
const PROGRESS: Duration = Duration::from_millis(100);

/// A job as it is now and after its changes. A change of its state is sent at once; any other change, a tenth of a
/// second after the last answer at the earliest. Changes that are followed by others before that are left out. Ends
/// with the job.
#[derive(Debug)]
pub struct JobWatch {
    job: Receiver<JobNow>,
    told: Option<Told>,
    /// The weight of the record that was last shown as a whole: progress does not change it.
    kept: usize,
}

/// The last answer that the client got.
#[derive(Clone, Copy, Debug)]
struct Told {
    state: JobState,
    serial: u64,
    at: Instant,
}

/// An answer: a job, and whether its progress alone has changed.
#[derive(Clone, Debug)]
pub struct JobAnswer {
    pub now: JobNow,
    pub is_progress: bool,
}

impl From<JobAnswer> for FollowedJob {
    fn from(answer: JobAnswer) -> Self {
        let JobAnswer { now, is_progress } = answer;
        match now.progress.clone().filter(|_| is_progress) {
            Some(progress) => Self::advanced(&now.job, progress),
            None => Self::whole(now.encoded()),
        }
    }
}

impl JobWatch {
    /// `job` is kept up to date by the dispatcher until the job's end.
    pub fn new(mut job: Receiver<JobNow>) -> Self {
        job.mark_changed();
        Self { job, told: None, kept: 0 }
    }

    fn take(&mut self) -> JobAnswer {
        let now = self.job.borrow_and_update().clone();
        let is_progress = self.told.is_some_and(|told| told.serial == now.serial);
        if !is_progress {
            self.kept = now.stored.as_ref().map_or_else(|| now.job.weight(), Weight::weight);
        }
        let (state, serial) = (now.job.state, now.serial);
        self.told = Some(Told { state, serial, at: Instant::now() });
        JobAnswer { now, is_progress }
    }
}

impl Watch for JobWatch {
    type Answer = JobAnswer;

    async fn next(&mut self) -> Option<Result<JobAnswer, Refusal>> {
        let Some(Told { state, at, .. }) = self.told else { return Some(Ok(self.take())) };
        if state.is_end() {
            return None;
        }
        // If the channel closes before the job's end, the dispatcher has gone.
        if self.job.changed().await.is_err() {
            return Some(Err(stopping()));
        }
        let other = self.job.wait_for(|now| now.job.state != state);
        tokio::select! {
            biased;
            _ = other => {}
            () = sleep_until(at + PROGRESS) => {}
        }
        Some(Ok(self.take()))
    }

    fn kept(&self) -> usize {
        self.kept
    }
}

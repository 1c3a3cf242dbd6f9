//! A job's way to its end.

use super::{Watch, stopping};
use crate::dispatch::Refusal;
use numaloc_api::value::{Job, JobState};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

/// Least time between two answers that show the same state.
const PROGRESS: Duration = Duration::from_millis(100);

/// A job now and after its changes. A change of its state is told at once, of anything else after a tenth of a second; what
/// was overtaken by a later change meanwhile is left out. Ends with the job.
#[derive(Debug)]
pub struct JobWatch {
    job: Receiver<Arc<Job>>,
    told: Option<(JobState, Instant)>,
}

impl JobWatch {
    /// Of a job that the dispatcher keeps up to date until its end.
    pub fn new(mut job: Receiver<Arc<Job>>) -> Self {
        job.mark_changed();
        Self { job, told: None }
    }

    fn take(&mut self) -> Arc<Job> {
        let job = Arc::clone(&self.job.borrow_and_update());
        self.told = Some((job.state, Instant::now()));
        job
    }
}

impl Watch for JobWatch {
    type Answer = Arc<Job>;

    async fn next(&mut self) -> Option<Result<Arc<Job>, Refusal>> {
        let Some((state, time)) = self.told else { return Some(Ok(self.take())) };
        if state.is_end() {
            return None;
        }
        // Closed without a change, and not at its end: there is no dispatcher any more.
        if self.job.changed().await.is_err() {
            return Some(Err(stopping()));
        }
        let other = self.job.wait_for(|job| job.state != state);
        tokio::select! {
            biased;
            _ = other => {}
            () = sleep_until(time + PROGRESS) => {}
        }
        Some(Ok(self.take()))
    }
}

//! The changes of a job until its end.

use super::{Watch, stopping};
use crate::{refusal::Refusal, store::Weight};
use numaloc_api::value::{Job, JobState};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

/// Least time between two answers that show the same state.
const PROGRESS: Duration = Duration::from_millis(100);

/// A job as it is now and after its changes. A change of its state is sent at once; any other change, a tenth of a second
/// after the last answer at the earliest. Changes that are followed by others before that are left out. Ends with the job.
#[derive(Debug)]
pub struct JobWatch {
    job: Receiver<Arc<Job>>,
    told: Option<(JobState, Instant)>,
}

impl JobWatch {
    /// `job` is kept up to date by the dispatcher until the job's end.
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
        // If the channel closes before the job's end, the dispatcher has gone.
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

    fn kept(&self) -> usize {
        self.job.borrow().weight()
    }
}

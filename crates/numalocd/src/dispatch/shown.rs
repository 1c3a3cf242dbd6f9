//! A job as clients that watch it see it.

use numaloc_api::{
    encoded::Encoded,
    value::{Job, JobProgress},
};
use std::sync::Arc;

/// A job's record, and how far its run is. A record with a plan and members of thousands of processes has megabytes, so
/// progress does not copy it.
#[derive(Clone, Debug)]
pub struct JobNow {
    /// The record, or with another message why it waits.
    pub job: Arc<Job>,
    /// The whole record as the store has it, if the job has ended and `job` may lack its plan and outcome.
    pub stored: Option<Encoded<Job>>,
    /// Rises with each record.
    pub serial: u64,
    /// Progress that is newer than the record's.
    pub progress: Option<JobProgress>,
}

impl JobNow {
    pub fn new(job: Arc<Job>) -> Self {
        Self { job, stored: None, serial: 0, progress: None }
    }

    /// A job that has ended, with its whole record.
    pub fn ended(job: Arc<Job>, stored: Encoded<Job>) -> Self {
        Self { stored: Some(stored), ..Self::new(job) }
    }

    /// Takes over a later record.
    pub fn replace(&mut self, job: Arc<Job>) {
        *self = Self { serial: self.serial + 1, ..Self::new(job) };
    }

    /// The job with its progress. One that has ended may lack its plan and outcome.
    pub fn whole(&self) -> Arc<Job> {
        match &self.progress {
            None => self.job.clone(),
            progress => Arc::new(Job { progress: progress.clone(), ..(*self.job).clone() }),
        }
    }

    /// The whole job, encoded.
    pub fn encoded(&self) -> Encoded<Job> {
        self.stored.clone().unwrap_or_else(|| Encoded::from(&*self.whole()))
    }
}

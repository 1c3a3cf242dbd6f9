//! A job as clients that watch it see it.

use numaloc_api::value::{Job, JobProgress};
use std::sync::Arc;

/// A job's record, and how far its run is. A record with a plan and members of thousands of processes has megabytes, so
/// progress does not copy it.
#[derive(Clone, Debug)]
pub struct JobNow {
    /// The record, or with another message why it waits.
    pub job: Arc<Job>,
    /// Rises with each record.
    pub serial: u64,
    /// Progress that is newer than the record's.
    pub progress: Option<JobProgress>,
}

impl JobNow {
    pub fn new(job: Arc<Job>) -> Self {
        Self { job, serial: 0, progress: None }
    }

    /// Takes over a later record.
    pub fn replace(&mut self, job: Arc<Job>) {
        *self = Self { job, serial: self.serial + 1, progress: None };
    }

    /// The job with its progress.
    pub fn whole(&self) -> Arc<Job> {
        match &self.progress {
            None => self.job.clone(),
            progress => Arc::new(Job { progress: progress.clone(), ..(*self.job).clone() }),
        }
    }
}

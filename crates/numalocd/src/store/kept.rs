//! The part of a job that is kept in memory.

use numaloc_api::{Stored, encoded::ListedJob, value::Job};
use std::sync::Arc;

/// A job as it is kept in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The job. If it has ended, its plan, members and outcome are left out; [`super::Store::job`] reads the whole job.
    pub job: Arc<Job>,
    /// The form of the job in lists, if it has ended. It is encoded once, because it does not change and most jobs have
    /// ended.
    pub listed: Option<ListedJob>,
    /// Size of the whole job in the store in bytes, if it has ended; 0: it has not.
    pub bytes: usize,
}

impl AsRef<Job> for Kept {
    fn as_ref(&self) -> &Job {
        &self.job
    }
}

impl From<Arc<Job>> for Kept {
    fn from(job: Arc<Job>) -> Self {
        let bytes = if job.state.is_end() { job.encoded_len() } else { 0 };
        Self::new(job, bytes)
    }
}

impl Kept {
    /// A job that takes this many bytes in the store.
    pub fn new(job: Arc<Job>, bytes: usize) -> Self {
        if !job.state.is_end() {
            return Self { job, listed: None, bytes: 0 };
        }
        let listed = Some(ListedJob::from(&*job));
        let job = Arc::unwrap_or_clone(job);
        let job = Job { plan: None, members: Vec::new(), outcome: None, ..job };
        Self { job: Arc::new(job), listed, bytes }
    }
}

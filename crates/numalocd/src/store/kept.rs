//! What of a job stays in memory.

use numaloc_api::{encoded::ListedJob, value::Job};
use std::sync::Arc;

/// A job as it is kept in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The job; without plan, members and outcome if it has ended: [`super::Store::job`] has it whole.
    pub job: Arc<Job>,
    /// What lists show of it if it has ended: encoded once, since it does not change and is most of what is listed.
    pub listed: Option<ListedJob>,
}

impl From<Arc<Job>> for Kept {
    fn from(job: Arc<Job>) -> Self {
        if !job.state.is_end() {
            return Self { job, listed: None };
        }
        let listed = Some(ListedJob::from(&*job));
        let job = Arc::unwrap_or_clone(job);
        let job = Job { plan: None, members: Vec::new(), outcome: None, ..job };
        Self { job: Arc::new(job), listed }
    }
}

//! Jobs of a list, encoded in advance, and the servers that answer with them. The encoding is that of [`crate::v1`],
//! because a nested message is encoded like a `bytes` field.

use crate::{
    v1,
    value::{Job, JobId},
};
use prost::{Message, bytes::Bytes};

pub use servers::*;

/// The servers of [`crate::v1`]. Only two calls differ: ListJobs answers with [`ListedJobs`], WatchJobs with [`WatchedJob`].
#[allow(missing_docs, clippy::all)]
mod servers {
    include!(concat!(env!("OUT_DIR"), "/encoded/numaloc.v1.rs"));
}

/// A job as lists show it: an encoded [`crate::v1::Job`]. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedJob(Bytes);

impl From<&Job> for ListedJob {
    fn from(job: &Job) -> Self {
        Self(job.listed().encode_to_vec().into())
    }
}

impl From<&JobId> for ListedJob {
    /// One of which there is only the name.
    fn from(id: &JobId) -> Self {
        let named = v1::Job { name: id.to_string(), ..v1::Job::default() };
        Self(named.encode_to_vec().into())
    }
}

impl AsRef<[u8]> for ListedJob {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A page of listed jobs, encoded like a [`crate::v1::ListJobsResponse`].
#[derive(Clone, PartialEq, Message)]
pub struct ListedJobs {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    jobs: Vec<Bytes>,
    #[prost(string, tag = "2")]
    next_page_token: String,
}

impl ListedJobs {
    /// A page with these jobs. Without a token it is the last page.
    pub fn new(jobs: Vec<ListedJob>, next_page_token: Option<String>) -> Self {
        let jobs = jobs.into_iter().map(|job| job.0).collect();
        Self { jobs, next_page_token: next_page_token.unwrap_or_default() }
    }
}

/// The change of a job, on the wire a [`crate::v1::WatchJobsResponse`].
#[derive(Clone, PartialEq, Message)]
pub struct WatchedJob {
    /// The number of a [`crate::v1::RecordChange`], whatever it is.
    #[prost(int32, tag = "1")]
    change: i32,
    #[prost(bytes = "bytes", optional, tag = "2")]
    job: Option<Bytes>,
    #[prost(string, tag = "3")]
    resume_token: String,
}

impl WatchedJob {
    /// The change, the job if it is about one, and what continues after it.
    pub fn new(change: v1::RecordChange, job: Option<ListedJob>, resume_token: String) -> Self {
        Self { change: change.into(), job: job.map(|job| job.0), resume_token }
    }
}

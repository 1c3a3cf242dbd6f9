//! Listed jobs that are encoded already, and the servers that answer with them. On the wire they are what [`crate::v1`] has:
//! a message within a message is written as bytes are.

use crate::value::Job;
use prost::{Message, bytes::Bytes};

pub use servers::*;

/// The servers of [`crate::v1`], but for ListJobs, which answers with [`ListedJobs`].
#[allow(missing_docs, clippy::all)]
mod servers {
    include!(concat!(env!("OUT_DIR"), "/encoded/numaloc.v1.rs"));
}

/// A job as lists show it, an encoded [`crate::v1::Job`]. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedJob(Bytes);

impl From<&Job> for ListedJob {
    fn from(job: &Job) -> Self {
        Self(job.listed().encode_to_vec().into())
    }
}

impl AsRef<[u8]> for ListedJob {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A page of them, on the wire a [`crate::v1::ListJobsResponse`].
#[derive(Clone, PartialEq, Message)]
pub struct ListedJobs {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    jobs: Vec<Bytes>,
    #[prost(string, tag = "2")]
    next_page_token: String,
}

impl ListedJobs {
    /// These jobs; without a token they are the last ones.
    pub fn new(jobs: Vec<ListedJob>, next_page_token: Option<String>) -> Self {
        let jobs = jobs.into_iter().map(|job| job.0).collect();
        Self { jobs, next_page_token: next_page_token.unwrap_or_default() }
    }
}

//! Jobs of a list, encoded in advance, and the servers that answer with them. The encoding is that of [`crate::v1`],
//! because a nested message is encoded like a `bytes` field.

use crate::value::Job;
use prost::{Message, bytes::Bytes};

pub use servers::*;

/// The servers of [`crate::v1`]. Only ListJobs differs: it answers with [`ListedJobs`].
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

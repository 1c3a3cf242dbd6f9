//! Records that are encoded already, and the servers that answer with them. The store keeps the bytes of a record's
//! message, so an answer about a record of the store has these bytes: nobody decodes them. The encoding is that of
//! [`crate::v1`], because a nested message is encoded like a `bytes` field.

use crate::{
    Damaged, Stored, v1,
    value::{Job, JobId, JobProgress},
};
use prost::{Message, bytes::Bytes};
use std::marker::PhantomData;

pub use servers::*;

/// The servers of [`crate::v1`]. They differ in the calls whose answers are here.
#[allow(missing_docs, clippy::all)]
mod servers {
    include!(concat!(env!("OUT_DIR"), "/encoded/numaloc.v1.rs"));
}

/// A whole record, encoded as its message. Inexpensive to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded<R> {
    bytes: Bytes,
    record: PhantomData<fn() -> R>,
}

impl<R> Encoded<R> {
    /// A record of which the store has these bytes. They are not read.
    pub fn of_stored(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), record: PhantomData }
    }
}

impl<R: Stored> Encoded<R> {
    /// The record in these bytes.
    ///
    /// # Errors
    /// As [`Stored::decode`].
    pub fn decode(&self) -> Result<R, Damaged> {
        R::decode(&self.bytes)
    }
}

impl<R: Stored> From<&R> for Encoded<R> {
    fn from(record: &R) -> Self {
        Self::of_stored(record.encode())
    }
}

impl<R> From<Encoded<R>> for Bytes {
    fn from(record: Encoded<R>) -> Self {
        record.bytes
    }
}

impl<R> AsRef<[u8]> for Encoded<R> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A job as lists show it: an encoded [`crate::v1::Job`]. Inexpensive to clone.
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

impl From<ListedJob> for Bytes {
    fn from(job: ListedJob) -> Self {
        job.0
    }
}

impl AsRef<[u8]> for ListedJob {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A page of a list, on the wire a [`crate::v1::ListJobsResponse`] or a [`crate::v1::ListEventsResponse`].
#[derive(Clone, PartialEq, Message)]
pub struct RecordPage {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    records: Vec<Bytes>,
    #[prost(string, tag = "2")]
    next_page_token: String,
}

impl RecordPage {
    /// A page with these records. Without a token it is the last page.
    pub fn new(records: Vec<impl Into<Bytes>>, next_page_token: Option<String>) -> Self {
        let records = records.into_iter().map(Into::into).collect();
        Self { records, next_page_token: next_page_token.unwrap_or_default() }
    }
}

/// A record, on the wire a [`crate::v1::GetJobResponse`] or a [`crate::v1::WatchEventsResponse`].
#[derive(Clone, PartialEq, Message)]
pub struct OneRecord {
    #[prost(bytes = "bytes", optional, tag = "1")]
    record: Option<Bytes>,
}

impl<R> From<Encoded<R>> for OneRecord {
    fn from(record: Encoded<R>) -> Self {
        Self { record: Some(record.bytes) }
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

/// The job that a request has made or joined, on the wire a [`crate::v1::CreateJobResponse`].
#[derive(Clone, PartialEq, Message)]
pub struct MadeJob {
    #[prost(bytes = "bytes", optional, tag = "1")]
    job: Option<Bytes>,
    /// Whether the job existed before.
    #[prost(bool, tag = "2")]
    pub existing: bool,
    /// Whether the job does something else than the request asks for.
    #[prost(bool, tag = "3")]
    pub differs: bool,
}

impl MadeJob {
    /// A job that existed before, and does what the request asks for.
    pub fn earlier(job: Encoded<Job>) -> Self {
        Self { job: Some(job.bytes), existing: true, differs: false }
    }
}

impl From<v1::CreateJobResponse> for MadeJob {
    fn from(answer: v1::CreateJobResponse) -> Self {
        let v1::CreateJobResponse { job, existing, differs } = answer;
        Self { job: job.map(|job| job.encode_to_vec().into()), existing, differs }
    }
}

/// A job that a client watches, on the wire a [`crate::v1::WatchJobResponse`].
#[derive(Clone, PartialEq, Message)]
pub struct FollowedJob {
    #[prost(bytes = "bytes", optional, tag = "1")]
    job: Option<Bytes>,
    #[prost(bool, tag = "2")]
    is_progress: bool,
}

impl FollowedJob {
    /// The whole job.
    pub fn whole(job: Encoded<Job>) -> Self {
        Self { job: Some(job.bytes), is_progress: false }
    }

    /// Only what progress has changed of the job.
    pub fn advanced(job: &Job, progress: JobProgress) -> Self {
        let advanced = job.advanced(progress).encode_to_vec();
        Self { job: Some(advanced.into()), is_progress: true }
    }
}

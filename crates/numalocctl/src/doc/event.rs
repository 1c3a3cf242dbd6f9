//! What became of jobs.

use super::{MissingDoc, TargetDoc};
use crate::time::Time;
use serde::Serialize;

/// What `events` shows.
#[derive(Clone, Debug, Serialize)]
pub struct EventsDoc {
    /// The events, oldest first.
    pub events: Vec<EventDoc>,
}

/// The end of a job.
#[derive(Clone, Debug, Serialize)]
pub struct EventDoc {
    /// `events/12`; numbers rise.
    pub name: String,
    /// `completed`, `skipped` or `failed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When.
    pub create_time: Option<Time>,
    /// The job.
    pub job: String,
    /// The schedule that created the job.
    pub schedule: Option<String>,
    /// Whose memory.
    pub target: TargetDoc,
    /// Nodes that memory left.
    pub from_nodes: Vec<u32>,
    /// Nodes that memory was brought to.
    pub to_nodes: Vec<u32>,
    /// Local share of what may be moved before.
    pub before_percent: Option<f64>,
    /// The same after.
    pub after_percent: Option<f64>,
    /// Remote memory left.
    pub remote_bytes: Option<u64>,
    /// Members of the target that were not there.
    pub missing: Vec<MissingDoc>,
    /// Processes that failed.
    pub failed_processes: Vec<FailedDoc>,
    /// The same for people.
    pub message: String,
}

/// A process that failed.
#[derive(Clone, Debug, Serialize)]
pub struct FailedDoc {
    /// Its pid.
    pub pid: i32,
    /// Its start, in clock ticks after boot.
    pub start_time_ticks: u64,
    /// Its name.
    pub comm: String,
    /// What the kernel said.
    pub error: String,
}

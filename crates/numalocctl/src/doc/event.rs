//! What the daemon did.

use super::{MemberDoc, TargetDoc};
use crate::time::Time;
use serde::Serialize;

/// What `events` shows.
#[derive(Clone, Debug, Serialize)]
pub struct EventsDoc {
    /// The events, oldest first.
    pub events: Vec<EventDoc>,
}

/// Something that the daemon did.
#[derive(Clone, Debug, Serialize)]
pub struct EventDoc {
    /// `events/12`; numbers rise.
    pub name: String,
    /// `completed`, `skipped`, `failed`, `started`, `paused`, `resumed`, `target_gone`, `schedule_removed`, `fight_begun` or
    /// `fight_ended`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When.
    pub create_time: Option<Time>,
    /// The job; null if it is about a schedule alone.
    pub job: Option<String>,
    /// The schedule that it is about, or that created the job.
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
    /// What became of members of the target, at the end of a job.
    pub members: Vec<MemberDoc>,
    /// How many there are beyond these.
    pub more_members: u64,
    /// Processes that failed, the first of them.
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

//! What the daemon did.

use super::{FailedDoc, MemberDoc, TargetDoc};
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
    /// `completed`, `skipped`, `failed`, `started`, `paused`, `resumed`, `target_gone`, `schedule_removed`, `fight_begun`,
    /// `fight_ended`, `offload_failed` or `dsa_queue_failed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened.
    pub create_time: Option<Time>,
    /// The job; null if it is about a schedule alone, or about the host.
    pub job: Option<String>,
    /// The schedule that the event is about, or that created the job.
    pub schedule: Option<String>,
    /// Whose memory; it names nobody if the event is about the host.
    pub target: TargetDoc,
    /// Nodes that memory left.
    pub from_nodes: Vec<u32>,
    /// Nodes that memory moved to.
    pub to_nodes: Vec<u32>,
    /// Local share of the movable memory before, in percent.
    pub before_percent: Option<f64>,
    /// The same after.
    pub after_percent: Option<f64>,
    /// Movable memory that is still remote.
    pub remote_bytes: Option<u64>,
    /// Results of members of the target, for the end of a job.
    pub members: Vec<MemberDoc>,
    /// Number of members beyond these.
    pub more_members: u64,
    /// The first of the processes that failed.
    pub failed_processes: Vec<FailedDoc>,
    /// The event as text for people.
    pub message: String,
}

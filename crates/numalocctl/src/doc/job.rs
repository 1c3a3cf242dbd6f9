//! The daemon's jobs.

use super::{MemberDoc, MigrationDoc, PlanDoc, SpecDoc};
use crate::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `jobs ls`, `jobs get` and changes to jobs show.
#[derive(Clone, Debug, Serialize)]
pub struct JobsDoc {
    /// The jobs.
    pub jobs: Vec<JobDoc>,
}

/// A job.
#[derive(Clone, Debug, Serialize)]
pub struct JobDoc {
    /// `jobs/42`.
    pub name: String,
    /// Where it is on its way.
    pub state: JobState,
    /// Why; null where there is nothing to add.
    pub state_message: Option<String>,
    /// What was asked for.
    #[serde(flatten)]
    pub spec: SpecDoc,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Members of the target and what has become of them so far; none in lists.
    pub members: Vec<MemberDoc>,
    /// The schedule that created it.
    pub schedule: Option<String>,
    /// Who created it.
    pub creator: String,
    /// The request_id that it was created with.
    pub request_id: Option<String>,
    /// When it was accepted.
    pub create_time: Option<Time>,
    /// When moving began.
    pub start_time: Option<Time>,
    /// When it reached its end.
    pub end_time: Option<Time>,
    /// How far it is.
    pub progress: Option<ProgressDoc>,
    /// What was decided; null in lists.
    pub plan: Option<PlanDoc>,
    /// What became of it; null before its end.
    pub outcome: Option<MigrationDoc>,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgressDoc {
    /// Bytes that it set out to move.
    pub planned_bytes: u64,
    /// Bytes confirmed on their target.
    pub moved_bytes: u64,
    /// Bytes moved or given up.
    pub settled_bytes: u64,
    /// What holds it back at the moment; null if nothing does.
    pub held_back: Option<String>,
    /// When this was measured.
    pub update_time: Option<Time>,
}

/// Where a job is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for its turn.
    Queued,
    /// Its target is being looked at.
    Planning,
    /// Memory is being moved.
    Running,
    /// Held by a client.
    Paused,
    /// Everything asked for is local.
    Succeeded,
    /// Ended with pages left that were asked for.
    Partial,
    /// There was nothing to do.
    Skipped,
    /// Could not be carried out.
    Failed,
    /// Ended by a client.
    Cancelled,
    /// The daemon died while it was under way.
    Interrupted,
    /// The same, and it goes on when the daemon is back.
    Suspended,
    /// Something that only a newer daemon knows.
    Unknown,
}

impl JobState {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Planning => "planning",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Partial => "partial",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Suspended => "suspended",
            Self::Unknown => "unknown",
        }
    }
    /// Whether it is an end.
    pub fn is_end(self) -> bool {
        use JobState::{Cancelled, Failed, Interrupted, Partial, Skipped, Succeeded};
        matches!(self, Succeeded | Partial | Skipped | Failed | Cancelled | Interrupted)
    }
}

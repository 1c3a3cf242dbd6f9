//! The daemon's jobs.

use super::{MemberDoc, MigrationDoc, PlanDoc, SpecDoc};
use crate::{job_state::JobState, time::Time};
use serde::Serialize;
use std::collections::BTreeMap;

/// The output of `jobs ls`, `jobs get` and commands that change jobs.
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
    /// Its state.
    pub state: JobState,
    /// Why it is in this state; null if there is nothing to add.
    pub state_message: Option<String>,
    /// What was asked for.
    #[serde(flatten)]
    pub spec: SpecDoc,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Members of the target and their results so far; none in lists.
    pub members: Vec<MemberDoc>,
    /// Number of members that take no part and are not listed.
    pub more_members: u64,
    /// The schedule that created it.
    pub schedule: Option<String>,
    /// Who created it.
    pub creator: String,
    /// The request_id that it was created with.
    pub request_id: Option<String>,
    /// When it was accepted.
    pub create_time: Option<Time>,
    /// When it began to move memory.
    pub start_time: Option<Time>,
    /// When it ended.
    pub end_time: Option<Time>,
    /// How far it is.
    pub progress: Option<ProgressDoc>,
    /// What is to be moved; null in lists.
    pub plan: Option<PlanDoc>,
    /// The result; null before its end.
    pub outcome: Option<MigrationDoc>,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgressDoc {
    /// Bytes that the job is to move.
    pub planned_bytes: u64,
    /// Bytes that a second look has found on their target.
    pub moved_bytes: u64,
    /// Bytes moved or given up.
    pub settled_bytes: u64,
    /// What slows it down at the moment; null if nothing does.
    pub held_back: Option<String>,
    /// When this was measured.
    pub update_time: Option<Time>,
}

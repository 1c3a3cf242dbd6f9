//! What the daemon keeps and shows: jobs, schedules, workloads and events. Their form in the store is that of the API.

use super::{
    EventType, JobId, JobProgress, JobState, MemberResult, MigrationSpec, Outcome, Pins,
    ScheduleId, ScheduleSpec, ScheduleState, Target, WorkloadSpec,
};
use crate::v1;
use numaloc_core::{Identity, NodeSet, Plan, ProcessOutcome};
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Who it is.
    pub id: JobId,
    /// What was asked for.
    pub spec: MigrationSpec,
    /// Where it is on its way.
    pub state: JobState,
    /// Cancelled or Paused where a client has asked for it and the batches in hand are not done yet.
    pub wanted: Option<JobState>,
    /// Why, for people; empty where there is nothing to add.
    pub state_message: String,
    /// What created it, if a schedule did.
    pub schedule: Option<ScheduleId>,
    /// Who created it: `uid:1000`, `cert:NAME` for the name in a client certificate, or `schedule`.
    pub creator: String,
    /// The group that its creator's grant is to, if it is to a group.
    pub creator_gid: Option<u32>,
    /// Who has had its schedule run, in the form of [`Self::creator`]; `None`: nobody has asked for this run, or it is none.
    pub requester: Option<String>,
    /// The request_id that it was created with.
    pub request_id: Option<String>,
    /// The processes that the pids of its target mean.
    pub pins: Pins,
    /// The members of its target, and what has become of each so far.
    pub members: Vec<MemberResult>,
    /// Labels that its creator gave it, or its schedule has.
    pub labels: BTreeMap<String, String>,
    /// When it was accepted.
    pub created: SystemTime,
    /// When moving began.
    pub started: Option<SystemTime>,
    /// When it reached its end.
    pub ended: Option<SystemTime>,
    /// How far it is.
    pub progress: Option<JobProgress>,
    /// What was decided.
    pub plan: Option<Arc<PlanSummary>>,
    /// What became of it.
    pub outcome: Option<Arc<Outcome>>,
}

/// A plan with its extents summed up, as it is kept and shown.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSummary(pub(crate) v1::Plan);

impl From<&Plan> for PlanSummary {
    fn from(plan: &Plan) -> Self {
        Self(plan.into())
    }
}

/// A schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Who it is.
    pub id: ScheduleId,
    /// What clients set of it.
    pub spec: ScheduleSpec,
    /// Where it stands.
    pub state: ScheduleState,
    /// Why, for people; empty where there is nothing to add.
    pub state_message: String,
    /// The job of the last run.
    pub last_job: Option<JobId>,
    /// When the last run started.
    pub last_run: Option<SystemTime>,
    /// When the next run is due.
    pub next_run: Option<SystemTime>,
    /// When its target was first missing.
    pub gone: Option<SystemTime>,
    /// When it was created.
    pub created: SystemTime,
    /// When a client last changed it.
    pub updated: SystemTime,
    /// Who created it, in the form of [`Job::creator`].
    pub creator: String,
    /// The group that its creator's grant is to, if it is to a group.
    pub creator_gid: Option<u32>,
    /// The request_id that it was created with.
    pub request_id: Option<String>,
    /// The processes that the pids of its target mean.
    pub pins: Pins,
    /// Changes with each update by a client.
    pub etag: String,
}

/// A registered workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What was registered.
    pub spec: WorkloadSpec,
    /// When.
    pub created: SystemTime,
    /// By whom, in the form of [`Job::creator`].
    pub creator: String,
    /// The group that its creator's grant is to, if it is to a group.
    pub creator_gid: Option<u32>,
    /// Changes with each change of it.
    pub etag: String,
    /// When its lease ends, as far as is known: it is shown, and means nothing in a record that is stored.
    pub expires: Option<SystemTime>,
}

/// Something that the daemon did, for those who report on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number; numbers rise and are never used again.
    pub number: u64,
    /// What happened.
    pub kind: EventType,
    /// When.
    pub time: SystemTime,
    /// The job; `None`: it is about a schedule alone.
    pub job: Option<JobId>,
    /// The schedule that it is about, or that created the job.
    pub schedule: Option<ScheduleId>,
    /// Who created it, or its schedule, in the form of [`Job::creator`]; empty: not known.
    pub creator: String,
    /// Whose memory.
    pub target: Target,
    /// Nodes that memory left.
    pub from: NodeSet,
    /// Nodes that memory was brought to.
    pub to: NodeSet,
    /// Local share before, in percent.
    pub before_percent: Option<f64>,
    /// Local share after, in percent.
    pub after_percent: Option<f64>,
    /// Remote bytes left.
    pub remote_bytes: Option<u64>,
    /// Processes that failed, the first of them.
    pub failed: Vec<FailedProcess>,
    /// What became of members of the target, those first of which the most is to be told.
    pub members: Vec<MemberResult>,
    /// How many there are beyond these.
    pub more_members: usize,
    /// The same for people.
    pub message: String,
}

/// A process that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProcess {
    /// Who it is.
    pub identity: Identity,
    /// Its name.
    pub comm: String,
    /// What the kernel said.
    pub error: String,
}

impl FailedProcess {
    /// A process after its move, if it failed.
    pub fn of(process: &ProcessOutcome) -> Option<Self> {
        let (identity, comm) = (process.identity, process.comm.clone());
        Some(Self { identity, comm, error: process.error.clone()? })
    }
}

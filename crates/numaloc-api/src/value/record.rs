//! The daemon's records: jobs, schedules, workloads and events. They are stored as messages of the API.

use super::{
    EventType, FailedProcess, JobId, JobProgress, JobState, MemberResult, MigrationSpec, Outcome,
    Pins, ScheduleId, ScheduleSpec, ScheduleState, Target, WorkloadSpec,
};
use crate::v1;
use numaloc_core::{NodeId, NodeSet, Plan};
use prost::Message;
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

/// A job as the store keeps it; the message is [`crate::v1::Job`].
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its resource name, chosen by the client or the daemon.
    pub id: JobId,
    /// The migration that the client or schedule has requested.
    pub spec: MigrationSpec,
    /// The state as of the last commit.
    pub state: JobState,
    /// Cancelled or Paused if a client has asked for that and the job's current batches are not done yet.
    pub wanted: Option<JobState>,
    /// Why it is in this state, as text for people; empty if there is nothing to add.
    pub state_message: String,
    /// The schedule that created it; `None` if a client did.
    pub schedule: Option<ScheduleId>,
    /// Creator: `uid:1000`, `cert:NAME` for a name in the client certificate, `spiffe://...` for its SPIFFE ID, or
    /// `schedule`. `uid:0@PATH` is a user that connected to the additional socket at PATH.
    pub creator: String,
    /// Id of the group that its creator's grant is to; `None` if the grant is to the creator itself.
    pub creator_gid: Option<u32>,
    /// The caller that had its schedule run, in the form of [`Self::creator`]; `None`: this run was not requested, or
    /// has no schedule.
    pub requester: Option<String>,
    /// The request_id that it was created with.
    pub request_id: Option<String>,
    /// Requests that have joined it, the latest last; at most [`Self::JOINED`].
    pub joined: Vec<JobJoin>,
    /// The processes that the pids of its target stand for.
    pub pins: Pins,
    /// The members of its target, and the result of each so far. Only the first of the members that take no part,
    /// up to [`Self::LEFT_OUT`], are kept: [`Self::with_members`] sets them.
    pub members: Vec<MemberResult>,
    /// Number of further members that take no part.
    pub more_members: usize,
    /// The labels that its creator gave it, or those of its schedule.
    pub labels: BTreeMap<String, String>,
    /// When the daemon accepted the request.
    pub created: SystemTime,
    /// When moving first began; `None` before.
    pub started: Option<SystemTime>,
    /// When it reached its end.
    pub ended: Option<SystemTime>,
    /// Progress of its run, as last reported.
    pub progress: Option<JobProgress>,
    /// Summary of the plan.
    pub plan: Option<Arc<PlanSummary>>,
    /// The result so far; `None` before a run of it has ended.
    pub outcome: Option<Arc<Outcome>>,
}

/// A request that has joined a job instead of making one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobJoin {
    /// The client, in the form of [`Job::creator`].
    pub client: String,
    /// The request_id, which is unique among those of the client.
    pub request_id: String,
    /// Digest of the request ([`CreateJob::digest`](super::CreateJob::digest)), which tells a retry from another
    /// request.
    pub digest: u64,
}

impl Job {
    /// The job with one more request that has joined it.
    #[must_use]
    pub fn joined_by(mut self, request: JobJoin) -> Self {
        let is_other = |known: &JobJoin| {
            (&known.client, &known.request_id) != (&request.client, &request.request_id)
        };
        self.joined.retain(is_other);
        let many = (self.joined.len() + 1).saturating_sub(Self::JOINED);
        self.joined.drain(..many);
        self.joined.push(request);
        self
    }

    /// Most members that are listed although they take no part. A target may name thousands that do not exist.
    pub const LEFT_OUT: usize = 64;
    /// Most requests that have joined it and are known: the last ones.
    pub const JOINED: usize = 64;

    /// A queued job of which only its request is known.
    pub fn new(id: JobId, spec: MigrationSpec, creator: String, created: SystemTime) -> Self {
        Self {
            id,
            spec,
            state: JobState::Queued,
            wanted: None,
            state_message: String::new(),
            schedule: None,
            creator,
            creator_gid: None,
            requester: None,
            request_id: None,
            joined: Vec::new(),
            pins: Pins::new(),
            members: Vec::new(),
            more_members: 0,
            labels: BTreeMap::new(),
            created,
            started: None,
            ended: None,
            progress: None,
            plan: None,
            outcome: None,
        }
    }

    /// The job with these members of its target.
    #[must_use]
    pub fn with_members(mut self, members: Vec<MemberResult>) -> Self {
        self.members = members;
        self.more_members = 0;
        self.leave_out();
        self
    }

    /// Keeps [`Self::LEFT_OUT`] of the members that take no part, and counts the rest.
    fn leave_out(&mut self) {
        let mut listed = 0;
        let before = self.members.len();
        self.members.retain(|member| {
            listed += usize::from(member.state.is_left_out());
            listed <= Self::LEFT_OUT || !member.state.is_left_out()
        });
        self.more_members += before - self.members.len();
    }

    /// A record that an earlier version has written, within the bounds of this one.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.leave_out();
        self
    }

    /// The job with as little as it needs to be planned again: without members, plan and single processes.
    #[must_use]
    pub fn reduced(self) -> Self {
        let outcome = self.outcome.map(|outcome| Arc::new(outcome.summed_up()));
        let more_members = self.more_members + self.members.len();
        Self { members: Vec::new(), more_members, plan: None, outcome, ..self }
    }
}

/// A plan as it is stored and shown, with its extents summed up.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSummary(pub(crate) v1::Plan);

impl From<&PlanSummary> for v1::Plan {
    fn from(summary: &PlanSummary) -> Self {
        summary.0.clone()
    }
}

impl From<&Plan> for PlanSummary {
    fn from(plan: &Plan) -> Self {
        Self(plan.into())
    }
}

impl PlanSummary {
    /// Its approximate size in memory, in bytes. Its processes are most of it.
    pub fn bytes(&self) -> usize {
        let process = |process: &v1::ProcessLocality| size_of_val(process) + process.encoded_len();
        self.0.processes.iter().map(process).sum()
    }
}

/// A schedule as the store keeps it; the message is [`crate::v1::Schedule`].
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its resource name, chosen by the client or the daemon.
    pub id: ScheduleId,
    /// Settings of its owner, who can change them.
    pub spec: ScheduleSpec,
    /// The state as of the last commit.
    pub state: ScheduleState,
    /// Why it is in this state, as text for people; empty if there is nothing to add.
    pub state_message: String,
    /// The job of the last run.
    pub last_job: Option<JobId>,
    /// When the last run started.
    pub last_run: Option<SystemTime>,
    /// When the next run is due.
    pub next_run: Option<SystemTime>,
    /// When its target was first found missing.
    pub gone: Option<SystemTime>,
    /// When the daemon accepted the request.
    pub created: SystemTime,
    /// When a client last changed it.
    pub updated: SystemTime,
    /// Creator, in the form of [`Job::creator`].
    pub creator: String,
    /// Id of the group that its creator's grant is to; `None` if the grant is to the creator itself.
    pub creator_gid: Option<u32>,
    /// The request_id that it was created with.
    pub request_id: Option<String>,
    /// Digest of the specification that it was created with ([`ScheduleSpec::digest`]); 0: not known.
    pub request_digest: u64,
    /// The processes that the pids of its target stand for.
    pub pins: Pins,
    /// Changes with each update by a client.
    pub etag: String,
    /// The file of the daemon's configuration that declares it; `None`: a client has created it.
    pub declared_in: Option<String>,
    /// Bytes that its runs have moved away from the node that it relieves and have not brought back, by the node that they went to.
    pub relieved: BTreeMap<NodeId, u64>,
    /// When a run last moved some of them.
    pub relieved_at: Option<SystemTime>,
    /// What its runs have moved in an hour; only of schedules with a budget.
    pub hour_moved_bytes: u64,
    /// When that hour began.
    pub hour_start: Option<SystemTime>,
}

impl Schedule {
    /// A schedule that has not run. It is due at once, unless it is paused.
    pub fn new(id: ScheduleId, spec: ScheduleSpec, creator: String, created: SystemTime) -> Self {
        Self {
            id,
            state: if spec.paused { ScheduleState::Paused } else { ScheduleState::Waiting },
            state_message: String::new(),
            last_job: None,
            last_run: None,
            next_run: (!spec.paused).then_some(created),
            spec,
            gone: None,
            created,
            updated: created,
            creator,
            creator_gid: None,
            request_id: None,
            request_digest: 0,
            pins: Pins::new(),
            etag: String::new(),
            declared_in: None,
            relieved: BTreeMap::new(),
            relieved_at: None,
            hour_moved_bytes: 0,
            hour_start: None,
        }
    }
}

/// A workload as the store keeps it; the message is [`crate::v1::Workload`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Registration by its owner, who can replace it.
    pub spec: WorkloadSpec,
    /// When it was registered first.
    pub created: SystemTime,
    /// Client that registered it, in the form of [`Job::creator`].
    pub creator: String,
    /// Id of the group that its creator's grant is to; `None` if the grant is to the creator itself.
    pub creator_gid: Option<u32>,
    /// Changes with each change of it.
    pub etag: String,
    /// The request_id of its creator's request that last changed it.
    pub request_id: Option<String>,
    /// When its lease ends, as far as is known. It is only for answers: the value in a stored record means nothing.
    pub expires: Option<SystemTime>,
}

impl Workload {
    /// A workload without a lease.
    pub fn new(spec: WorkloadSpec, creator: String, created: SystemTime) -> Self {
        let (creator_gid, request_id, etag, expires) = (None, None, String::new(), None);
        Self { spec, created, creator, creator_gid, etag, request_id, expires }
    }
}

/// Something that the daemon did, for clients that report on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number; numbers rise and are never used again.
    pub number: u64,
    /// The daemon's action, which decides the fields that are set.
    pub kind: EventType,
    /// When that was, by the host's wall clock.
    pub time: SystemTime,
    /// The job; `None` if the event is about a schedule alone, or about the host.
    pub job: Option<JobId>,
    /// The schedule that the event is about, or that created the job.
    pub schedule: Option<ScheduleId>,
    /// Creator of the job, or of the schedule that made it, in the form of [`Job::creator`]; empty if not known, and
    /// if the event is about the host.
    pub creator: String,
    /// The labels that the job or schedule had at that time.
    pub labels: BTreeMap<String, String>,
    /// The group that the creator's grant is to, as in [`Job::creator_gid`].
    pub creator_gid: Option<u32>,
    /// Owner of the memory; without members if the event is about the host. [`Target::abridged`].
    pub target: Target,
    /// Number of the target's names and requirements beyond these.
    pub more_target_names: usize,
    /// Nodes that pages were moved from.
    pub from: NodeSet,
    /// Nodes that memory moved to.
    pub to: NodeSet,
    /// Local share of the movable memory before, in percent.
    pub before_percent: Option<f64>,
    /// Local share of the movable memory after, in percent.
    pub after_percent: Option<f64>,
    /// Bytes of movable memory that are still remote.
    pub remote_bytes: Option<u64>,
    /// The first of the processes that failed.
    pub failed: Vec<FailedProcess>,
    /// Results of members of the target; members that failed or took no part come first.
    pub members: Vec<MemberResult>,
    /// Number of members beyond these.
    pub more_members: usize,
    /// The event as text for people.
    pub message: String,
}

impl Event {
    /// An event about the host.
    pub fn new(number: u64, kind: EventType, time: SystemTime, message: String) -> Self {
        Self {
            number,
            kind,
            time,
            job: None,
            schedule: None,
            creator: String::new(),
            creator_gid: None,
            labels: BTreeMap::new(),
            target: Target::default(),
            more_target_names: 0,
            from: NodeSet::new(),
            to: NodeSet::new(),
            before_percent: None,
            after_percent: None,
            remote_bytes: None,
            failed: Vec::new(),
            members: Vec::new(),
            more_members: 0,
            message,
        }
    }
}

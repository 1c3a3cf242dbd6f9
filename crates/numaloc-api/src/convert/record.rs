//! What the daemon keeps, as it shows it. The views borrow, so that how it is kept is the daemon's own affair.

use super::names::{index, int, timestamp};
use crate::{
    v1,
    value::{
        EventType, JobId, JobProgress, JobState, MigrationSpec, Outcome, ScheduleId, ScheduleSpec,
        ScheduleState, Target, WorkloadSpec,
    },
};
use numaloc_core::{Identity, NodeSet, Plan};
use std::time::SystemTime;

/// A job.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    /// Who it is.
    pub id: &'a JobId,
    /// What was asked for.
    pub spec: &'a MigrationSpec,
    /// Where it is on its way.
    pub state: JobState,
    /// Why, for people.
    pub state_message: &'a str,
    /// What created it, if a schedule did.
    pub schedule: Option<&'a ScheduleId>,
    /// Who created it.
    pub creator: &'a str,
    /// The request_id that it was created with.
    pub request_id: Option<&'a str>,
    /// When it was accepted.
    pub created: SystemTime,
    /// When moving began.
    pub started: Option<SystemTime>,
    /// When it reached its end.
    pub ended: Option<SystemTime>,
    /// How far it is.
    pub progress: Option<JobProgress>,
    /// What was decided.
    pub plan: Option<&'a Plan>,
    /// What became of it.
    pub outcome: Option<&'a Outcome>,
}

impl JobView<'_> {
    /// The job as lists show it: without the plan and the processes of the outcome.
    pub fn listed(self) -> v1::Job {
        let mut job = v1::Job::from(Self { plan: None, ..self });
        job.outcome.iter_mut().for_each(|outcome| outcome.processes.clear());
        job
    }
}

impl From<JobView<'_>> for v1::Job {
    fn from(job: JobView<'_>) -> Self {
        Self {
            name: job.id.to_string(),
            spec: Some(job.spec.into()),
            state: v1::JobState::from(job.state).into(),
            state_message: job.state_message.to_owned(),
            schedule: job.schedule.map(ToString::to_string).unwrap_or_default(),
            creator: job.creator.to_owned(),
            request_id: job.request_id.unwrap_or_default().to_owned(),
            create_time: Some(timestamp(job.created)),
            start_time: job.started.map(timestamp),
            end_time: job.ended.map(timestamp),
            progress: job.progress.map(Into::into),
            plan: job.plan.map(Into::into),
            outcome: job.outcome.map(Into::into),
        }
    }
}

impl From<JobProgress> for v1::JobProgress {
    fn from(progress: JobProgress) -> Self {
        Self {
            planned_bytes: int(progress.planned_bytes),
            moved_bytes: int(progress.moved_bytes),
            settled_bytes: int(progress.settled_bytes),
            update_time: Some(timestamp(progress.measured)),
        }
    }
}

/// A schedule.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleView<'a> {
    /// Who it is.
    pub id: &'a ScheduleId,
    /// What clients set of it.
    pub spec: &'a ScheduleSpec,
    /// Where it stands.
    pub state: ScheduleState,
    /// Why, for people.
    pub state_message: &'a str,
    /// The job of the last run.
    pub last_job: Option<&'a JobId>,
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
    /// Who created it.
    pub creator: &'a str,
    /// Its etag.
    pub etag: &'a str,
}

impl From<ScheduleView<'_>> for v1::Schedule {
    fn from(schedule: ScheduleView<'_>) -> Self {
        Self {
            name: schedule.id.to_string(),
            state: v1::ScheduleState::from(schedule.state).into(),
            state_message: schedule.state_message.to_owned(),
            last_job: schedule.last_job.map(ToString::to_string).unwrap_or_default(),
            last_run_time: schedule.last_run.map(timestamp),
            next_run_time: schedule.next_run.map(timestamp),
            gone_time: schedule.gone.map(timestamp),
            create_time: Some(timestamp(schedule.created)),
            update_time: Some(timestamp(schedule.updated)),
            creator: schedule.creator.to_owned(),
            etag: schedule.etag.to_owned(),
            ..schedule.spec.into()
        }
    }
}

/// A registered workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadView<'a> {
    /// What was registered.
    pub spec: &'a WorkloadSpec,
    /// When.
    pub created: SystemTime,
    /// By whom.
    pub creator: &'a str,
}

impl From<WorkloadView<'_>> for v1::Workload {
    fn from(workload: WorkloadView<'_>) -> Self {
        Self {
            create_time: Some(timestamp(workload.created)),
            creator: workload.creator.to_owned(),
            ..workload.spec.into()
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct EventView<'a> {
    /// Its number; numbers rise.
    pub number: u64,
    /// What happened.
    pub kind: EventType,
    /// When.
    pub time: SystemTime,
    /// The job.
    pub job: &'a JobId,
    /// The schedule that created it.
    pub schedule: Option<&'a ScheduleId>,
    /// Whose memory.
    pub target: &'a Target,
    /// Nodes that memory left.
    pub from: &'a NodeSet,
    /// Nodes that memory was brought to.
    pub to: &'a NodeSet,
    /// Local share before, in percent.
    pub before_percent: Option<f64>,
    /// Local share after, in percent.
    pub after_percent: Option<f64>,
    /// Remote bytes left.
    pub remote_bytes: Option<u64>,
    /// Processes that failed: who, their names, and what the kernel said.
    pub failed: &'a [(Identity, String, String)],
    /// The same for people.
    pub message: &'a str,
}

impl From<EventView<'_>> for v1::Event {
    fn from(event: EventView<'_>) -> Self {
        let ids = |nodes: &NodeSet| nodes.iter().map(|node| index(node.0)).collect();
        let failed = event.failed.iter().map(|(identity, comm, error)| v1::FailedProcess {
            process: Some((*identity).into()),
            comm: comm.clone(),
            error: error.clone(),
        });
        Self {
            name: format!("events/{}", event.number),
            r#type: v1::EventType::from(event.kind).into(),
            create_time: Some(timestamp(event.time)),
            job: event.job.to_string(),
            schedule: event.schedule.map(ToString::to_string).unwrap_or_default(),
            target: Some(event.target.into()),
            from_node_ids: ids(event.from),
            to_node_ids: ids(event.to),
            before_percent: event.before_percent,
            after_percent: event.after_percent,
            remote_bytes: event.remote_bytes.map(int),
            failed_processes: failed.collect(),
            message: event.message.to_owned(),
        }
    }
}

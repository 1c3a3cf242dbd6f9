//! Requests about localities, jobs and events.

use super::{
    bounds::{CREATOR_MAX, EVENT, JOB, REQUEST_ID_MAX, SCHEDULE, WORKLOAD},
    check::{
        chosen, duration, name, number, page, resource, resume_token, text, time, token,
        workload_name,
    },
    files,
    labels::labels,
    names::{all_named, event_number, named},
    placement::node_set,
    policy::policy,
    spec::{identity, spec, target},
};
use crate::{
    Fnv, Violations, v1,
    value::{
        CreateJob, DeleteJob, EventFilter, GetAdvice, GetLiveView, GetLocality, GetNodeContents,
        JobFilter, JobId, ListEvents, ListJobs, MigrationSpec, ScheduleId, WatchEvents, WatchJobs,
        WatchLocality, WorkloadId,
    },
};
use numaloc_core::{NodeSet, SMALLEST_PAGE};
use prost::Message;
use std::{hash::Hasher, time::Duration};

/// Bounds of the time between two readings, and the time if the client does not give one.
const WATCH_MIN: Duration = Duration::from_secs(1);
const WATCH_MAX: Duration = Duration::from_secs(24 * 3600);
const WATCH: Duration = Duration::from_secs(10);
/// The same for the time between two readings of CPU times.
const USE_MIN: Duration = Duration::from_millis(100);
const USE_MAX: Duration = Duration::from_secs(60);
const USE: Duration = Duration::from_secs(2);
/// Smallest memory that is worth a finding if the client does not set it, in bytes.
const WORTH: u64 = 64 << 20;

macro_rules! by_name {
    ($($request:ident => $id:ident, $expected:ident;)+) => {$(
        impl TryFrom<v1::$request> for $id {
            type Error = Violations;

            fn try_from(from: v1::$request) -> Result<Self, Violations> {
                let mut bad = Violations::default();
                let id = name("name", &from.name, $expected, $id::from_name, &mut bad);
                bad.or_of(id)
            }
        }
    )+};
}

by_name! {
    GetJobRequest => JobId, JOB;
    WatchJobRequest => JobId, JOB;
    CancelJobRequest => JobId, JOB;
    PauseJobRequest => JobId, JOB;
    ResumeJobRequest => JobId, JOB;
    GetScheduleRequest => ScheduleId, SCHEDULE;
    GetWorkloadRequest => WorkloadId, WORKLOAD;
}

impl TryFrom<v1::GetLocalityRequest> for GetLocality {
    type Error = Violations;

    fn try_from(from: v1::GetLocalityRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let target = target("target", from.target, &mut bad);
        let policy = policy("policy", from.policy, &mut bad);
        bad.or(Self { target, policy })
    }
}

impl TryFrom<v1::WatchLocalityRequest> for WatchLocality {
    type Error = Violations;

    fn try_from(from: v1::WatchLocalityRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let target = target("target", from.target, &mut bad);
        files::none("target", &target, &mut bad);
        let policy = policy("policy", from.policy, &mut bad);
        let interval = duration("interval", from.interval, WATCH_MIN..=WATCH_MAX, &mut bad);
        bad.or(Self { target, policy, interval: interval.unwrap_or(WATCH) })
    }
}

impl TryFrom<v1::GetAdviceRequest> for GetAdvice {
    type Error = Violations;

    fn try_from(from: v1::GetAdviceRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let target = from.target.map(|of| target("target", Some(of), &mut bad));
        target.iter().for_each(|target| files::none("target", target, &mut bad));
        let interval = duration("interval", from.interval, USE_MIN..=USE_MAX, &mut bad);
        let least = SMALLEST_PAGE..=i64::MAX.unsigned_abs();
        let min_bytes = number("min_bytes", from.min_bytes, least, &mut bad).unwrap_or(WORTH);
        bad.or(Self { target, interval: interval.unwrap_or(USE), min_bytes })
    }
}

impl TryFrom<v1::GetLiveViewRequest> for GetLiveView {
    type Error = Violations;

    fn try_from(from: v1::GetLiveViewRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let v1::GetLiveViewRequest { process } = from;
        let process =
            process.and_then(|of| identity("process", (of.pid, of.start_time_ticks), &mut bad));
        bad.or(Self { process })
    }
}

impl TryFrom<v1::GetNodeContentsRequest> for GetNodeContents {
    type Error = Violations;

    fn try_from(from: v1::GetNodeContentsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let nodes = match &from.node_ids[..] {
            [] => NodeSet::new(),
            ids => node_set("node_ids", ids, &mut bad),
        };
        bad.or(Self { nodes })
    }
}

impl TryFrom<v1::PlanMigrationRequest> for MigrationSpec {
    type Error = Violations;

    fn try_from(from: v1::PlanMigrationRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let spec = spec("spec", from.spec, &mut bad);
        bad.or(spec)
    }
}

impl CreateJob {
    /// A number that differs, as good as certainly, where what is asked for differs, except in the class, which may come from a
    /// workload. Later versions give the same one: it is the 64 bit FNV-1a hash of a message, in which maps are ordered.
    pub fn digest(&self) -> u64 {
        let mut spec = self.spec.clone();
        spec.policy.qos_class = None;
        let asked = v1::CreateJobRequest {
            spec: Some((&spec).into()),
            labels: self.labels.clone(),
            job_id: self.id.as_ref().map(|id| id.id().to_owned()).unwrap_or_default(),
            ..v1::CreateJobRequest::default()
        };
        let mut hash = Fnv::default();
        hash.write(&asked.encode_to_vec());
        hash.finish()
    }
}

impl TryFrom<v1::CreateJobRequest> for CreateJob {
    type Error = Violations;

    fn try_from(from: v1::CreateJobRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let spec = spec("spec", from.spec, &mut bad);
        let request_id = token("request_id", from.request_id, REQUEST_ID_MAX, &mut bad);
        let on_conflict = named("on_conflict", from.on_conflict, &mut bad).unwrap_or_default();
        let id = chosen("job_id", from.job_id, JobId::new, &mut bad);
        let labels = labels("labels", from.labels, &mut bad);
        let validate_only = from.validate_only;
        bad.or(Self { spec, request_id, on_conflict, id, labels, validate_only })
    }
}

impl TryFrom<v1::DeleteJobRequest> for DeleteJob {
    type Error = Violations;

    fn try_from(from: v1::DeleteJobRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let v1::DeleteJobRequest { name: of, allow_missing, validate_only } = from;
        let id = name("name", &of, JOB, JobId::from_name, &mut bad);
        bad.or_of(id.map(|id| Self { id, allow_missing, validate_only }))
    }
}

impl TryFrom<v1::ListJobsRequest> for ListJobs {
    type Error = Violations;

    fn try_from(from: v1::ListJobsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let page = page(from.page_size, from.page_token, &mut bad);
        let filter = jobs(from.filter, &mut bad);
        bad.or(Self { filter, page })
    }
}

impl TryFrom<v1::WatchJobsRequest> for WatchJobs {
    type Error = Violations;

    fn try_from(from: v1::WatchJobsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let filter = jobs(from.filter, &mut bad);
        let resume_token = resume_token(from.resume_token, &mut bad);
        bad.or(Self { filter, resume_token })
    }
}

fn jobs(from: Option<v1::JobFilter>, bad: &mut Violations) -> JobFilter {
    let from = from.unwrap_or_default();
    JobFilter {
        states: all_named("filter.states", &from.states, bad),
        schedule: schedule(&from.schedule, bad),
        creator: text("filter.creator", from.creator, CREATOR_MAX, bad),
        created_since: time("filter.created_since", from.created_since, bad),
        labels: labels("filter.labels", from.labels, bad),
        workload: workload_name("filter.workload", &from.workload, bad),
    }
}

fn schedule(name: &str, bad: &mut Violations) -> Option<ScheduleId> {
    resource("filter.schedule", name, SCHEDULE, ScheduleId::from_name, bad)
}

fn events(from: Option<v1::EventFilter>, bad: &mut Violations) -> EventFilter {
    let from = from.unwrap_or_default();
    EventFilter {
        types: all_named("filter.types", &from.types, bad),
        job: resource("filter.job", &from.job, JOB, JobId::from_name, bad),
        schedule: schedule(&from.schedule, bad),
        since: time("filter.since", from.since, bad),
        creator: text("filter.creator", from.creator, CREATOR_MAX, bad),
        labels: labels("filter.labels", from.labels, bad),
    }
}

impl TryFrom<v1::ListEventsRequest> for ListEvents {
    type Error = Violations;

    fn try_from(from: v1::ListEventsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let page = page(from.page_size, from.page_token, &mut bad);
        let filter = events(from.filter, &mut bad);
        bad.or(Self { filter, page })
    }
}

impl TryFrom<v1::WatchEventsRequest> for WatchEvents {
    type Error = Violations;

    fn try_from(from: v1::WatchEventsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let filter = events(from.filter, &mut bad);
        let after = resource("after", &from.after, EVENT, event_number, &mut bad);
        bad.or(Self { filter, after })
    }
}

//! Schedules, events, workloads and the daemon's status as documents.

use super::{
    fields::{amount, name, nodes, seconds, span, text, time},
    job,
    member::{failed, members},
    spec::{qos_class, spec, target},
};
use crate::doc::{CeilingsDoc, EventDoc, HoldsDoc, JobCount, ScheduleDoc, StatusDoc, WorkloadDoc};
use numaloc_api::v1;
use std::time::SystemTime;

/// A schedule.
pub fn schedule(message: &v1::Schedule) -> ScheduleDoc {
    let ttl = message.ttl_after_gone.map(|ttl| span(ttl).as_secs_f64());
    ScheduleDoc {
        name: message.name.clone(),
        state: name(message.state().as_str_name(), "SCHEDULE_STATE_"),
        state_message: text(&message.state_message),
        spec: spec(message.spec.as_ref()),
        interval_seconds: seconds(message.interval),
        jitter_seconds: seconds(message.jitter),
        ttl_after_gone_seconds: ttl,
        paused: message.paused,
        labels: message.labels.clone(),
        last_job: text(&message.last_job),
        last_run_time: time(message.last_run_time),
        next_run_time: time(message.next_run_time),
        gone_time: time(message.gone_time),
        create_time: time(message.create_time),
        update_time: time(message.update_time),
        creator: message.creator.clone(),
        request_id: text(&message.request_id),
        etag: message.etag.clone(),
    }
}

/// An event.
pub fn event(message: &v1::Event) -> EventDoc {
    EventDoc {
        name: message.name.clone(),
        kind: name(message.r#type().as_str_name(), "EVENT_TYPE_"),
        create_time: time(message.create_time),
        job: text(&message.job),
        schedule: text(&message.schedule),
        target: target(message.target.as_ref()),
        from_nodes: nodes(&message.from_node_ids),
        to_nodes: nodes(&message.to_node_ids),
        before_percent: message.before_percent,
        after_percent: message.after_percent,
        remote_bytes: message.remote_bytes.map(amount),
        members: members(&message.members),
        more_members: amount(message.more_members.into()),
        failed_processes: failed(&message.failed_processes),
        message: message.message.clone(),
    }
}

/// A workload.
pub fn workload(message: &v1::Workload) -> WorkloadDoc {
    WorkloadDoc {
        name: message.name.clone(),
        cgroup: message.cgroup.clone(),
        container_id: text(&message.container_id),
        pod_uid: text(&message.pod_uid),
        labels: message.labels.clone(),
        qos_class: qos_class(message.qos_class()),
        create_time: time(message.create_time),
        creator: message.creator.clone(),
        namespace: text(&message.namespace),
        source: text(&message.source),
        ttl_seconds: message.ttl.map(|ttl| span(ttl).as_secs_f64()),
        expire_time: time(message.expire_time),
        etag: message.etag.clone(),
    }
}

/// The status of the daemon at `endpoint`.
pub fn status(message: &v1::GetStatusResponse, endpoint: &str, now: SystemTime) -> StatusDoc {
    let start_time = time(message.start_time);
    let jobs = message
        .jobs
        .iter()
        .map(|entry| JobCount { state: job::state(entry.state()), count: amount(entry.count) });
    StatusDoc {
        endpoint: endpoint.to_owned(),
        version: message.version.clone(),
        start_time,
        uptime_seconds: start_time.map(|start| start.age(now)),
        jobs: jobs.collect(),
        schedules: amount(message.schedules.into()),
        workloads: amount(message.workloads.into()),
        watches: amount(message.watches.into()),
        moved_bytes: amount(message.moved_bytes),
        holds: message.holds.as_ref().map(holds).unwrap_or_default(),
        problems: message.problems.clone(),
        caller: message.caller.clone(),
        role: message.role.clone(),
        ceilings: message.ceilings.as_ref().map(ceilings),
    }
}

/// What keeps moves from beginning.
pub fn holds(message: &v1::Holds) -> HoldsDoc {
    HoldsDoc { drain_time: time(message.drain_time), pause_time: time(message.pause_time) }
}

fn ceilings(message: &v1::Ceilings) -> CeilingsDoc {
    CeilingsDoc {
        profile: name(message.profile().as_str_name(), "PROFILE_"),
        qos_class: name(message.qos_class().as_str_name(), "QOS_CLASS_"),
        include_shared: message.include_shared,
        include_bound: message.include_bound,
        named_nodes: message.named_nodes,
        fresh_hugetlb: message.fresh_hugetlb,
        reserve_bytes: message.reserve_bytes,
        rate_bytes_per_second: message.rate_bytes_per_second.map(amount),
        workers: amount(message.workers.into()),
        pause_numa_balancing: message.pause_numa_balancing,
        offload: message.offload,
    }
}

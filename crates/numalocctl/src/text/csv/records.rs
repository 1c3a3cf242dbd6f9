//! Records of the daemon.

use super::{known, list, rows};
use crate::{
    fields::{seconds, word},
    job::{is_end, state},
    output::View,
    text::{
        cells::{labels, schedule_state},
        policy::qos_class,
        target::target,
    },
};
use numaloc_api::v1;

const JOB: [&str; 15] = [
    "name",
    "state",
    "target",
    "moved_bytes",
    "planned_bytes",
    "found_bytes",
    "creator",
    "create_time",
    "start_time",
    "end_time",
    "schedule",
    "qos_class",
    "request_id",
    "held_back",
    "state_message",
];

pub fn jobs<'a>(jobs: impl IntoIterator<Item = &'a v1::Job>, view: View) -> String {
    rows(JOB, jobs.into_iter().map(job), view)
}

fn job(job: &v1::Job) -> [String; JOB.len()] {
    let spec = job.spec.as_ref();
    let policy = spec.and_then(|spec| spec.policy.as_ref());
    let account = job.outcome.as_ref().and_then(|outcome| outcome.account.as_ref());
    let progress = job.progress.as_ref().filter(|_| !is_end(job.state()));
    let moved = progress.map(|progress| progress.moved_bytes);
    [
        job.name.clone(),
        state(job),
        target(spec.and_then(|spec| spec.target.as_ref())),
        known(moved.or(account.map(|account| account.moved_bytes))),
        known(progress.map(|progress| progress.planned_bytes)),
        known(account.map(|account| account.found_bytes)),
        job.creator.clone(),
        known(job.create_time),
        known(job.start_time),
        known(job.end_time),
        job.schedule.clone(),
        policy.map_or(String::new(), |policy| qos_class(policy.qos_class())),
        job.request_id.clone(),
        progress.map_or(String::new(), |progress| progress.held_back.clone()),
        job.state_message.clone(),
    ]
}

const SCHEDULE: [&str; 14] = [
    "name",
    "state",
    "target",
    "interval_seconds",
    "jitter_seconds",
    "last_job",
    "last_run_time",
    "next_run_time",
    "declared_in",
    "creator",
    "create_time",
    "update_time",
    "etag",
    "state_message",
];

/// Without an interval it runs once.
pub fn schedules<'a>(all: impl IntoIterator<Item = &'a v1::Schedule>, view: View) -> String {
    rows(SCHEDULE, all.into_iter().map(schedule), view)
}

fn schedule(schedule: &v1::Schedule) -> [String; SCHEDULE.len()] {
    let interval = Some(seconds(schedule.interval)).filter(|&interval| interval > 0.0);
    [
        schedule.name.clone(),
        schedule_state(schedule),
        target(schedule.spec.as_ref().and_then(|spec| spec.target.as_ref())),
        known(interval),
        seconds(schedule.jitter).to_string(),
        schedule.last_job.clone(),
        known(schedule.last_run_time),
        known(schedule.next_run_time),
        schedule.declared_in.clone(),
        schedule.creator.clone(),
        known(schedule.create_time),
        known(schedule.update_time),
        schedule.etag.clone(),
        schedule.state_message.clone(),
    ]
}

const WORKLOAD: [&str; 11] = [
    "name",
    "cgroup",
    "qos_class",
    "labels",
    "namespace",
    "container_id",
    "pod_uid",
    "source",
    "creator",
    "create_time",
    "expire_time",
];

pub fn workloads<'a>(all: impl IntoIterator<Item = &'a v1::Workload>, view: View) -> String {
    rows(WORKLOAD, all.into_iter().map(workload), view)
}

fn workload(workload: &v1::Workload) -> [String; WORKLOAD.len()] {
    [
        workload.name.clone(),
        workload.cgroup.clone(),
        qos_class(workload.qos_class()),
        labels(&workload.labels),
        workload.namespace.clone(),
        workload.container_id.clone(),
        workload.pod_uid.clone(),
        workload.source.clone(),
        workload.creator.clone(),
        known(workload.create_time),
        known(workload.expire_time),
    ]
}

const EVENT: [&str; 14] = [
    "create_time",
    "type",
    "name",
    "job",
    "schedule",
    "target",
    "more_target_names",
    "from_nodes",
    "to_nodes",
    "before_percent",
    "after_percent",
    "remote_bytes",
    "failed_processes",
    "message",
];

pub fn events<'a>(events: impl IntoIterator<Item = &'a v1::Event>, view: View) -> String {
    rows(EVENT, events.into_iter().map(event), view)
}

fn event(event: &v1::Event) -> [String; EVENT.len()] {
    let failed = event.failed_processes.iter().map(|failed| failed.process.unwrap_or_default().pid);
    [
        known(event.create_time),
        word(event.r#type().as_str_name(), "EVENT_TYPE_"),
        event.name.clone(),
        event.job.clone(),
        event.schedule.clone(),
        target(event.target.as_ref()),
        event.more_target_names.to_string(),
        list(&event.from_node_ids),
        list(&event.to_node_ids),
        known(event.before_percent),
        known(event.after_percent),
        known(event.remote_bytes),
        list(&failed.collect::<Vec<_>>()),
        event.message.clone(),
    ]
}

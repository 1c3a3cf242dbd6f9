//! What the daemon keeps, as clients see it.

use crate::{
    EventView, JobView, ScheduleView, WorkloadView, event_number, v1,
    value::{
        EventType, JobId, JobProgress, JobState, MigrationSpec, Outcome, ProcessOutcome, QosClass,
        ScheduleId, ScheduleSpec, ScheduleState, WorkloadId, WorkloadSpec,
    },
};
use numaloc_core::{Account, Identity};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

const IDENTITY: Identity = Identity { pid: 7, start_time: 8 };

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn seconds(time: Option<prost_types::Timestamp>) -> i64 {
    time.unwrap().seconds
}

#[test]
fn jobs() {
    let (comm, account, error) = ("redis".to_owned(), Account::default(), None);
    let process = ProcessOutcome { identity: IDENTITY, comm, account, error };
    let outcome = Outcome { processes: vec![process], ..Outcome::default() };
    let progress =
        JobProgress { planned_bytes: 9, moved_bytes: 4, settled_bytes: 5, measured: at(4) };
    let view = JobView {
        id: &JobId::new("1").unwrap(),
        spec: &MigrationSpec::default(),
        state: JobState::Partial,
        state_message: "pages are pinned",
        schedule: Some(&ScheduleId::new("s").unwrap()),
        creator: "uid:0",
        request_id: None,
        created: at(1),
        started: Some(at(2)),
        ended: None,
        progress: Some(progress),
        plan: None,
        outcome: Some(&outcome),
    };
    let job = v1::Job::from(view);
    assert_eq!((job.name.as_str(), job.schedule.as_str()), ("jobs/1", "schedules/s"));
    assert_eq!(job.state(), v1::JobState::Partial);
    assert_eq!((seconds(job.create_time), seconds(job.start_time)), (1, 2));
    assert_eq!((job.end_time, job.request_id.as_str()), (None, ""));
    assert_eq!(job.progress.unwrap().settled_bytes, 5);
    assert_eq!(job.outcome.unwrap().processes.len(), 1);
    let listed = view.listed();
    assert!(listed.outcome.unwrap().processes.is_empty() && listed.plan.is_none());
}

#[test]
fn schedules() {
    let spec = ScheduleSpec { interval: Duration::from_secs(60), ..ScheduleSpec::default() };
    let view = ScheduleView {
        id: &ScheduleId::new("s").unwrap(),
        spec: &spec,
        state: ScheduleState::TargetGone,
        state_message: "cgroup /a is gone",
        last_job: None,
        last_run: None,
        next_run: Some(at(3)),
        gone: Some(at(2)),
        created: at(1),
        updated: at(1),
        creator: "uid:0",
        etag: "1",
    };
    let schedule = v1::Schedule::from(view);
    assert_eq!(schedule.name, "schedules/s");
    assert_eq!(schedule.state(), v1::ScheduleState::TargetGone);
    assert_eq!(schedule.interval.unwrap().seconds, 60);
    assert_eq!((seconds(schedule.next_run_time), seconds(schedule.gone_time)), (3, 2));
    assert_eq!((schedule.last_job.as_str(), schedule.last_run_time), ("", None));
}

#[test]
fn workloads() {
    let spec = WorkloadSpec {
        id: WorkloadId::new("w").unwrap(),
        cgroup: "/a".to_owned(),
        container_id: None,
        pod_uid: None,
        labels: BTreeMap::new(),
        qos_class: Some(QosClass::Be),
    };
    let workload =
        v1::Workload::from(WorkloadView { spec: &spec, created: at(5), creator: "uid:1" });
    assert_eq!((workload.name.as_str(), workload.creator.as_str()), ("workloads/w", "uid:1"));
    assert_eq!((workload.qos_class(), seconds(workload.create_time)), (v1::QosClass::Be, 5));
}

#[test]
fn events() {
    let event = v1::Event::from(EventView {
        number: 12,
        kind: EventType::Failed,
        time: at(9),
        job: &JobId::new("1").unwrap(),
        schedule: None,
        target: &MigrationSpec::default().target,
        from: &"1,8".parse().unwrap(),
        to: &"0".parse().unwrap(),
        before_percent: Some(10.0),
        after_percent: None,
        remote_bytes: Some(4096),
        failed: &[(IDENTITY, "redis".to_owned(), "No such process".to_owned())],
        message: "failed",
    });
    assert_eq!(event_number(&event.name), Some(12));
    assert_eq!(event.r#type(), v1::EventType::Failed);
    assert_eq!((event.from_node_ids, event.to_node_ids), (vec![1, 8], vec![0]));
    assert_eq!((event.after_percent, event.remote_bytes), (None, Some(4096)));
    assert_eq!(event.failed_processes[0].process.as_ref().unwrap().start_time_ticks, 8);
}

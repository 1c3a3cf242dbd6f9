//! What a client builds is what the daemon reads.

use crate::{
    v1,
    value::{
        CreateJob, CreateSchedule, Emit, Limits, MigrationSpec, OnConflict, OnInterrupt, Policy,
        QosClass, ScheduleId, ScheduleSpec, Target, TargetProcess, WorkloadId, WorkloadSpec,
    },
};
use numaloc_core::{HomeRule, HugetlbSource, NumaBalancing, Options, Order, Pacing, Profile};
use prost::Message;
use std::{collections::BTreeMap, time::Duration};

fn full() -> MigrationSpec {
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    MigrationSpec {
        target: Target {
            pids: [1, 4711, i32::MAX].into(),
            cgroups: set(&["/", "/system.slice/redis.service"]),
            units: set(&["redis@1.service"]),
            container_ids: set(&["0a1b2c"]),
            pod_uids: set(&["6f1e-42"]),
            labels: BTreeMap::from([("app.io/name".to_owned(), String::new())]),
            processes: [TargetProcess { pid: 4711, start_time: 0, boot_id: "b-1".to_owned() }]
                .into(),
        },
        policy: Policy {
            options: Options {
                include_shared: true,
                exclude_file: true,
                include_bound: true,
                include_gigantic: true,
                hugetlb: HugetlbSource::Fresh,
                pacing: Pacing {
                    profile: Profile::Fast,
                    max_stall: Some(Duration::from_micros(2500)),
                    node_cpu_percent_max: Some(100),
                },
                order: Order::Referenced,
                target_ratio: 0,
                to: Some("0,8,252".parse().unwrap()),
                home: HomeRule::Busy,
                from: Some("1,65535".parse().unwrap()),
                reserve_bytes: Some(0),
            },
            qos_class: Some(QosClass::Be),
            on_interrupt: OnInterrupt::Resume,
            numa_balancing: NumaBalancing::Pause,
            emit: Emit::Always,
        },
        limits: Limits {
            batch_bytes: Some(4 << 20),
            workers: Some(256),
            timeout: Some(Duration::from_millis(1500)),
            rate_bytes_per_second: Some(1 << 40),
        },
    }
}

/// Over the wire.
fn wire<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).unwrap()
}

#[test]
fn jobs() {
    let target = Target { pids: [1].into(), ..Target::default() };
    for spec in [full(), MigrationSpec { target, ..MigrationSpec::default() }] {
        for on_conflict in [OnConflict::Refuse, OnConflict::Join] {
            let labels = [("team".to_owned(), "db".to_owned())].into();
            let spec = spec.clone();
            let request = CreateJob { spec, on_conflict, labels, ..CreateJob::default() };
            let sent = v1::CreateJobRequest::from(&request);
            assert_eq!(CreateJob::try_from(wire(&sent)), Ok(request));
        }
    }
}

#[test]
fn what_is_not_said_is_the_default() {
    let request =
        v1::CreateJobRequest { spec: Some(super::spec(super::one())), ..Default::default() };
    let spec = CreateJob::try_from(request).unwrap().spec;
    assert_eq!(spec.policy, Policy::default());
    assert_eq!(spec.limits, Limits::default());
}

#[test]
fn schedules() {
    let spec = ScheduleSpec {
        migration: full(),
        interval: Duration::from_secs(600),
        jitter: Duration::from_secs(30),
        ttl_after_gone: Some(Duration::ZERO),
        paused: true,
        labels: [("team".to_owned(), "db".to_owned())].into(),
    };
    let once = ScheduleSpec { interval: Duration::ZERO, jitter: Duration::ZERO, ..spec.clone() };
    for spec in [spec, once] {
        let schedule = Some(v1::Schedule::from(&spec));
        let request_id = "a3d1-7".to_owned();
        let request = v1::CreateScheduleRequest {
            schedule,
            request_id,
            validate_only: true,
            schedule_id: "nightly".to_owned(),
        };
        let read = CreateSchedule::try_from(wire(&request)).unwrap();
        let (id, request_id) = (ScheduleId::new("nightly"), Some("a3d1-7".to_owned()));
        assert_eq!(read, CreateSchedule { id, spec, request_id, validate_only: true });
    }
}

#[test]
fn workloads() {
    let labels = BTreeMap::from([("app".to_owned(), "redis".to_owned())]);
    let spec = WorkloadSpec {
        id: WorkloadId::new("redis-0").unwrap(),
        cgroup: "/kubepods.slice/x".to_owned(),
        container_id: Some("0a1b".to_owned()),
        pod_uid: None,
        labels: labels.clone(),
        qos_class: Some(QosClass::Lsr),
    };
    let request = v1::RegisterWorkloadRequest { workload: Some((&spec).into()) };
    let read = WorkloadSpec::try_from(wire(&request)).unwrap();
    assert_eq!(read, spec);
    assert!(read.matches(&labels) && read.matches(&BTreeMap::new()));
    assert!(!read.matches(&BTreeMap::from([("app".to_owned(), String::new())])));
}

#[test]
fn an_incomplete_workload_is_refused() {
    let text = |workload| {
        let request = v1::RegisterWorkloadRequest { workload };
        WorkloadSpec::try_from(request).unwrap_err().to_string()
    };
    assert!(text(None).starts_with("workload is required"));
    let both = "workload.name is required; workload.cgroup is required";
    assert_eq!(text(Some(v1::Workload::default())), both);
}

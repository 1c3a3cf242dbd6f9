//! Output about the daemon for people and programs, as snapshots.

use super::{job::job, locality::locality, plan::plan, record, topology::topology};
use crate::{
    doc::{
        EventsDoc, JobsDoc, RemovedDoc, RenewedDoc, ReplacedDoc, SchedulesDoc, TopologyDoc,
        WorkloadsDoc,
    },
    fixture,
    output::View,
    text::{
        self,
        tests::{forms, undocumented},
    },
};
use numaloc_api::{
    LocalityView, timestamp, v1,
    value::{
        Emit, Event, EventType, FailedProcess, Job, JobId, JobProgress, JobState, Limits,
        MemberResult, MemberState, MigrationSpec, OnInterrupt, Outcome, Policy, QosClass, Schedule,
        ScheduleId, ScheduleSpec, ScheduleState, Selector, Target, Workload, WorkloadId,
        WorkloadSpec,
    },
};
use numaloc_core::{
    Account, Identity, Locality, NodeId, NumaBalancing, Offload, OffloadUse, Options, Order,
    Pacing, Profile, Reason, Share, Topology, offload::Expected,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The time 2026-05-28T20:26:40Z plus `millis`.
fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_000) + Duration::from_millis(millis)
}

fn selector() -> Selector {
    "app=redis,tier in (db,cache),!old".parse().unwrap()
}

fn machine() -> Topology {
    topology(&(&fixture::topology()).into())
}

fn replaced() -> ReplacedDoc {
    let missing = vec!["workloads/gone".to_owned()];
    ReplacedDoc { written_count: 2, unchanged_count: 3, removed_count: 1, missing }
}

#[test]
fn what_became_of_a_set_is_told() {
    let view = View { wide: false, headers: true };
    let expected = "2 written, 3 unchanged, 1 removed\nworkloads/gone left out: no cgroup of its container, or several\n";
    assert_eq!(text::replaced(&replaced(), view), expected);
    let renewed = |workload_count| text::renewed(&RenewedDoc { workload_count }, view);
    assert_eq!(renewed(5), "5 renewed\n");
    assert!(renewed(0).contains("register them anew"));
}

fn target() -> Target {
    let labels = Selector { namespace: Some("prod".to_owned()), ..selector() };
    Target {
        pids: [4711, 4712].into(),
        units: ["redis".to_owned()].into(),
        labels,
        ..Target::default()
    }
}

fn spec() -> MigrationSpec {
    let options = Options {
        include_shared: true,
        target_ratio: 90,
        to: Some("0,2".parse().unwrap()),
        include_gigantic: true,
        order: Order::Address,
        pacing: Pacing {
            profile: Profile::Gentle,
            max_stall: Some(Duration::from_micros(2_500)),
            node_cpu_percent_max: Some(80),
            ..Pacing::default()
        },
        ..Options::default()
    };
    let policy = Policy {
        options,
        qos_class: Some(QosClass::Lsr),
        on_interrupt: OnInterrupt::Resume,
        numa_balancing: NumaBalancing::Pause,
        offload: Offload::Require,
        emit: Emit::Always,
        tenant: Some("6f1e-42".to_owned()),
    };
    let limits = Limits { timeout: Some(Duration::from_secs(300)), ..Limits::default() };
    MigrationSpec { target: target(), policy, limits }
}

fn labels() -> BTreeMap<String, String> {
    [("team".to_owned(), "db".to_owned())].into()
}

/// Four members: one that was moved, one without a target node, one that is gone, and one that belongs to somebody else.
fn members() -> Vec<MemberResult> {
    let container = |id| Target { container_ids: [format!("c-{id}")].into(), ..Target::default() };
    let at = |local_mib: u64, remote_mib: u64| {
        let share = Share { local_bytes: local_mib << 20, remote_bytes: remote_mib << 20 };
        Some(Locality { movable: share, overall: share })
    };
    let mut account = Account::default();
    account.found(600 << 20);
    account.moved(560 << 20);
    account.left(Reason::Pinned, 40 << 20);
    let moved = MemberResult {
        state: MemberState::Partial,
        member: container("a"),
        processes: 2,
        home: "0".parse().unwrap(),
        remote: [(NodeId(2), 400 << 20), (NodeId(8), 200 << 20)].into(),
        flows: [((NodeId(2), NodeId(0)), 400 << 20), ((NodeId(8), NodeId(0)), 160 << 20)].into(),
        before: at(400, 600),
        after: at(960, 40),
        account,
        failed: vec![failed()],
        ..MemberResult::default()
    };
    let unpinned = MemberResult {
        state: MemberState::Skipped,
        reason: "no target node".to_owned(),
        member: container("b"),
        processes: 1,
        home: "0,2,8".parse().unwrap(),
        before: at(100, 0),
        after: at(100, 0),
        ..MemberResult::default()
    };
    let left_out =
        |id, state, reason: &str| MemberResult::left_out(container(id), state, reason.to_owned());
    vec![
        moved.settled(100),
        unpinned,
        left_out("c", MemberState::Missing, "cgroup /pods/c is not there"),
        left_out("d", MemberState::Refused, "process 7 (x) of user 0 is not yours"),
    ]
}

fn failed() -> FailedProcess {
    FailedProcess {
        identity: Identity { pid: 4712, start_time: 94_712 },
        comm: "redis-\x07fork".to_owned(),
        error: "move_pages: no such process".to_owned(),
    }
}

fn a_job(id: u64, state: JobState) -> Job {
    let progress = JobProgress {
        held_back: "CPUs of node 0 are 90 % busy".to_owned(),
        planned_bytes: 630 << 20,
        moved_bytes: 100 << 20,
        settled_bytes: 120 << 20,
        measured: at(1_500),
    };
    Job {
        wanted: None,
        id: JobId::numbered(id),
        spec: spec(),
        state,
        state_message: String::new(),
        schedule: Some(ScheduleId::numbered(7)),
        creator: "uid:1000".to_owned(),
        creator_gid: None,
        pins: Default::default(),
        members: members(),
        labels: labels(),
        more_members: 2,
        requester: None,
        request_id: Some("r-1".to_owned()),
        created: at(0),
        started: Some(at(1_000)),
        ended: state.is_end().then(|| at(2_250)),
        progress: Some(progress),
        plan: Some(Arc::new((&fixture::inspection(Options::default()).plan).into())),
        outcome: state.is_end().then(|| Arc::new(outcome())),
    }
}

fn outcome() -> Outcome {
    let moved = fixture::outcome();
    let share = |local_mib: u64, remote_mib: u64| Share {
        local_bytes: local_mib << 20,
        remote_bytes: remote_mib << 20,
    };
    let both = |share| Locality { movable: share, overall: share };
    Outcome {
        others: numaloc_core::Account::default(),
        processes: moved.processes,
        flows: moved.flows,
        cache_flows: moved.cache_flows,
        calls: moved.calls,
        elapsed: moved.elapsed,
        before: both(share(540, 630)),
        after: Some(both(share(1_100, 70))),
        returned_bytes: Some(48 << 20),
        partners: fixture::partners(),
        offload: Some(OffloadUse {
            requested: Offload::Require,
            used: true,
            interface: "dcbm".to_owned(),
            reason: "failed: an engine could not copy 3 folios".to_owned(),
            failed: true,
            offloaded_folios: Some(140_000),
            failed_folios: Some(3),
            cpu_folios: None,
            shared: true,
            expected: Some(Expected {
                cpu_bytes_per_second: 3 << 30,
                engine_bytes_per_second: 9 << 30,
            }),
        }),
    }
}

fn jobs() -> JobsDoc {
    let waiting = Job {
        state_message: "waits for jobs/41, which is at work on process 4711".to_owned(),
        started: None,
        progress: None,
        plan: None,
        schedule: None,
        ..a_job(43, JobState::Queued)
    };
    let listed = [a_job(44, JobState::Partial), waiting, a_job(42, JobState::Running)];
    JobsDoc { jobs: listed.iter().map(|each| job(&each.listed(), &machine())).collect() }
}

fn schedules() -> SchedulesDoc {
    let schedule = Schedule {
        id: ScheduleId::numbered(7),
        spec: ScheduleSpec {
            migration: spec(),
            interval: Duration::from_secs(30),
            jitter: Duration::from_millis(2_500),
            ttl_after_gone: Some(Duration::from_secs(3600)),
            paused: false,
            labels: labels(),
        },
        state: ScheduleState::TargetGone,
        state_message: "unit redis has no cgroup".to_owned(),
        last_job: Some(JobId::numbered(42)),
        last_run: Some(at(0)),
        next_run: Some(at(30_000)),
        gone: Some(at(20_000)),
        created: at(0),
        updated: at(10_000),
        creator: "uid:0".to_owned(),
        creator_gid: None,
        pins: Default::default(),
        request_id: None,
        request_digest: 0,
        etag: "e-1".to_owned(),
    };
    SchedulesDoc { schedules: vec![record::schedule(&(&schedule).into())] }
}

fn events() -> EventsDoc {
    let event = Event {
        number: 12,
        kind: EventType::Completed,
        time: at(2_250),
        job: Some(JobId::numbered(42)),
        schedule: None,
        creator: "uid:0".to_owned(),
        target: target(),
        from: "2,8".parse().unwrap(),
        to: "0".parse().unwrap(),
        before_percent: Some(46.15),
        after_percent: Some(94.01),
        remote_bytes: Some(70 << 20),
        failed: vec![failed()],
        members: members(),
        more_members: 3,
        message: "moved 560.0 MiB, 70.0 MiB stay".to_owned(),
    };
    let removed = Event {
        number: 13,
        kind: EventType::ScheduleRemoved,
        job: None,
        schedule: Some(ScheduleId::numbered(7)),
        members: Vec::new(),
        more_members: 0,
        failed: Vec::new(),
        message: "removed by uid:0".to_owned(),
        ..event.clone()
    };
    EventsDoc {
        events: [event, removed].iter().map(|event| record::event(&event.into())).collect(),
    }
}

fn workloads() -> WorkloadsDoc {
    let spec = WorkloadSpec {
        id: WorkloadId::new("redis").unwrap(),
        cgroup: "/kubepods/pod1/redis".to_owned(),
        container_id: Some("c0ffee".to_owned()),
        pod_uid: None,
        namespace: Some("prod".to_owned()),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
        qos_class: Some(QosClass::Be),
        source: Some("node-agent".to_owned()),
        ttl: Some(Duration::from_secs(300)),
    };
    let (creator, etag, expires) = ("uid:0".to_owned(), "e1".to_owned(), Some(at(60_000)));
    let workload = Workload {
        spec,
        created: at(0),
        creator,
        creator_gid: None,
        etag,
        request_id: None,
        expires,
    };
    WorkloadsDoc { workloads: vec![record::workload(&(&workload).into())] }
}

fn status() -> crate::doc::StatusDoc {
    let count = |state: v1::JobState, count| v1::JobStateCount { state: state.into(), count };
    let message = v1::GetStatusResponse {
        version: "0.1.0".to_owned(),
        start_time: Some(timestamp(at(0))),
        jobs: vec![count(v1::JobState::Queued, 2), count(v1::JobState::Succeeded, 14)],
        schedules: 3,
        workloads: 12,
        watches: 1,
        moved_bytes: 5 << 30,
        problems: vec!["the disk is full: free some of /var/lib/numaloc".to_owned()],
        caller: "uid:1000".to_owned(),
        role: "operator".to_owned(),
        boot_id: String::new(),
        store_id: String::new(),
        holds: Some(v1::Holds { drain_time: Some(timestamp(at(3_600_000))), pause_time: None }),
        ceilings: Some(v1::Ceilings {
            profile: v1::Profile::Balanced.into(),
            qos_class: v1::QosClass::Ls.into(),
            rate_bytes_per_second: Some(1 << 30),
            workers: 2,
            include_shared: true,
            ..v1::Ceilings::default()
        }),
    };
    record::status(&message, "unix:///run/numaloc/numalocd.sock", at(7_300_000))
}

fn locality_doc() -> crate::doc::LocalityDoc {
    let inspected = fixture::inspection(Options::default());
    locality(&LocalityView { plan: &inspected.plan, time: at(0) }.into(), &machine())
}

#[test]
fn the_machine_comes_back_as_it_was() {
    let shown = |topology| serde_json::to_value(TopologyDoc::from(topology)).unwrap();
    assert_eq!(shown(&machine()), shown(&fixture::topology()));
}

#[test]
fn locality_in_all_forms() {
    insta::assert_snapshot!(forms(&locality_doc(), text::locality));
}

#[test]
fn plan_in_all_forms() {
    let message = (&fixture::inspection(Options::default()).plan).into();
    let document = plan(&message, &v1::Policy::default(), &machine());
    insta::assert_snapshot!(forms(&document, text::plan));
}

#[test]
fn jobs_in_all_forms() {
    insta::assert_snapshot!(forms(&jobs(), text::jobs));
}

#[test]
fn a_job_in_full() {
    let view = |wide| View { wide, headers: true };
    let shown = |state, wide| text::job(&job(&(&a_job(42, state)).into(), &machine()), view(wide));
    let texts = [
        shown(JobState::Running, false),
        shown(JobState::Partial, false),
        shown(JobState::Cancelled, true),
    ];
    insta::assert_snapshot!(texts.join("\n----\n"));
}

#[test]
fn schedules_in_all_forms() {
    let full = text::schedule(&schedules().schedules[0], View { wide: false, headers: true });
    insta::assert_snapshot!(forms(&schedules(), text::schedules) + "\nin full:\n" + &full);
}

#[test]
fn events_in_all_forms() {
    let view = |wide| View { wide, headers: true };
    let event = &events().events[0];
    let line = |wide| text::event_header(view(wide)) + &text::event_line(event, view(wide));
    let watched = format!("\nwatched:\n{}\nwide:\n{}", line(false), line(true));
    insta::assert_snapshot!(forms(&events(), text::events) + &watched);
}

#[test]
fn an_event_about_the_host_names_nobody() {
    let event = record::event(&v1::Event {
        name: "events/14".to_owned(),
        r#type: v1::EventType::DsaQueueFailed.into(),
        message: "dsa0: no work queue is set up".to_owned(),
        ..v1::Event::default()
    });
    assert_eq!((event.kind.as_str(), &event.job), ("dsa_queue_failed", &None));
    let line = text::event_line(&event, View { wide: true, headers: true });
    let words: Vec<&str> = line.split_whitespace().collect();
    // After the time, which is not set: type, job, name, schedule, target.
    let named = ["dsa_queue_failed", "-", "events/14", "-", "-"];
    assert!(words.windows(named.len()).any(|words| words == named), "{line}");
    assert!(line.ends_with("dsa0: no work queue is set up\n"), "{line}");
}

#[test]
fn workloads_in_all_forms() {
    let full = text::workload(&workloads().workloads[0], View { wide: false, headers: true });
    insta::assert_snapshot!(forms(&workloads(), text::workloads) + "\nin full:\n" + &full);
}

#[test]
fn status_in_all_forms() {
    insta::assert_snapshot!(forms(&status(), text::status));
}

#[test]
fn what_only_a_newer_daemon_knows_is_shown_all_the_same() {
    let left = super::fields::left(&[v1::LeftBytes { reason: 99, bytes: 5 }]);
    assert_eq!(serde_json::to_string(&left).unwrap(), r#"[{"reason":"reason_99","bytes":5}]"#);
    assert_eq!(
        job(&v1::Job { state: 99, ..v1::Job::default() }, &machine()).state.name(),
        "unknown"
    );
}

#[test]
fn every_json_field_is_documented() {
    let in_full = job(&(&a_job(42, JobState::Partial)).into(), &machine());
    let documents = [
        serde_json::to_value(locality_doc()),
        serde_json::to_value(jobs()),
        serde_json::to_value(in_full),
        serde_json::to_value(schedules()),
        serde_json::to_value(events()),
        serde_json::to_value(workloads()),
        serde_json::to_value(status()),
        serde_json::to_value(RemovedDoc { removed: Vec::new() }),
        serde_json::to_value(replaced()),
        serde_json::to_value(RenewedDoc { workload_count: 5 }),
    ];
    let missing: Vec<_> =
        documents.into_iter().flat_map(|each| undocumented(&each.unwrap())).collect();
    assert_eq!(missing, Vec::<String>::new());
}

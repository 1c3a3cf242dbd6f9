//! Output about the daemon, as snapshots.

use super::{NARROW, WIDE, machine, tables};
use crate::{fixture, text};
use numaloc_api::{
    timestamp, v1,
    value::{
        Emit, Event, EventType, FailedProcess, Job, JobId, JobProgress, JobState, Limits,
        MemberResult, MemberState, MigrationSpec, OnInterrupt, Outcome, Policy, QosClass, Schedule,
        ScheduleId, ScheduleSpec, ScheduleState, Selector, Target, Workload, WorkloadId,
        WorkloadSpec,
    },
};
use numaloc_core::{
    Account, Identity, Locality, NodeId, NumaBalancing, Offload, OffloadUse, Options, Order,
    Pacing, Profile, Reason, Share,
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

fn replaced() -> v1::ReplaceWorkloadsResponse {
    let missing = vec!["workloads/gone".to_owned()];
    let (written_count, unchanged_count, removed_count) = (2, 3, 1);
    v1::ReplaceWorkloadsResponse { written_count, unchanged_count, removed_count, missing }
}

#[test]
fn what_became_of_a_set_is_told() {
    let expected = "2 written, 3 unchanged, 1 removed\nworkloads/gone left out: no cgroup of its container, or several\n";
    assert_eq!(text::replaced(&replaced(), NARROW), expected);
    let renewed =
        |workload_count| text::renewed(&v1::RenewWorkloadsResponse { workload_count }, NARROW);
    assert_eq!(renewed(5), "5 renewed\n");
    assert!(renewed(0).contains("register them again"));
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

/// Four members: one that was moved, one without a target node, one that is gone, and one that belongs to another user.
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
        }),
    }
}

fn jobs() -> v1::ListJobsResponse {
    let waiting = Job {
        state_message: "waits for jobs/41, which is at work on process 4711".to_owned(),
        started: None,
        progress: None,
        plan: None,
        schedule: None,
        ..a_job(43, JobState::Queued)
    };
    let listed = [a_job(44, JobState::Partial), waiting, a_job(42, JobState::Running)];
    let jobs = listed.iter().map(|each| each.listed()).collect();
    v1::ListJobsResponse { jobs, ..Default::default() }
}

fn schedules() -> v1::ListSchedulesResponse {
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
    v1::ListSchedulesResponse { schedules: vec![(&schedule).into()], ..Default::default() }
}

fn events() -> v1::ListEventsResponse {
    let event = Event {
        number: 12,
        kind: EventType::Completed,
        time: at(2_250),
        job: Some(JobId::numbered(42)),
        schedule: None,
        creator: "uid:0".to_owned(),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
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
    let events = [event, removed].iter().map(Into::into).collect();
    v1::ListEventsResponse { events, ..Default::default() }
}

fn workloads() -> v1::ListWorkloadsResponse {
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
    v1::ListWorkloadsResponse { workloads: vec![(&workload).into()], ..Default::default() }
}

fn status() -> v1::GetStatusResponse {
    let count = |state: v1::JobState, count| v1::JobStateCount { state: state.into(), count };
    v1::GetStatusResponse {
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
    }
}

#[test]
fn jobs_in_both_tables() {
    insta::assert_snapshot!(tables(|view| text::jobs(&jobs(), view)));
}

#[test]
fn a_job_in_full() {
    let shown = |state, view| text::job(&(&a_job(42, state)).into(), &machine(), view);
    let texts = [
        shown(JobState::Running, NARROW),
        shown(JobState::Partial, NARROW),
        shown(JobState::Cancelled, WIDE),
    ];
    insta::assert_snapshot!(texts.join("\n----\n"));
}

#[test]
fn schedules_in_both_tables() {
    let full = text::schedule(&schedules().schedules[0], NARROW);
    let tables = tables(|view| text::schedules(&schedules(), view));
    insta::assert_snapshot!(tables + "\nin full:\n" + &full);
}

#[test]
fn events_in_both_tables() {
    let event = &events().events[0];
    let line = |view| text::event_header(view) + &text::event_line(event, view);
    let watched = format!("\nwatched:\n{}\nwide:\n{}", line(NARROW), line(WIDE));
    insta::assert_snapshot!(tables(|view| text::events(&events(), view)) + &watched);
}

#[test]
fn an_event_about_the_host_names_nobody() {
    let event = v1::Event {
        name: "events/14".to_owned(),
        r#type: v1::EventType::DsaQueueFailed.into(),
        message: "dsa0: no work queue is set up".to_owned(),
        ..v1::Event::default()
    };
    let line = text::event_line(&event, WIDE);
    let words: Vec<&str> = line.split_whitespace().collect();
    // After the time, which is not set: type, job, name, schedule, target.
    let named = ["dsa_queue_failed", "-", "events/14", "-", "-"];
    assert!(words.windows(named.len()).any(|words| words == named), "{line}");
    assert!(line.ends_with("dsa0: no work queue is set up\n"), "{line}");
}

#[test]
fn workloads_in_both_tables() {
    let full = text::workload(&workloads().workloads[0], NARROW);
    let tables = tables(|view| text::workloads(&workloads(), view));
    insta::assert_snapshot!(tables + "\nin full:\n" + &full);
}

#[test]
fn status_as_text() {
    let endpoint = "unix:///run/numaloc/numalocd.sock";
    insta::assert_snapshot!(text::status(&status(), endpoint, at(7_300_000)));
}

#[test]
fn what_only_a_newer_daemon_knows_is_shown_all_the_same() {
    let account = v1::Account {
        found_bytes: 5,
        left: vec![v1::LeftBytes { reason: 99, bytes: 5 }],
        ..v1::Account::default()
    };
    let share = Some(v1::Share::default());
    let outcome = v1::Outcome {
        account: Some(account),
        movable_before: share,
        overall_before: share,
        ..v1::Outcome::default()
    };
    let state = v1::JobState::Partial.into();
    let job = v1::Job { state, outcome: Some(outcome), ..v1::Job::default() };
    let shown = text::migration(&job, NARROW);
    assert!(shown.contains("left: 5 B: reason 99, which this numalocctl is too old"), "{shown}");
    let newer = v1::Job { name: "jobs/1".to_owned(), state: 99, ..v1::Job::default() };
    assert!(text::job(&newer, &machine(), NARROW).starts_with("jobs/1 unknown\n"));
}

//! Records of every kind, in every state, with every field set: what a fixture is made of. Struct literals name each field, so
//! that a new field does not compile here until it is set, and is in the next fixture.

use numaloc_api::{
    v1,
    value::{
        CallStats, Condition, Emit, Event, EventType, FailedProcess, Job, JobId, JobProgress,
        JobState, Limits, MemberResult, MemberState, MigrationSpec, OnInterrupt, Outcome, Pins,
        PlanSummary, Policy, ProcessOutcome, QosClass, Requirement, Schedule, ScheduleId,
        ScheduleSpec, ScheduleState, Selector, Target, TargetProcess, Workload, WorkloadId,
        WorkloadSpec,
    },
};
use numaloc_core::{
    Account, CacheStop, Compact, HomeRule, HugetlbSource, Identity, Locality, MakeRoom, NodeId,
    NodeSet, NumaBalancing, Offload, OffloadUse, Options, Order, Pacing, Profile, Reason, Share,
};
use numalocd::store::{Holds, Write};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The states that a schedule may be in.
const SCHEDULE_STATES: [ScheduleState; 5] = [
    ScheduleState::Waiting,
    ScheduleState::Active,
    ScheduleState::TargetGone,
    ScheduleState::Paused,
    ScheduleState::Completed,
];

const BOOT: &str = "00000000-0000-4000-8000-000000000000";
const MIB: u64 = 1 << 20;

/// All of them, and that the daemon is drained and paused.
pub fn all() -> Vec<Write> {
    let mut writes = vec![Write::Holds(Holds { drained: Some(at(1)), paused: Some(at(2)) })];
    let schedules = SCHEDULE_STATES.iter().zip(1..).map(|(&state, number)| schedule(number, state));
    writes.extend(schedules.map(|schedule| Write::Schedule(Arc::new(schedule))));
    let jobs = JobState::ALL.iter().zip(1..).map(|(&state, number)| job(number, state));
    writes.extend(jobs.chain([little_job(100)]).map(|job| Write::Job(Arc::new(job))));
    let workloads =
        [workload(), little_workload()].map(|workload| Write::Workload(Arc::new(workload)));
    writes.extend(workloads);
    let events = EventType::ALL.iter().zip(1..).map(|(&kind, number)| event(number, kind));
    writes.extend(events.map(|event| Write::Event(Arc::new(event))));
    writes
}

/// A moment, the same in each fixture: in November 2023.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000 + seconds, 5)
}

/// The id of the first job, which a client has chosen.
fn first_job() -> JobId {
    JobId::new("job-1").expect("an id")
}

/// The same of a schedule.
fn first_schedule() -> ScheduleId {
    ScheduleId::new("schedule-1").expect("an id")
}

fn words(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn nodes(ids: &[u32]) -> NodeSet {
    ids.iter().copied().map(NodeId).collect()
}

fn labels() -> BTreeMap<String, String> {
    [("app", "redis"), ("empty", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn process(pid: i32) -> TargetProcess {
    TargetProcess { pid, start_time: 90_000, boot_id: BOOT.to_owned() }
}

fn pins() -> Pins {
    [(4711, process(4711)), (4712, process(4711))].into()
}

fn identity() -> Identity {
    Identity { pid: 4711, start_time: 90_000 }
}

fn target() -> Target {
    let requirement = |key: &str, condition| Requirement { key: key.to_owned(), condition };
    let requirements = [
        Requirement::equals("app".to_owned(), "redis".to_owned()),
        requirement("tier", Condition::In(words(&["cache", "db"]))),
        requirement("old", Condition::NotIn(words(&["yes"]))),
        requirement("zone", Condition::Exists),
        requirement("spot", Condition::DoesNotExist),
    ];
    Target {
        pids: [4711, 4712].into(),
        cgroups: words(&["/kubepods.slice/a", "/system.slice/b.service"]),
        units: words(&["redis-server.service"]),
        container_ids: words(&["c1"]),
        pod_uids: words(&["p1"]),
        labels: Selector { namespace: Some("prod".to_owned()), requirements: requirements.into() },
        workload_creators: words(&["uid:1000"]),
        processes: [process(4713)].into(),
    }
}

fn spec() -> MigrationSpec {
    let options = Options {
        include_shared: true,
        exclude_file: true,
        include_bound: true,
        target_ratio: 95,
        to: Some(nodes(&[0, 2])),
        home: HomeRule::Busy,
        from: Some(nodes(&[1, 3])),
        include_gigantic: true,
        make_room: MakeRoom::None,
        compact: Compact::Always,
        hugetlb: HugetlbSource::Fresh,
        pacing: Pacing {
            profile: Profile::Gentle,
            max_stall: Some(Duration::from_millis(2)),
            node_cpu_percent_max: Some(80),
            ..Pacing::default()
        },
        order: Order::Address,
        reserve_bytes: Some(64 * MIB),
    };
    let policy = Policy {
        options,
        qos_class: Some(QosClass::Be),
        on_interrupt: OnInterrupt::Resume,
        numa_balancing: NumaBalancing::Ignore,
        offload: Offload::Off,
        emit: Emit::Always,
        tenant: Some("6f1e-42".to_owned()),
    };
    let limits = Limits {
        batch_bytes: Some(MIB),
        workers: Some(2),
        timeout: Some(Duration::from_secs(600)),
        rate_bytes_per_second: Some(512 * MIB),
    };
    MigrationSpec { target: target(), policy, limits }
}

fn account() -> Account {
    let mut account = Account::default();
    account.found(400 * MIB);
    account.moved(380 * MIB);
    account.moved_back(MIB);
    account.vanished(2 * MIB);
    account.left(Reason::Pinned, 10 * MIB);
    account.left(Reason::Shared, 7 * MIB);
    account
}

fn locality(local: u64, remote: u64) -> Locality {
    let share = Share { local_bytes: local * MIB, remote_bytes: remote * MIB };
    Locality { movable: share, overall: share }
}

fn outcome() -> Outcome {
    let of = |error: Option<&str>| ProcessOutcome {
        identity: identity(),
        comm: "redis".to_owned(),
        account: account(),
        error: error.map(str::to_owned),
    };
    let calls = CallStats {
        calls: 100,
        addresses: 100_000,
        retried_addresses: 10,
        hinted_addresses: 5,
        longest: Duration::from_millis(9),
        total: Duration::from_millis(400),
        // Not stored.
        times: [0; 13],
        over_stall: 1,
        rested: Duration::from_millis(20),
        held_back: Duration::from_millis(30),
        huge_page_wait: Duration::from_millis(4),
        split_huge_pages: 3,
        failed_pages: 7,
        cache_bytes: 30 * MIB,
        cache_stop: Some(CacheStop::Refaults),
        reclaims: 4,
        compactions: 1,
        compaction_wait: Duration::from_millis(8),
        exchanged_bytes: 0,
    };
    Outcome {
        processes: vec![of(None), of(Some("gone"))],
        others: account(),
        flows: [((NodeId(1), NodeId(0)), 1140 * MIB)].into(),
        cache_flows: Default::default(),
        calls,
        elapsed: Duration::from_secs(2),
        before: locality(10, 1200),
        after: Some(locality(1150, 60)),
        returned_bytes: Some(3 * MIB),
        partners: Vec::new(),
        offload: Some(OffloadUse {
            requested: Offload::Auto,
            used: true,
            interface: "dcbm".to_owned(),
            reason: "failed: 3 folios".to_owned(),
            failed: true,
            offloaded_folios: Some(1000),
            failed_folios: Some(3),
            cpu_folios: Some(40),
            shared: true,
        }),
    }
}

fn plan() -> PlanSummary {
    let share = |local_bytes, remote_bytes| {
        Some(v1::Share { local_bytes, remote_bytes, local_percent: 50.0 })
    };
    let kind = v1::MemoryKind::Anonymous.into();
    let reason = v1::LeftReason::Pinned.into();
    PlanSummary::from(v1::Plan {
        processes: vec![v1::ProcessLocality::default()],
        shared: Some(v1::ResidentMemory::default()),
        routes: vec![v1::Route { from_node_id: 1, to_node_ids: vec![0, 2] }],
        moves: vec![v1::MoveSummary {
            kind,
            extents: 3,
            length_bytes: 9,
            remote_bytes: 8,
            shared_bytes: 7,
        }],
        skipped: vec![v1::SkipSummary { kind, reason, extents: 1, remote_bytes: 6 }],
        left: vec![v1::LeftBytes { reason, bytes: 6 }],
        expected_bytes: 8,
        expected_duration: Some(prost_types::Duration { seconds: 2, nanos: 5 }),
        expected_flows: vec![v1::Flow { from_node_id: 1, to_node_id: 0, bytes: 8 }],
        no_room_bytes: 1,
        limit_bytes: Some(2),
        unplaced_bytes: 3,
        movable_before: share(1, 2),
        movable_after: share(2, 1),
        overall_before: share(3, 4),
        order: v1::MoveOrder::Address.into(),
        unasked_bytes: 4,
        beyond_pool_bytes: 5,
        expected_room: vec![v1::NodeRoom {
            node_id: 0,
            pool_bytes: 1,
            free_bytes: 2,
            cache_bytes: 3,
            protected_bytes: 4,
            exchange_bytes: 0,
        }],
        overall_after: share(4, 3),
        // No job has these.
        extent_moves: Vec::new(),
        skipped_extents: Vec::new(),
        source: 0,
    })
}

fn failed() -> Vec<FailedProcess> {
    let (comm, error) = ("redis".to_owned(), "gone".to_owned());
    vec![FailedProcess { identity: identity(), comm, error }]
}

fn members() -> Vec<MemberResult> {
    let states = MemberState::ALL.iter().zip(0..);
    let member = |(&state, number): (&MemberState, u32)| MemberResult {
        member: Target::cgroup(&format!("/kubepods.slice/{number}")),
        state,
        reason: "said for people\n".to_owned(),
        processes: 3,
        home: nodes(&[0, 2]),
        remote: [(NodeId(1), 390 * MIB)].into(),
        before: Some(locality(10, 390)),
        after: Some(locality(390, 10)),
        account: account(),
        flows: [((NodeId(1), NodeId(0)), 380 * MIB)].into(),
        failed: failed(),
        unreadable: 0,
    };
    states.map(member).collect()
}

fn job(number: u64, state: JobState) -> Job {
    // What a client wants of one that is under way outlasts the daemon.
    let under_way = matches!(state, JobState::Planning | JobState::Running);
    Job {
        id: JobId::new(&format!("job-{number}")).expect("an id").with_number(number),
        spec: spec(),
        state,
        wanted: under_way.then_some(JobState::Paused),
        state_message: "said for people\n".to_owned(),
        schedule: Some(first_schedule()),
        creator: "schedule".to_owned(),
        creator_gid: Some(12_100),
        request_id: Some(format!("request-{number}")),
        more_members: 4092,
        requester: Some("uid:1000".to_owned()),
        pins: pins(),
        members: members(),
        labels: labels(),
        created: at(10 + number),
        started: Some(at(20 + number)),
        ended: state.is_end().then(|| at(30 + number)),
        progress: Some(JobProgress {
            planned_bytes: 1200 * MIB,
            moved_bytes: 1140 * MIB,
            settled_bytes: 1190 * MIB,
            held_back: "pressure".to_owned(),
            measured: at(25 + number),
        }),
        plan: Some(Arc::new(plan())),
        outcome: Some(Arc::new(outcome())),
    }
}

/// One with nothing but what has to be there.
fn little_job(number: u64) -> Job {
    Job {
        id: JobId::numbered(number),
        spec: MigrationSpec { target: Target::cgroup("/a"), ..MigrationSpec::default() },
        state: JobState::Queued,
        wanted: None,
        state_message: String::new(),
        schedule: None,
        creator: "uid:0".to_owned(),
        creator_gid: None,
        request_id: None,
        more_members: 0,
        requester: None,
        pins: Pins::new(),
        members: Vec::new(),
        labels: BTreeMap::new(),
        created: at(number),
        started: None,
        ended: None,
        progress: None,
        plan: None,
        outcome: None,
    }
}

fn schedule(number: u64, state: ScheduleState) -> Schedule {
    Schedule {
        id: ScheduleId::new(&format!("schedule-{number}")).expect("an id").with_number(number),
        spec: ScheduleSpec {
            migration: spec(),
            interval: Duration::from_secs(60),
            jitter: Duration::from_secs(5),
            ttl_after_gone: Some(Duration::from_secs(3600)),
            paused: state == ScheduleState::Paused,
            labels: labels(),
        },
        state,
        state_message: "said for people\n".to_owned(),
        last_job: Some(first_job()),
        last_run: Some(at(3)),
        next_run: Some(at(4)),
        gone: Some(at(5)),
        created: at(6),
        updated: at(7),
        creator: "cert:node-agent".to_owned(),
        creator_gid: Some(12_100),
        request_id: Some(format!("request-{number}")),
        request_digest: 0x1234_5678_9abc_def0,
        pins: pins(),
        etag: "etag-1".to_owned(),
    }
}

/// One with a lease.
fn workload() -> Workload {
    let spec = WorkloadSpec {
        id: WorkloadId::new("redis.0_a-b").expect("an id"),
        cgroup: "/kubepods.slice/a".to_owned(),
        container_id: Some("c1".to_owned()),
        pod_uid: Some("p1".to_owned()),
        namespace: Some("prod".to_owned()),
        labels: labels(),
        qos_class: Some(QosClass::Lsr),
        source: Some("kubelet".to_owned()),
        ttl: Some(Duration::from_secs(3600)),
    };
    Workload {
        spec,
        created: at(8),
        creator: "spiffe://example.org/agent".to_owned(),
        creator_gid: Some(12_100),
        etag: "etag-2".to_owned(),
        request_id: Some("request-w".to_owned()),
        // Means nothing in a store.
        expires: None,
    }
}

fn little_workload() -> Workload {
    let spec = WorkloadSpec {
        id: WorkloadId::numbered(7),
        cgroup: "/".to_owned(),
        container_id: None,
        pod_uid: None,
        namespace: None,
        labels: BTreeMap::new(),
        qos_class: None,
        source: None,
        ttl: None,
    };
    let (creator, etag) = ("uid:1000@/run/numaloc/web/numalocd.sock".to_owned(), "1".to_owned());
    let request_id = None;
    Workload { spec, created: at(9), creator, creator_gid: None, etag, request_id, expires: None }
}

fn event(number: u64, kind: EventType) -> Event {
    Event {
        number,
        kind,
        time: at(40 + number),
        job: Some(first_job()),
        schedule: Some(first_schedule()),
        creator: "uid:1000".to_owned(),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
        target: target(),
        from: nodes(&[1, 3]),
        to: nodes(&[0, 2]),
        before_percent: Some(2.5),
        after_percent: Some(97.25),
        remote_bytes: Some(60 * MIB),
        failed: failed(),
        members: members(),
        more_members: 5,
        message: "moved\n".to_owned(),
    }
}

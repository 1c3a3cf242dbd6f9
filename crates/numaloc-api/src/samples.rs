//! One sample of each record, for the tests of all crates. Every field has a value that is not the default; no two fields of one type
//! have the same. Struct literals name each field, so that a new one does not compile until it is set.

use crate::{
    v1,
    value::{
        Emit, Event, EventType, FailedProcess, FoundAt, Job, JobId, JobJoin, JobProgress, JobState,
        Limits, MemberResult, MemberState, MigrationSpec, NamedOutcome, OnInterrupt, Outcome,
        Partner, PlanSummary, Policy, QosClass, Schedule, ScheduleId, ScheduleSpec, ScheduleState,
        Selector, Target, TargetProcess, Workload, WorkloadId, WorkloadSpec,
    },
};
pub use numaloc_core::samples::{account, calls, locality, offload_use, options, process_outcome};
use numaloc_core::{
    Account, CallStats, NodeId, NumaBalancing, Offload, Options, Pacing, ProcessOutcome, Reason,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

const MIB: u64 = 1 << 20;

/// The time 2026-05-28T20:26:40Z plus `millis`.
pub fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_000) + Duration::from_millis(millis)
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Labels that [`selector`] selects.
pub fn labels() -> BTreeMap<String, String> {
    [("app", "redis"), ("empty", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Amounts from this number on.
fn use_amounts(first: i64) -> v1::UseAmounts {
    let [hot_bytes, warm_bytes, cold_bytes, unseen_bytes] = [0, 1, 2, 3].map(|at| first + at);
    v1::UseAmounts { hot_bytes, warm_bytes, cold_bytes, unseen_bytes }
}

fn process(pid: i32) -> TargetProcess {
    TargetProcess { pid, start_time: 90_000 + pid as u64, boot_id: "b-1".to_owned() }
}

/// A selector with each operator once.
pub fn selector() -> Selector {
    let labels = "app=redis,tier in (db,cache),env notin (dev,test),zone,!old";
    Selector { namespace: Some("prod".to_owned()), ..labels.parse().expect("a selector") }
}

/// A target with a member of each kind.
pub fn target() -> Target {
    Target {
        pids: [4711, 4712].into(),
        cgroups: set(&["/kubepods.slice/a", "/system.slice/b.service"]),
        units: set(&["redis"]),
        containers: set(&["0a1b2c"]),
        pods: set(&["6f1e-41"]),
        virtual_machines: set(&["db"]),
        container_labels: set(&["numaloc.io/policy=bestEffort"]),
        labels: selector(),
        workload_creators: set(&["cert:node agent", "uid:1000"]),
        processes: [process(4713)].into(),
        // A target of files has no other members.
        files: BTreeSet::new(),
    }
}

/// A policy whose fields all differ from the defaults.
pub fn policy() -> Policy {
    Policy {
        // In requests the number of workers is one of the limits.
        options: Options { pacing: Pacing { workers: None, ..options().pacing }, ..options() },
        qos_class: Some(QosClass::Be),
        on_interrupt: OnInterrupt::Resume,
        numa_balancing: NumaBalancing::Pause,
        offload: Offload::Require,
        emit: Emit::Always,
        tenant: Some("6f1e-42".to_owned()),
    }
}

/// Limits of which all are set.
pub fn limits() -> Limits {
    Limits {
        batch_bytes: Some(4 * MIB),
        workers: Some(3),
        timeout: Some(Duration::from_millis(300_500)),
        rate_bytes_per_second: Some(512 * MIB),
        hourly_budget_bytes: Some(6 << 30),
    }
}

/// A migration of [`target`] by [`policy`] within [`limits`].
pub fn migration() -> MigrationSpec {
    MigrationSpec { target: target(), policy: policy(), limits: limits() }
}

/// The process of [`process_outcome`], which has failed.
pub fn failed() -> FailedProcess {
    FailedProcess::of(&process_outcome()).expect("it has failed")
}

/// A member whose memory moved, but for some of it.
pub fn member() -> MemberResult {
    MemberResult {
        member: Target::container("c-a"),
        state: MemberState::Partial,
        reason: "left: 18.0 MiB pinned\n".to_owned(),
        processes: 2,
        home: "0,16".parse().expect("nodes"),
        remote: [(NodeId(2), 400 * MIB), (NodeId(8), 200 * MIB)].into(),
        before: Some(locality(400, 600)),
        after: Some(locality(960, 40)),
        account: account(),
        flows: [((NodeId(2), NodeId(0)), 400 * MIB), ((NodeId(8), NodeId(2)), 160 * MIB)].into(),
        failed: vec![failed()],
        unreadable: 3,
        found: Some(Box::new(FoundAt {
            cgroup: Some("/docker/0a1b2c".to_owned()),
            by: "Docker 0a1b2c".to_owned(),
        })),
    }
}

/// A process that made room.
pub fn partner() -> Partner {
    let mut account = Account::default();
    account.found(69 * MIB);
    account.moved(48 * MIB);
    account.nearer(4 * MIB);
    account.moved_back(2 * MIB);
    account.vanished(3 * MIB);
    account.left(Reason::NotNeeded, 15 * MIB);
    account.left(Reason::Busy, MIB);
    Partner {
        member: Target { pids: [4990].into(), ..Target::default() },
        processes: 1,
        account,
        flows: [((NodeId(0), NodeId(2)), 38 * MIB), ((NodeId(2), NodeId(8)), 10 * MIB)].into(),
        error: Some("move_pages: permission denied".to_owned()),
    }
}

/// A result: of a process whose memory has moved, one that has failed, and others that are summed up.
pub fn outcome() -> Outcome {
    let failed = process_outcome();
    let mut lost = Account::default();
    lost.found(30 * MIB);
    lost.left(Reason::ProcessGone, 30 * MIB);
    let first = ProcessOutcome {
        identity: numaloc_core::Identity { pid: 4711, start_time: 94_711 },
        comm: "redis-server".to_owned(),
        account: account(),
        error: None,
    };
    let mut others = Account::default();
    others.found(5 * MIB);
    others.moved(5 * MIB);
    Outcome {
        processes: vec![first, ProcessOutcome { account: lost, ..failed }],
        others,
        flows: [((NodeId(2), NodeId(0)), 405 * MIB), ((NodeId(8), NodeId(2)), 160 * MIB)].into(),
        cache_flows: [((NodeId(0), NodeId(2)), 24 * MIB), ((NodeId(2), NodeId(8)), 6 * MIB)].into(),
        // Messages do not have the times of single calls.
        calls: CallStats { times: CallStats::default().times, ..calls() },
        elapsed: Duration::from_millis(250),
        before: locality(540, 635),
        after: Some(locality(1_105, 70)),
        returned_bytes: Some(47 * MIB),
        partners: vec![partner()],
        offload: Some(offload_use()),
        named: vec![NamedOutcome {
            pattern: "memfd:vm".to_owned(),
            nodes: [(NodeId(0), 51 * MIB), (NodeId(8), 52 * MIB)].into(),
            moved_bytes: 53 * MIB,
        }],
        look_error: "cannot read /proc/7/maps: Input/output error".to_owned(),
        ended_with: None,
    }
}

/// A plan as jobs have it: extents are summed up.
pub fn plan() -> PlanSummary {
    let share = |local_bytes, remote_bytes| {
        let local_percent = 100.0 * local_bytes as f64 / (local_bytes + remote_bytes) as f64;
        Some(v1::Share {
            local_bytes,
            remote_bytes,
            local_percent,
            near_bytes: 5,
            demoted_bytes: 6,
        })
    };
    let memory = |local_bytes| v1::ResidentMemory {
        nodes: vec![v1::NodeBytes { node_id: 8, bytes: local_bytes }],
        movable: share(local_bytes, 11),
        overall: share(local_bytes, 12),
    };
    let wide = v1::WideThread {
        tid: 4713,
        comm: "bio_close".to_owned(),
        cpus: "0-3".to_owned(),
        cpu_time: Some(prost_types::Duration { seconds: 3, nanos: 7 }),
        cpu_percent: 1.5,
    };
    let cell = v1::GuestCell {
        cell: 1,
        memory_names: vec!["ram-node1".to_owned()],
        home_node_ids: vec![2],
        nodes: vec![v1::NodeBytes { node_id: 8, bytes: 6 }],
    };
    let process = v1::ProcessLocality {
        process: Some(v1::ProcessId { pid: 4711, start_time_ticks: 94_711 }),
        comm: "redis-server".to_owned(),
        cpus: "0-7".to_owned(),
        home_node_ids: vec![2],
        skip: v1::SkipReason::NoTargetNode.into(),
        memory: Some(memory(13)),
        wide_threads: vec![wide],
        wide_thread_count: 14,
        swap_bytes: 42,
        page_table_bytes: 46,
        away_node_ids: vec![2],
        guest_cells: vec![cell],
    };
    let (kind, reason) = (v1::MemoryKind::Heap.into(), v1::LeftReason::Pinned.into());
    let moves =
        v1::MoveSummary { kind, extents: 3, length_bytes: 9, remote_bytes: 8, shared_bytes: 7 };
    PlanSummary::from(v1::Plan {
        processes: vec![process],
        shared: Some(memory(15)),
        routes: vec![v1::Route {
            from_node_id: 8,
            to_node_ids: vec![2, 16],
            nearer_node_ids: vec![4],
        }],
        moves: vec![moves],
        skipped: vec![v1::SkipSummary { kind, reason, extents: 1, remote_bytes: 6 }],
        left: vec![v1::LeftBytes { reason, bytes: 16 }],
        expected_bytes: 17,
        expected_duration: Some(prost_types::Duration { seconds: 2, nanos: 5 }),
        expected_flows: vec![v1::Flow { from_node_id: 8, to_node_id: 2, bytes: 18 }],
        no_room_bytes: 19,
        nearer_bytes: 41,
        limit_bytes: Some(20),
        unplaced_bytes: 21,
        unmapped: vec![v1::NodeBytes { node_id: 2, bytes: 39 }],
        unseen_bytes: 40,
        fixed: vec![v1::FixedMemory {
            kind: v1::FixedKind::Kernel.into(),
            mapped_bytes: 38,
            nodes: vec![v1::NodeBytes { node_id: 8, bytes: 39 }],
        }],
        movable_before: share(22, 23),
        movable_after: share(24, 25),
        overall_before: share(26, 27),
        overall_after: share(28, 29),
        order: v1::MoveOrder::Damon.into(),
        unasked_bytes: 30,
        beyond_pool_bytes: 31,
        expected_room: vec![v1::NodeRoom {
            node_id: 2,
            pool_bytes: 32,
            free_bytes: 33,
            cache_bytes: 34,
            protected_bytes: 35,
            exchange_bytes: 36,
            used_up_pool_page_bytes: vec![2 << 20],
            demotes: true,
        }],
        // No job has these.
        extent_moves: Vec::new(),
        skipped_extents: Vec::new(),
        one_sided: vec![v1::OneSidedMemory {
            name: "/dev/shm/window".to_owned(),
            home_node_ids: vec![2, 8],
            node_id: 8,
            bytes: 43,
            total_bytes: 44,
            process_count: 45,
        }],
        files: Some(v1::CachedFiles {
            files: vec![v1::CachedFile {
                path: "/srv/model".to_owned(),
                length_bytes: 65_536,
                nodes: vec![v1::NodeBytes { node_id: 1, bytes: 32_768 }],
                mapped_bytes: Some(16_384),
                move_bytes: Some(8_192),
                mount_policy: "interleave:0-1".to_owned(),
            }],
            file_count: 2,
            cached_count: 1,
            nodes: vec![v1::NodeBytes { node_id: 1, bytes: 32_768 }],
            left_out: vec![v1::LeftOutFile {
                path: "/srv/fifo".to_owned(),
                reason: "no regular file".to_owned(),
            }],
        }),
        tier_use: Some(v1::TierUse {
            fast: Some(use_amounts(4100)),
            slow: Some(use_amounts(4200)),
            kept_bytes: 4301,
            resting_bytes: 4302,
        }),
        held_files: vec![v1::HeldFile {
            process: Some(v1::ProcessId { pid: 50, start_time_ticks: 51 }),
            path: "/proc/50/fd/7".to_owned(),
            name: "/memfd:held (deleted)".to_owned(),
            bytes: 52,
        }],
        sharing: vec![v1::SharingProcess {
            process: Some(v1::ProcessId { pid: 46, start_time_ticks: 47 }),
            comm: "virtiofsd".to_owned(),
            cgroup: "/other".to_owned(),
            bytes: 48,
            name: "/dev/shm/guest".to_owned(),
        }],
        sharing_count: Some(49),
        source: v1::PageSource::MovePages.into(),
        named: vec![v1::NamedMemory {
            pattern: "memfd:vm".to_owned(),
            nodes: vec![v1::NodeBytes { node_id: 8, bytes: 37 }],
            move_bytes: 38,
        }],
        benefit: Some(v1::Benefit {
            min_percent: 1.0,
            max_percent: 17.0,
            source: v1::LatencySource::Bench.into(),
            latency_before: 143.0,
            latency_after: 98.0,
        }),
        weights: vec![v1::NodeWeight { node_id: 8, weight: 3 }],
        weight_source: v1::WeightSource::Hmat.into(),
        exposed_bytes: 37,
        devices: vec![v1::OpenDevices {
            process: Some(v1::ProcessId { pid: 4711, start_time_ticks: 94_711 }),
            comm: "redis-server".to_owned(),
            paths: vec!["/dev/vfio/12".to_owned()],
        }],
    })
}

/// A job that has ended as a client cancelled it.
pub fn job() -> Job {
    Job {
        id: JobId::new("nightly").expect("an id").with_number(42),
        spec: migration(),
        state: JobState::Partial,
        wanted: Some(JobState::Cancelled),
        state_message: "left: 18.0 MiB pinned\n".to_owned(),
        schedule: Some(ScheduleId::numbered(7)),
        creator: "uid:1000".to_owned(),
        creator_gid: Some(12_100),
        requester: Some("uid:1001".to_owned()),
        request_id: Some("r-1".to_owned()),
        joined: vec![JobJoin {
            client: "uid:1002".to_owned(),
            request_id: "r-2".to_owned(),
            digest: 0x0fed_cba9_8765_4321,
        }],
        pins: [(4711, process(4711)), (4712, process(4711))].into(),
        members: vec![member()],
        more_members: 2,
        labels: labels(),
        created: at(0),
        started: Some(at(1_000)),
        ended: Some(at(2_250)),
        progress: Some(JobProgress {
            planned_bytes: 630 * MIB,
            moved_bytes: 100 * MIB,
            settled_bytes: 120 * MIB,
            held_back: "CPUs of node 0 are 90 % busy".to_owned(),
            measured: at(1_500),
        }),
        plan: Some(Arc::new(plan())),
        outcome: Some(Arc::new(outcome())),
    }
}

/// A schedule whose target is gone.
pub fn schedule() -> Schedule {
    Schedule {
        id: ScheduleId::new("hourly").expect("an id").with_number(7),
        spec: ScheduleSpec {
            migration: migration(),
            interval: Duration::from_secs(30),
            jitter: Duration::from_millis(2_500),
            ttl_after_gone: Some(Duration::from_secs(3600)),
            paused: true,
            labels: labels(),
        },
        state: ScheduleState::TargetGone,
        state_message: "unit redis has no cgroup".to_owned(),
        last_job: Some(JobId::numbered(42)),
        last_run: Some(at(15_000)),
        next_run: Some(at(30_000)),
        gone: Some(at(20_000)),
        created: at(0),
        updated: at(10_000),
        creator: "cert:node-agent".to_owned(),
        creator_gid: Some(12_101),
        request_id: Some("r-2".to_owned()),
        request_digest: 0x1234_5678_9abc_def0,
        pins: [(4712, process(4712))].into(),
        etag: "e-1".to_owned(),
        declared_in: Some("/etc/numaloc/conf.d/50-hourly.toml".to_owned()),
        relieved: [(NodeId(1), 3 << 30), (NodeId(2), 4 << 30)].into(),
        relieved_at: Some(at(25_000)),
        hour_moved_bytes: 5 << 30,
        hour_start: Some(at(12_000)),
    }
}

/// A workload as a client registers it, with all fields set.
pub fn workload_spec() -> WorkloadSpec {
    WorkloadSpec {
        id: WorkloadId::new("redis.0_a-b").expect("an id"),
        cgroup: "/kubepods/pod1/redis".to_owned(),
        container_id: Some("c0ffee".to_owned()),
        pod_uid: Some("6f1e-41".to_owned()),
        namespace: Some("prod".to_owned()),
        labels: labels(),
        qos_class: Some(QosClass::Lsr),
        source: Some("node-agent".to_owned()),
        ttl: Some(Duration::from_millis(300_500)),
    }
}

/// A workload with a lease.
pub fn workload() -> Workload {
    Workload {
        spec: workload_spec(),
        created: at(0),
        creator: "spiffe://example.org/agent".to_owned(),
        creator_gid: Some(12_102),
        etag: "e-2".to_owned(),
        request_id: Some("r-3".to_owned()),
        expires: Some(at(60_000)),
    }
}

/// The event for the end of [`job`].
pub fn event() -> Event {
    Event {
        number: 12,
        kind: EventType::Completed,
        time: at(2_250),
        job: Some(JobId::numbered(42)),
        schedule: Some(ScheduleId::numbered(7)),
        creator: "uid:1000".to_owned(),
        labels: labels(),
        target: target(),
        from: "2,8".parse().expect("nodes"),
        to: "0,16".parse().expect("nodes"),
        before_percent: Some(46.25),
        after_percent: Some(94.5),
        remote_bytes: Some(70 * MIB),
        failed: vec![failed()],
        members: vec![member()],
        more_members: 3,
        more_target_names: 4,
        creator_gid: Some(12_103),
        message: "moved 560.0 MiB, 70.0 MiB stay\n".to_owned(),
    }
}

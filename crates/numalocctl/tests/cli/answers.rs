//! The answers that the fake daemon gives.

use numaloc_api::v1;
use prost_types::{Duration, Timestamp};

const MIB: i64 = 1 << 20;

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: 1_780_000_000 + seconds, nanos: 0 })
}

fn share(local_mib: i64, remote_mib: i64) -> Option<v1::Share> {
    let local_percent = 100.0 * local_mib as f64 / (local_mib + remote_mib) as f64;
    let (local_bytes, remote_bytes) = (local_mib * MIB, remote_mib * MIB);
    Some(v1::Share { local_bytes, remote_bytes, local_percent, ..v1::Share::default() })
}

/// Nodes 0 and 2, at distance 21.
pub fn topology() -> v1::Topology {
    let node = |node_id, cpus: &str, other| v1::Node {
        node_id,
        cpus: cpus.to_owned(),
        total_bytes: 1 << 34,
        free_bytes: 1 << 33,
        distances: vec![
            v1::NodeDistance { node_id, distance: 10 },
            v1::NodeDistance { node_id: other, distance: 21 },
        ],
        ..v1::Node::default()
    };
    v1::Topology { nodes: vec![node(0, "0-3", 2), node(2, "8-11", 0)], ..v1::Topology::default() }
}

pub fn process(pid: i32) -> v1::ProcessLocality {
    v1::ProcessLocality {
        process: Some(v1::ProcessId { pid, start_time_ticks: 90_000 }),
        comm: "redis-server".to_owned(),
        cpus: "0-3".to_owned(),
        home_node_ids: vec![0],
        skip: 0,
        wide_threads: Vec::new(),
        wide_thread_count: 0,
        swap_bytes: 0,
        page_table_bytes: 2 * MIB,
        away_node_ids: Vec::new(),
        guest_cells: Vec::new(),
        memory: Some(v1::ResidentMemory {
            nodes: vec![
                v1::NodeBytes { node_id: 0, bytes: 400 * MIB },
                v1::NodeBytes { node_id: 2, bytes: 600 * MIB },
            ],
            movable: share(400, 600),
            overall: share(400, 600),
        }),
    }
}

pub fn advice() -> v1::Advice {
    let finding = v1::Finding {
        kind: v1::FindingKind::PinnedRemote.into(),
        who: Some(v1::finding::Who::Cgroup("/redis".to_owned())),
        name: "/redis".to_owned(),
        resident_bytes: 1000 * MIB,
        used_cpus: 1.25,
        from_node_ids: vec![0],
        home_node_ids: vec![0],
        cpus: String::new(),
        mems_node_ids: Vec::new(),
        flows: vec![v1::Flow { from_node_id: 2, to_node_id: 0, bytes: 600 * MIB }],
        bytes: 600 * MIB,
        expected_time: Some(Duration { seconds: 0, nanos: 500_000_000 }),
        weight: 7.5e8,
        benefit: Some(v1::Benefit {
            min_percent: 0.0,
            max_percent: 31.5,
            source: v1::LatencySource::Distances.into(),
            latency_before: 21.0,
            latency_after: 10.0,
        }),
        source: v1::MemorySource::Counted.into(),
        sampled_pages: 0,
        age: Some(Duration { seconds: 1, nanos: 0 }),
        storage_bytes: 3 * MIB,
        commands: vec!["numalocctl migrate --cgroup /redis".to_owned()],
    };
    let newer = v1::Finding { kind: 99, ..v1::Finding::default() };
    v1::Advice {
        findings: vec![finding, newer],
        subject_count: 3,
        unreadable_count: 0,
        left_out_count: 0,
        ended_count: 0,
        is_whole: true,
        read_time: at(0),
        memory_bytes: 3000 * MIB,
        node_fit_bytes: 1000 * MIB,
        node_fit_count: 1,
    }
}

/// A host with two nodes. For one process everything is known, for another one nothing.
pub fn live() -> v1::LiveView {
    let seconds = |seconds| Some(Duration { seconds, nanos: 0 });
    let on = |pairs: &[(i32, i64)]| {
        let bytes = |&(node_id, mib): &(i32, i64)| v1::NodeBytes { node_id, bytes: mib * MIB };
        pairs.iter().map(bytes).collect::<Vec<_>>()
    };
    let shares = |local, remote| {
        let (local_bytes, remote_bytes) = (local * MIB, remote * MIB);
        Some(v1::LiveShares { local_bytes, remote_bytes, near_bytes: 0, demoted_bytes: 0 })
    };
    let traffic = |local_bytes_per_second, remote_bytes_per_second| {
        Some(v1::MemoryTraffic { local_bytes_per_second, remote_bytes_per_second })
    };
    let node = |node_id, cpu_percent| v1::LiveNode {
        node_id,
        total_bytes: 1 << 34,
        free_bytes: 1 << 33,
        cache_bytes: 3 << 30,
        protected_bytes: 1 << 30,
        cpu_percent,
        foreign_per_second: Some(2.0),
        memory_tier: Some(4),
        kind: v1::NodeKind::Dram.into(),
        is_lower_tier: false,
        traffic: Some(v1::NodeTraffic { bytes_per_second: 81_000_000_000, is_lower_bound: true }),
    };
    let id = |pid| Some(v1::ProcessId { pid, start_time_ticks: 90_000 });
    let pages = v1::LivePages {
        nodes: on(&[(0, 400), (2, 600)]),
        unplaced_bytes: 0,
        kernel_migrated_pages: Some(7),
        age: seconds(3),
        shares: shares(400, 600),
    };
    let known = v1::LiveProcess {
        process: id(4711),
        comm: "redis-server".to_owned(),
        group_index: Some(0),
        home_node_ids: vec![0],
        near_node_ids: Vec::new(),
        resident_bytes: 1000 * MIB,
        cpu_percent: Some(12.5),
        thread_count: 4,
        is_hidden: false,
        pages: Some(pages),
        job_indexes: vec![0],
        moved_bytes: 300 * MIB,
    };
    let hidden = v1::LiveProcess {
        process: id(4712),
        comm: "secret".to_owned(),
        // A group that does not exist.
        group_index: Some(99),
        is_hidden: true,
        ..v1::LiveProcess::default()
    };
    let group = v1::LiveGroup {
        cgroup: "/redis".to_owned(),
        nodes: on(&[(0, 410), (2, 610)]),
        cache_nodes: on(&[(2, 90)]),
        is_counted: true,
        kernel_migrated_pages: None,
        age: seconds(1),
        job_indexes: vec![0, 99],
        moved_bytes: 500 * MIB,
        process_count: 1,
        home_node_ids: vec![0],
        near_node_ids: Vec::new(),
        cpu_percent: Some(12.5),
        own_nodes: on(&[(0, 410), (2, 610)]),
        own_cache_bytes: 90 * MIB,
        own_shares: shares(410, 610),
        kernel_demoted_pages: Some(11),
        kernel_promoted_pages: Some(13),
        kernel_hint_faults: Some(17),
        traffic: traffic(3_000_000, 2_000_000),
        name: String::new(),
    };
    let job = v1::LiveJob {
        job: "jobs/nri-5".to_owned(),
        state: v1::JobState::Running.into(),
        state_message: String::new(),
        progress: Some(v1::JobProgress {
            planned_bytes: 600 * MIB,
            moved_bytes: 300 * MIB,
            settled_bytes: 300 * MIB,
            update_time: at(2),
            held_back: "node 0 is busy".to_owned(),
        }),
    };
    let thread = v1::LiveThread {
        tid: 4713,
        comm: "bio_close".to_owned(),
        home_node_ids: vec![0, 2],
        node_id: Some(2),
        cpu_percent: None,
    };
    let mapping = v1::LiveMapping {
        start_address: 0x5555_0000_0000,
        length_bytes: 1 << 31,
        kind: v1::MemoryKind::Heap.into(),
        name: "[heap]".to_owned(),
        is_shared: false,
        nodes: on(&[(0, 400), (2, 600)]),
    };
    let detail = v1::LiveDetail {
        process: id(4711),
        threads: vec![thread],
        mappings: vec![mapping],
        is_hidden: false,
    };
    v1::LiveView {
        nodes: vec![node(0, Some(50.0)), node(2, None)],
        groups: vec![group],
        processes: vec![known, hidden],
        detail: Some(detail),
        unseen_count: 0,
        hidden_count: 1,
        left_out_count: 5,
        used_time: seconds(2),
        up_time: seconds(100),
        read_time: at(0),
        jobs: vec![job],
        flows: vec![v1::Flow { from_node_id: 2, to_node_id: 0, bytes: 300 * MIB }],
        traffic: traffic(80_400_000_000, 1_200_000_000),
        page_bytes: 1 << 16,
    }
}

pub fn locality() -> v1::Locality {
    let process = process(4711);
    v1::Locality {
        shared: Some(v1::ResidentMemory {
            movable: share(0, 0),
            overall: share(0, 0),
            ..Default::default()
        }),
        total: process.memory.clone(),
        processes: vec![process],
        ..v1::Locality::default()
    }
}

pub fn kinds() -> Vec<v1::MemoryOfKind> {
    let of = |kind: v1::MemoryKind, hugetlb, mib: [i64; 2], huge_mib: i64| {
        let on = |(node_id, mib): (i32, i64)| v1::NodeBytes { node_id, bytes: mib * MIB };
        let nodes = [0, 2].into_iter().zip(mib).map(on).collect();
        v1::MemoryOfKind { kind: kind.into(), hugetlb, nodes, huge_bytes: huge_mib * MIB }
    };
    vec![
        of(v1::MemoryKind::Heap, false, [100, 600], 512),
        of(v1::MemoryKind::Shmem, true, [300, 0], 300),
    ]
}

pub fn plan() -> v1::Plan {
    v1::Plan {
        processes: vec![process(4711)],
        routes: vec![v1::Route { from_node_id: 2, to_node_ids: vec![0], ..v1::Route::default() }],
        moves: vec![v1::MoveSummary {
            kind: v1::MemoryKind::Heap.into(),
            extents: 3,
            length_bytes: 1000 * MIB,
            remote_bytes: 600 * MIB,
            shared_bytes: 0,
        }],
        expected_bytes: 600 * MIB,
        expected_duration: Some(Duration { seconds: 0, nanos: 150_000_000 }),
        movable_before: share(400, 600),
        movable_after: share(1000, 0),
        overall_before: share(400, 600),
        ..v1::Plan::default()
    }
}

/// A job that is under way.
pub fn job(state: v1::JobState, moved_mib: i64) -> v1::Job {
    let target = v1::Target { pids: vec![4711], ..v1::Target::default() };
    v1::Job {
        name: "jobs/42".to_owned(),
        spec: Some(v1::MigrationSpec { target: Some(target), ..Default::default() }),
        state: state.into(),
        creator: "uid:0".to_owned(),
        create_time: at(0),
        start_time: at(1),
        progress: Some(v1::JobProgress {
            held_back: String::new(),
            planned_bytes: 600 * MIB,
            moved_bytes: moved_mib * MIB,
            settled_bytes: moved_mib * MIB,
            update_time: at(2),
        }),
        plan: Some(plan()),
        ..v1::Job::default()
    }
}

/// A job that has ended. Memory that was not moved was left for `reason`.
pub fn ended(state: v1::JobState, moved_mib: i64, reason: v1::LeftReason) -> v1::Job {
    let left = v1::LeftBytes { reason: reason.into(), bytes: (600 - moved_mib) * MIB };
    let account = v1::Account {
        found_bytes: 600 * MIB,
        moved_bytes: moved_mib * MIB,
        left: if moved_mib < 600 { vec![left] } else { Vec::new() },
        ..v1::Account::default()
    };
    let outcome = v1::Outcome {
        account: Some(account),
        elapsed: Some(Duration { seconds: 2, nanos: 0 }),
        movable_before: share(400, 600),
        movable_after: share(400 + moved_mib, 600 - moved_mib),
        overall_before: share(400, 600),
        overall_after: share(400 + moved_mib, 600 - moved_mib),
        ..v1::Outcome::default()
    };
    v1::Job { outcome: Some(outcome), end_time: at(3), ..job(state, moved_mib) }
}

pub fn event(number: u64) -> v1::Event {
    v1::Event {
        name: format!("events/{number}"),
        r#type: v1::EventType::Completed.into(),
        create_time: at(10),
        job: "jobs/42".to_owned(),
        before_percent: Some(40.0),
        after_percent: Some(100.0),
        message: format!("number {number}"),
        ..v1::Event::default()
    }
}

pub fn schedule() -> v1::Schedule {
    let limits = v1::Limits { workers: Some(4), ..v1::Limits::default() };
    let policy = v1::Policy {
        include_shared: true,
        target_ratio_percent: Some(95),
        qos_class: v1::QosClass::Be.into(),
        profile: v1::Profile::Gentle.into(),
        order: v1::MoveOrder::Damon.into(),
        ..v1::Policy::default()
    };
    let spec = v1::MigrationSpec { target: None, policy: Some(policy), limits: Some(limits) };
    v1::Schedule {
        name: "schedules/7".to_owned(),
        spec: Some(spec),
        interval: Some(Duration { seconds: 30, nanos: 0 }),
        state: v1::ScheduleState::Waiting.into(),
        etag: "e1".to_owned(),
        ..v1::Schedule::default()
    }
}

pub fn workload(name: &str) -> v1::Workload {
    let cgroup = "/system.slice/redis.service".to_owned();
    v1::Workload { name: name.to_owned(), cgroup, ..v1::Workload::default() }
}

pub fn holds(drained: bool, paused: bool) -> v1::Holds {
    let since = |is_on: bool| is_on.then(|| at(0)).flatten();
    v1::Holds { drain_time: since(drained), pause_time: since(paused) }
}

pub fn status(version: &str) -> v1::GetStatusResponse {
    v1::GetStatusResponse {
        version: version.to_owned(),
        start_time: at(0),
        jobs: vec![v1::JobStateCount { state: v1::JobState::Running.into(), count: 2 }],
        caller: "uid:0".to_owned(),
        role: "admin".to_owned(),
        ..v1::GetStatusResponse::default()
    }
}

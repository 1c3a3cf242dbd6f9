//! Answers of the daemon: what they have of the values that they are made of.

use crate::{
    FILE_DESCRIPTOR_SET, Known, LocalityView, timestamp, v1,
    value::{CallStats, JobState, Outcome, ProcessOutcome},
};
use numaloc_core::{
    Account, Extent, HeatSource, HugePool, Identity, Kind, Locality, Mapping, Mempolicy, Node,
    NodeId, NodeMemory, NodeResidency, Options, Pages, Plan, Process, Reason, Residency, Share,
    Topology, planner,
};
use prost::Message;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

const GIB: u64 = 1 << 30;

fn topology() -> Topology {
    let node = |id, cpus: &str| {
        let pool =
            HugePool { page_bytes: 2 << 20, total_pages: 4, free_pages: 3, unreserved_pages: 3 };
        let memory = NodeMemory {
            total_bytes: 16 * GIB,
            free_bytes: 8 * GIB,
            cache_bytes: 1 << 30,
            high_watermark_bytes: 1 << 20,
            huge_pools: vec![pool],
            ..NodeMemory::default()
        };
        Node { id: NodeId(id), cpus: cpus.parse().unwrap(), memory }
    };
    let distances = [((NodeId(0), NodeId(8)), 32), ((NodeId(8), NodeId(0)), 31)];
    Topology::new([node(0, "0-3,8"), node(8, "4-7")], distances)
}

/// Two processes on node 0. The second one may run on both nodes.
pub fn plan() -> Plan {
    let process = |pid, cpus: &str| Process {
        identity: Identity { pid, start_time: 100 },
        comm: "redis".to_owned(),
        cpus: cpus.parse().unwrap(),
        threads: Vec::new(),
        mems_allowed: "0,8".parse().unwrap(),
        device_nodes: Default::default(),
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    };
    let extent = |process, kind, local, owned_bytes, shared_bytes| {
        let on =
            |owned_bytes, shared_bytes| NodeResidency { owned_bytes, shared_bytes, huge_bytes: 0 };
        let nodes =
            BTreeMap::from([(NodeId(0), on(local, 0)), (NodeId(8), on(owned_bytes, shared_bytes))]);
        Extent {
            mappings: vec![Mapping { process, start: 0x1000 }],
            pages: Pages::All,
            bytes: GIB,
            kind,
            policy: Mempolicy::Default,
            hugetlb_bytes: None,
            mappers: Default::default(),
            stripe: None,
            rule: None,
            name: "".into(),
            residency: Residency { nodes, unplaced_bytes: 4096, ..Residency::default() },
        }
    };
    let extents = [
        extent(0, Kind::Heap, 1 << 20, 3 << 20, 4096),
        extent(0, Kind::Heap, 0, 1 << 20, 0),
        extent(0, Kind::File, 0, 0, 8192),
        extent(1, Kind::Stack, 0, 4096, 0),
    ];
    let caller_mems = "0,8".parse().unwrap();
    let processes = [process(1, "0-1"), process(2, "0-7")];
    let topology = topology();
    let scene =
        planner::Scene { topology: &topology, processes: &processes, caller_mems: &caller_mems };
    planner::plan(scene, extents, &Options::default())
}

#[test]
fn topologies() {
    let answer = v1::Topology::from(&topology());
    let node = &answer.nodes[0];
    assert_eq!((node.node_id, node.cpus.as_str()), (0, "0-3,8"));
    assert_eq!((node.total_bytes, node.free_bytes), (16 << 30, 8 << 30));
    assert_eq!(node.huge_pools[0].free_pages, 3);
    let distances = |node: &v1::Node| {
        node.distances.iter().map(|to| (to.node_id, to.distance)).collect::<Vec<_>>()
    };
    assert_eq!(distances(node), [(0, 10), (8, 32)]);
    assert_eq!(distances(&answer.nodes[1]), [(0, 31), (8, 10)]);
}

#[test]
fn plans_are_summed_up() {
    let plan = plan();
    let answer = v1::Plan::from(&plan);
    let [moves] = &answer.moves[..] else { panic!("{:?}", answer.moves) };
    assert_eq!((moves.kind(), moves.extents), (v1::MemoryKind::Heap, 2));
    assert_eq!((moves.remote_bytes, moves.shared_bytes), (4 << 20, 4096));
    let [skipped] = &answer.skipped[..] else { panic!("{:?}", answer.skipped) };
    assert_eq!((skipped.kind(), skipped.reason()), (v1::MemoryKind::File, v1::LeftReason::Shared));
    assert_eq!(answer.left, [v1::LeftBytes { reason: 3, bytes: 12288 }]);
    assert_eq!(answer.expected_bytes, 4 << 20);
    assert_eq!(
        answer.expected_flows,
        [v1::Flow { from_node_id: 8, to_node_id: 0, bytes: 4 << 20 }]
    );
    assert_eq!(
        answer.routes,
        [v1::Route { from_node_id: 8, to_node_ids: vec![0], nearer_node_ids: vec![] }]
    );
    assert_eq!(answer.movable_after.unwrap().local_percent, 100.0);
    assert_eq!(answer.processes[1].skip(), v1::SkipReason::NoTargetNode);
    assert_eq!(answer.order(), v1::MoveOrder::Address);
    let damon = Plan { order: HeatSource::Damon, ..plan };
    assert_eq!(v1::Plan::from(&damon).order(), v1::MoveOrder::Damon);
}

#[test]
fn localities_add_up() {
    let plan = plan();
    let answer = v1::Locality::from(LocalityView { plan: &plan, time: SystemTime::UNIX_EPOCH });
    let total: i64 = answer.total.unwrap().nodes.iter().map(|node| node.bytes).sum();
    let memory = answer.processes.iter().filter_map(|process| process.memory.as_ref());
    let parts: i64 = memory.flat_map(|memory| &memory.nodes).map(|node| node.bytes).sum();
    assert_eq!((total, parts), ((5 << 20) + 4096 * 4, (5 << 20) + 4096 * 4));
    assert_eq!(answer.unplaced_bytes, 4 * 4096);
    assert_eq!(answer.processes[0].home_node_ids, [0]);
    assert_eq!(answer.read_time, Some(prost_types::Timestamp::default()));
}

#[test]
fn shares_are_rounded_down() {
    let share = Share { local_bytes: 99_999, remote_bytes: 1, ..Share::default() };
    assert_eq!(v1::Share::from(share).local_percent, 99.99);
    assert_eq!(v1::Share::from(Share::default()).local_percent, 100.0);
}

#[test]
fn every_reason_goes_there_and_back() {
    let mut account = Account::default();
    for (bytes, reason) in (1..).zip(Reason::ALL) {
        account.found(bytes);
        account.left(reason, bytes);
    }
    let answer = v1::Account::from(&account);
    assert_eq!(answer.left.len(), Reason::ALL.len());
    for entry in &answer.left {
        let reason = Reason::known(entry.reason).flatten().expect("it is known");
        assert_eq!(account.left_for(reason), entry.bytes as u64);
        let name = entry.reason().as_str_name().to_owned();
        assert_eq!(name, format!("LEFT_REASON_{}", reason.name().to_uppercase()));
    }
    assert_eq!(Reason::known(99), None);
}

#[test]
fn outcomes() {
    let mut account = Account::default();
    account.found(u64::MAX);
    account.moved(u64::MAX);
    let identity = Identity { pid: 1, start_time: 2 };
    let error = Some("No such process".to_owned());
    let process = ProcessOutcome { identity, comm: "a".to_owned(), account, error };
    let outcome = Outcome {
        processes: vec![process],
        others: Account::default(),
        flows: BTreeMap::from([((NodeId(8), NodeId(0)), 4096)]),
        cache_flows: BTreeMap::new(),
        calls: CallStats { calls: 3, longest: Duration::from_millis(1), ..Default::default() },
        elapsed: Duration::MAX,
        before: Locality::default(),
        after: None,
        returned_bytes: Some(0),
        partners: Vec::new(),
        offload: None,
        named: Vec::new(),
        look_error: String::new(),
        ended_with: None,
    };
    let answer = v1::Outcome::from(&outcome);
    assert_eq!(answer.account.unwrap().moved_bytes, i64::MAX);
    assert_eq!(answer.returned_bytes, Some(0));
    assert_eq!(answer.processes[0].error, "No such process");
    assert_eq!(answer.elapsed.unwrap().seconds, i64::MAX);
    assert_eq!(answer.calls.unwrap().longest.unwrap().nanos, 1_000_000);
    assert!(answer.movable_after.is_none() && answer.movable_before.is_some());
}

#[test]
fn states_keep_their_numbers() {
    let numbers = JobState::ALL.map(|state| v1::JobState::from(state) as i32);
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(JobState::ALL.into_iter().filter(|state| state.is_end()).count(), 6);
}

#[test]
fn times() {
    let time = SystemTime::UNIX_EPOCH + Duration::new(5, 6);
    assert_eq!(timestamp(time), prost_types::Timestamp { seconds: 5, nanos: 6 });
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
    assert_eq!(timestamp(before), prost_types::Timestamp::default());
}

#[test]
fn the_descriptors_are_complete() {
    let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let files = || set.file.iter();
    let services: Vec<_> = files().flat_map(|file| &file.service).map(|s| s.name()).collect();
    assert_eq!(services.len(), 6, "{services:?}");
    assert!(files().any(|file| file.name() == "google/protobuf/field_mask.proto"));
    // Reflection shows the options that prost does not know.
    assert!(files().any(|file| file.name() == "google/api/resource.proto"));
    let named = b"numaloc.io/Workload";
    assert!(FILE_DESCRIPTOR_SET.windows(named.len()).any(|part| part == named));
    // And the comments.
    let commented = |file: &prost_types::FileDescriptorProto| {
        let locations = file.source_code_info.iter().flat_map(|info| &info.location);
        locations.filter(|location| location.leading_comments.is_some()).count() > 0
    };
    let ours = files().filter(|file| file.package() == "numaloc.v1");
    assert!(ours.filter(|file| !file.service.is_empty()).all(commented));
}

//! Hosts with many nodes: what lies near to home, and where memory goes that finds no room there.

use super::*;
use crate::HomeRule;

/// Nodes 0 and 1 on one socket, 2 and 3 on the other one; on each node this much is free beyond watermark and reserve.
fn sockets(free: [u64; 4]) -> Topology {
    let mut topology = machine(&[0, 1, 2, 3], &[]);
    let pairs = (0..4_u32).flat_map(|a| (0..4_u32).map(move |b| (a, b)));
    topology = Topology::new(
        topology.nodes().cloned().collect::<Vec<_>>(),
        pairs.map(|(a, b)| {
            let distance = if a == b {
                10
            } else if a / 2 == b / 2 {
                11
            } else {
                32
            };
            ((NodeId(a), NodeId(b)), distance)
        }),
    );
    for (node, free) in (0..).zip(free) {
        let memory = NodeMemory {
            total_bytes: 64 << 30,
            free_bytes: 64 * MIB + free,
            high_watermark_bytes: 64 * MIB,
            ..NodeMemory::default()
        };
        topology.set_memory(NodeId(node), memory);
    }
    topology
}

fn plan(free: [u64; 4], options: Options) -> Plan {
    let extents = vec![extent(0, &[(0, MIB), (1, 2 * MIB), (2, 8 * MIB)])];
    let options = Options { reserve_bytes: Some(0), make_room: MakeRoom::None, ..options };
    plan_of(&sockets(free), process("0", "0-3"), extents, &options)
}

#[test]
fn near_memory_is_remote_and_counted_apart() {
    let plan = |options| plan([1 << 30; 4], options);
    let now = plan(Options::default());
    let before =
        Share { local_bytes: MIB, remote_bytes: 10 * MIB, near_bytes: 2 * MIB, ..Share::default() };
    assert_eq!((now.locality.movable, now.locality.overall), (before, before));
    let home = Share { local_bytes: 11 * MIB, ..Share::default() };
    assert_eq!((now.expected_share(), now.nearer_bytes), (home, 0));
    let wide = plan(Options { near_distance: 32, ..Options::default() });
    assert_eq!(wide.locality.movable.near_bytes, 10 * MIB);
    let near = plan(Options { home: HomeRule::Near, ..Options::default() });
    let expected =
        Share { local_bytes: 3 * MIB, remote_bytes: 8 * MIB, near_bytes: 0, ..Share::default() };
    assert_eq!((near.locality.movable, near.expected_bytes), (expected, 8 * MIB));
    let to = plan(Options { to: Some(nodes("0")), ..Options::default() });
    assert_eq!(to.locality.movable.near_bytes, 0, "the request says where it belongs");
}

#[test]
fn what_finds_no_room_at_home_goes_nearer() {
    let flow = |from, to, mib: u64| ((NodeId(from), NodeId(to)), mib * MIB);
    let full = plan([3 * MIB, 1 << 30, 0, 0], Options::default());
    // Memory of node 1 is there already: it comes home or stays.
    assert_eq!(full.expected_flows, [flow(1, 0, 2), flow(2, 0, 1), flow(2, 1, 7)].into());
    assert_eq!(
        (full.expected_bytes, full.nearer_bytes, full.no_room_bytes),
        (10 * MIB, 7 * MIB, 0)
    );
    let after = Share {
        local_bytes: 4 * MIB,
        remote_bytes: 7 * MIB,
        near_bytes: 7 * MIB,
        ..Share::default()
    };
    assert_eq!(full.expected_share(), after);
    let flows = [flow(2, 0, 1), flow(2, 1, 7)].into();
    assert_eq!(full.nearer_of(0, &flows), 7 * MIB);

    let nowhere = plan([0, 0, 0, 1 << 30], Options::default());
    assert_eq!((nowhere.expected_bytes, nowhere.no_room_bytes), (0, 10 * MIB));
    let to = plan([0, 1 << 30, 0, 0], Options { to: Some(nodes("0")), ..Options::default() });
    assert_eq!((to.expected_bytes, to.no_room_bytes), (0, 10 * MIB), "only where the request says");
}

#[test]
fn what_may_not_be_on_a_nearer_node_does_not_go_there() {
    let bound = |policy: &str, mems: &str| {
        let policy = policy.parse().expect("a policy");
        let extents = vec![Extent { policy, ..extent(0, &[(2, 8 * MIB)]) }];
        let options = Options { make_room: MakeRoom::None, ..Options::default() };
        let topology = sockets([0, 1 << 30, 0, 0]);
        plan_of(&topology, process("0", mems), extents, &options).expected_bytes
    };
    assert_eq!(bound("default", "0-3"), 8 * MIB);
    assert_eq!(bound("bind:0", "0-3"), 0);
    assert_eq!(bound("default", "0,2-3"), 0);
}

//! Placements by amounts: ranges of extents, each with one node as its target.

use super::*;
use crate::{
    ask::placement::Placement,
    memory::grains::{Raster, grain_bytes},
};

fn placed(text: &str) -> Options {
    Options { placement: text.parse().expect(text), ..Options::default() }
}

/// An extent at `start` with these MiB in a row on each node.
pub(super) fn in_a_row(start: u64, mib: &[(u32, u64)]) -> Extent {
    let resident: Vec<_> = mib.iter().map(|&(node, mib)| (node, mib * MIB)).collect();
    let bytes: u64 = resident.iter().map(|(_, bytes)| bytes).sum();
    let mut extent = Extent { bytes, ..extent(start, &resident) };
    let mut at = 0;
    for (node, bytes) in resident {
        let place = Raster { start, size: grain_bytes(extent.bytes, None) };
        extent.residency.grains.add(NodeId(node), place, at..at + bytes, false);
        at += bytes;
    }
    extent
}

fn plan_for(cpus: &str, extents: Vec<Extent>, options: &Options) -> Plan {
    plan_of(&machine(&[0, 1, 2], &[]), process(cpus, "0-2"), extents, options)
}

#[test]
fn shares_are_the_cpus_of_the_process_on_each_node() {
    // Two CPUs on node 0, and one on node 1.
    let plan = plan_for("0-2", vec![in_a_row(0, &[(2, 96)])], &placed("balance"));
    let flow = |to, mib: u64| ((NodeId(2), NodeId(to)), mib * MIB);
    assert_eq!(plan.expected_flows, [flow(0, 64), flow(1, 32)].into());
    assert_eq!(
        plan.locality.movable,
        Share { local_bytes: 0, remote_bytes: 96 * MIB, ..Share::default() }
    );
    let [first, second] = &plan.moves[..] else { panic!("{:#?}", plan.moves) };
    assert_eq!((first.mappings[0].start, first.bytes), (0, 64 * MIB));
    assert_eq!((second.mappings[0].start, second.bytes), (64 * MIB, 32 * MIB));
    assert_eq!(plan.processes[0].skip, None);
}

#[test]
fn all_memory_is_counted_by_kind_whatever_its_placement() {
    let shared = Extent { pages: Pages::Unmapped, kind: Kind::Shmem, ..in_a_row(0, &[(1, 8)]) };
    let pool = Extent { hugetlb_bytes: Some(2 << 20), ..in_a_row(1 << 30, &[(0, 4), (2, 4)]) };
    let plain = in_a_row(2 << 30, &[(0, 64), (1, 32)]);
    for placement in ["home", "balance", "block", "interleave"] {
        let extents = vec![shared.clone(), pool.clone(), plain.clone(), plain.clone()];
        let plan = plan_for("0-3", extents, &placed(placement));
        let kinds: Vec<_> = plan.kinds.iter().map(|of| (of.kind, of.is_hugetlb)).collect();
        let (anonymous, shmem) = (Kind::Anonymous, Kind::Shmem);
        assert_eq!(kinds, [(anonymous, false), (anonymous, true), (shmem, false)], "{placement}");
        let on = |index: usize| plan.kinds[index].resident.values().sum::<u64>() / MIB;
        assert_eq!((on(0), on(1), on(2)), (192, 8, 8), "{placement}");
        assert_eq!(plan.kinds[0].resident, [(NodeId(0), 128 * MIB), (NodeId(1), 64 * MIB)].into());
    }
}

#[test]
fn a_balanced_process_has_nothing_to_move() {
    let even = vec![in_a_row(0, &[(0, 64), (1, 64)])];
    let plan = plan_for("0-3", even, &placed("balance"));
    assert_eq!((plan.moves, plan.skipped), (vec![], vec![]));
    assert_eq!(
        plan.locality.movable,
        Share { local_bytes: 128 * MIB, remote_bytes: 0, ..Share::default() }
    );
}

#[test]
fn large_extents_are_balanced_alone_and_small_ones_together() {
    let all = vec![
        in_a_row(0, &[(0, 80)]),
        in_a_row(1 << 32, &[(1, 80)]),
        in_a_row(1 << 33, &[(0, 10)]),
        in_a_row(1 << 34, &[(1, 10)]),
    ];
    let plan = plan_for("0-3", all, &placed("balance"));
    let starts: Vec<u64> = plan.moves.iter().map(|each| each.mappings[0].start).collect();
    assert_eq!(starts, [0, 1 << 32], "the small ones are even");
}

#[test]
fn what_the_application_has_bound_stays_and_moves_nothing_else() {
    let bound = Extent { policy: "bind:1".parse().unwrap(), ..in_a_row(0, &[(1, 8)]) };
    let free = in_a_row(1 << 32, &[(0, 4), (1, 4)]);
    let plan = plan_for("0-3", vec![bound, free], &placed("balance"));
    assert_eq!(plan.moves, []);
    assert_eq!(plan.skipped_bytes(), [(Reason::Bound, 4 * MIB)].into());
}

#[test]
fn each_node_gets_one_block() {
    let extent = in_a_row(0, &[(1, 8), (0, 8), (2, 8)]);
    let plan = plan_for("0-5", vec![extent], &placed("block"));
    let flow = |from, to| ((NodeId(from), NodeId(to)), 8 * MIB);
    assert_eq!(plan.expected_flows, [flow(1, 0), flow(0, 1)].into());
    assert_eq!(plan.moves.iter().map(|each| each.bytes).sum::<u64>(), 16 * MIB);
    assert_eq!(
        plan.locality.movable,
        Share { local_bytes: 8 * MIB, remote_bytes: 16 * MIB, ..Share::default() }
    );
    let two = placed("block:0,1");
    let plan = plan_for("0", vec![in_a_row(0, &[(2, 8)])], &two);
    assert_eq!(plan.expected_flows.values().sum::<u64>(), 8 * MIB);
    assert_eq!(two.placement, Placement::Block("0-1".parse().ok()));
}

#[test]
fn what_forked_processes_share_stays() {
    let machine = machine(&[0, 1], &[]);
    let processes = [process("0-3", "0-1"), process("0-3", "0-1")];
    let extents = |claims: &Claims| {
        let pages = Pages::Common(claims.of([0, 1]));
        vec![Extent { pages, ..in_a_row(0, &[(1, 80)]) }]
    };
    let plan = plan_all(&machine, &processes, extents, &placed("balance"));
    assert_eq!((plan.moves, plan.common_stays.len()), (vec![], 1));
    assert_eq!(plan.locality.movable, Share::default());
}

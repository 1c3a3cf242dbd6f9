//! Memory leaves a node until enough of it is free, or while it is used too much.

use super::*;
use crate::{NodeTraffic, Relief, ReliefBound};

const GIB: u64 = 1 << 30;

/// A plan for a small process, and a large one that may be on these nodes, with all their memory on node 1, of which 32 GiB
/// are free.
fn relieved(mems: &str, relief: Relief) -> Plan {
    let machine = machine(&[0, 1, 2], &[]);
    let options = Options { relief: Some(relief), ..Options::default() };
    let options = options.relieving(&machine);
    let processes = [process("2-3", "0-2"), process("0-5", mems)];
    let of = |process, start, bytes| {
        let mappings = vec![Mapping { process, start }];
        Extent { mappings, ..extent(start, &[(1, bytes)]) }
    };
    let extents = vec![of(0, 0, 8 * MIB), of(1, GIB, 32 * MIB), of(1, 2 * GIB, 32 * MIB)];
    plan_all(&machine, &processes, |_| extents, &options)
}

fn until(free_bytes: u64) -> Relief {
    Relief::until(NodeId(1), free_bytes)
}

#[test]
fn as_much_as_is_needed_leaves_and_the_largest_first() {
    let plan = relieved("0-2", until(32 * GIB + 16 * MIB));
    assert_eq!((plan.limit_bytes, plan.planned_bytes()), (Some(16 * MIB), 16 * MIB));
    assert_eq!(plan.expected_flows, [((NodeId(1), NodeId(0)), 16 * MIB)].into());
    let order: Vec<usize> = plan.moves.iter().map(|each| each.mappings[0].process).collect();
    assert_eq!(order, [1, 1, 0]);
    let all = relieved("0-2", until(33 * GIB));
    assert_eq!((all.limit_bytes, all.planned_bytes()), (None, 72 * MIB));
    let only = Relief { spared: nodes("0"), ..until(33 * GIB) };
    assert_eq!(relieved("0-2", only).expected_flows.len(), 1);
}

#[test]
fn nothing_leaves_a_node_with_enough_free_memory() {
    let plan = relieved("0-2", until(32 * GIB));
    assert_eq!((plan.limit_bytes, plan.moves.len()), (Some(0), 0));
    assert_eq!(plan.skipped_bytes(), [(Reason::NotNeeded, 72 * MIB)].into());
}

#[test]
fn a_share_leaves_a_node_that_is_used_too_much() {
    let bound = ReliefBound::Traffic { above_bytes_per_second: 90, until_bytes_per_second: 75 };
    let used = |bytes_per_second| {
        let traffic = Some(NodeTraffic { bytes_per_second, is_whole: true });
        relieved("0-2", Relief { traffic, ..Relief::within(NodeId(1), bound) })
    };
    assert_eq!((used(100).limit_bytes, used(90).limit_bytes), (Some(18 * MIB), Some(0)));
    assert_eq!(used(90).skipped_bytes(), [(Reason::NotNeeded, 72 * MIB)].into());
}

#[test]
fn memory_goes_only_where_its_cpuset_lets_it() {
    let plan = relieved("1-2", until(33 * GIB));
    assert_eq!(plan.expected_flows[&(NodeId(1), NodeId(2))], 64 * MIB);
    let plan = relieved("1", until(33 * GIB));
    assert_eq!(plan.skipped_bytes(), [(Reason::NotAllowed, 64 * MIB)].into());
    assert_eq!(plan.planned_bytes(), 8 * MIB);
}

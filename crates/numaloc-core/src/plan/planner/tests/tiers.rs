//! Memory on nodes of other tiers moves within its tier.

use super::*;

/// Nodes 0 and 1 with CPUs, 2 and 3 with another kind of memory, of which 2 is nearer to both.
fn told() -> Topology {
    let tiers = [(0, 4), (1, 4), (2, 1), (3, 1)].map(|(node, tier)| (NodeId(node), tier));
    machine(&[0, 1, 2, 3], &[2, 3]).with_tiers(tiers)
}

fn plan_on_all(options: &Options, policy: Mempolicy) -> Plan {
    let resident = [(0, MIB), (1, 2 * MIB), (2, 4 * MIB), (3, 8 * MIB)];
    let extent = Extent { policy, ..extent(0, &resident) };
    plan_of(&told(), process("0", "0-3"), vec![extent], options)
}

#[test]
fn what_is_on_the_far_node_of_a_tier_goes_to_the_near_one() {
    let plan = plan_on_all(&Options::default(), Mempolicy::Default);
    let flow = |from, to| (NodeId(from), NodeId(to));
    assert_eq!(plan.expected_flows, [(flow(1, 0), 2 * MIB), (flow(3, 2), 8 * MIB)].into());
    assert_eq!(plan.skipped_bytes(), [(Reason::OtherTier, 4 * MIB)].into());
    let Share { local_bytes, remote_bytes, .. } = plan.locality.movable;
    assert_eq!((local_bytes, remote_bytes), (MIB, 10 * MIB), "what stays is not movable");
    let routes = &plan.routes[plan.moves[0].routes];
    assert_eq!((routes.from(NodeId(2)), &routes.targets), (&[][..], &nodes("0,2")));
}

#[test]
fn nodes_that_are_named_count_alone() {
    let flows = |options| plan_on_all(&options, Mempolicy::Default).expected_flows;
    let all = flows(Options { from: Some(nodes("0-3")), ..Options::default() });
    assert!(all.keys().all(|(_, to)| to.0 == 0) && all.len() == 3, "{all:?}");
    let to = flows(Options { to: Some(nodes("1")), ..Options::default() });
    assert!(to.keys().all(|(from, to)| (from.0, to.0) == (0, 1)), "{to:?}");
    let from = flows(Options { from: Some(nodes("1")), ..Options::default() });
    assert!(from.keys().all(|(from, to)| (from.0, to.0) == (1, 0)), "{from:?}");
}

#[test]
fn a_node_that_the_cpuset_forbids_takes_nothing() {
    let resident = [(1, 2 * MIB), (3, 8 * MIB)];
    let process = process("0", "0-1,3");
    let plan = plan_of(&told(), process, vec![extent(0, &resident)], &Options::default());
    assert_eq!(plan.expected_bytes, 2 * MIB);
    assert_eq!(plan.skipped_bytes(), [(Reason::NotAllowed, 8 * MIB)].into());
}

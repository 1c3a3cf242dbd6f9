//! Placements on several nodes: stripes of one range, each with one node as its home.

use super::*;
use crate::{
    ask::placement::Placement,
    memory::stripe::{Origin, Stripe},
};
use std::sync::Arc;

fn interleaved(list: &str) -> Options {
    let nodes = list.parse().ok().filter(|_| !list.is_empty());
    Options { placement: Placement::Interleave(nodes), ..Options::default() }
}

/// The pages of a range that belong on `node`, with MiB by the node that they are on.
fn stripe(claims: &Claims, node: u32, mib: &[(u32, u64)]) -> Extent {
    let resident: Vec<_> = mib.iter().map(|&(node, mib)| (node, mib * MIB)).collect();
    let extent = extent(0, &resident);
    let claim = claims.on(&extent.mappings, &extent.pages, None);
    let cycle = Arc::new(claim.cycle.clone().expect("a wide placement"));
    let stripe = Stripe { cycle, origin: Origin::default(), node: NodeId(node) };
    Extent { stripe: Some(stripe), ..extent }
}

/// A process on all nodes of three, with 30 MiB on node 0.
fn thirds(options: &Options, mems: &str) -> Plan {
    let extents = |claims: &Claims| (0..3).map(|node| stripe(claims, node, &[(0, 10)])).collect();
    plan_all(&machine(&[0, 1, 2], &[]), &[process("0-5", mems)], extents, options)
}

#[test]
fn each_stripe_goes_to_its_node_and_what_is_there_is_local() {
    let plan = thirds(&interleaved(""), "0-2");
    assert_eq!(plan.processes[0].skip, None, "that all nodes are home is the point of it");
    let flow = |to| ((NodeId(0), NodeId(to)), 10 * MIB);
    assert_eq!(plan.expected_flows, [flow(1), flow(2)].into());
    assert_eq!(
        plan.locality.movable,
        Share { local_bytes: 10 * MIB, remote_bytes: 20 * MIB, ..Share::default() }
    );
    assert_eq!(plan.moves.len(), 2, "the stripe of node 0 is at home");
    for planned_move in &plan.moves {
        let node = planned_move.stripe.as_ref().expect("a stripe").node;
        let routes = &plan.routes[planned_move.routes];
        assert_eq!((&routes.home, &routes.targets), (&nodes(&node.to_string()), &routes.home));
    }
}

#[test]
fn what_the_cpuset_or_the_application_forbids_stays() {
    let left = |plan: Plan| plan.skipped_bytes();
    let forbidden = left(thirds(&interleaved("0-2"), "0-1"));
    assert_eq!(forbidden, [(Reason::NotAllowed, 10 * MIB)].into());
    let bound = |policy: &str| {
        let extents = |claims: &Claims| {
            let stripes = (0..2).map(|node| stripe(claims, node, &[(0, 1), (1, 1)]));
            stripes.map(|stripe| Extent { policy: policy.parse().unwrap(), ..stripe }).collect()
        };
        let machine = machine(&[0, 1], &[]);
        left(plan_all(&machine, &[process("0-3", "0-1")], extents, &interleaved("")))
    };
    assert_eq!(bound("bind:0-1"), [].into());
    assert_eq!(bound("bind:1"), [(Reason::Bound, MIB)].into(), "what is to leave node 1");
    assert_eq!(bound("interleave:0-1"), [(Reason::Bound, 2 * MIB)].into());
}

#[test]
fn a_process_on_one_node_is_skipped_unless_nodes_are_named() {
    let plan = |options| {
        let machine = machine(&[0, 1], &[]);
        let processes = [process("0", "0-1"), process("0-3", "0-1")];
        let claims = claims(&machine, &processes, &options);
        let cycle =
            |index: usize| claims.join(&claims.of([index]), None).cycle.map(|it| it.nodes());
        let plan = plan_all(&machine, &processes, |_| Vec::new(), &options);
        ([cycle(0), cycle(1)], plan.processes[0].skip, claims.join(&claims.of([0, 1]), None).cycle)
    };
    let (cycles, skip, joined) = plan(interleaved(""));
    assert_eq!((cycles, skip), ([None, Some(nodes("0-1"))], Some(Skip::OneNode)));
    assert_eq!(joined, None, "what a skipped process maps stays");
    let (cycles, skip, joined) = plan(interleaved("0-1"));
    assert_eq!((cycles, skip), ([Some(nodes("0-1")), Some(nodes("0-1"))], None));
    assert_eq!(joined.map(|cycle| cycle.nodes()), Some(nodes("0-1")));
}

#[test]
fn shared_memory_takes_turns_on_the_nodes_of_all_who_map_it() {
    let processes = [process("0-3", "0-2"), process("2-5", "0-2")];
    let claims = claims(&machine(&[0, 1, 2], &[]), &processes, &interleaved(""));
    let joined = claims.join(&claims.of([0, 1]), None);
    assert_eq!(joined.cycle.map(|cycle| cycle.nodes()), Some(nodes("0-2")));
    assert_eq!(joined.home, nodes("0-2"));
}

#[test]
fn pages_may_leave_a_memory_only_node_that_a_placement_names() {
    let machine = machine(&[0, 1, 2], &[2]);
    let sources = |options: &Options| options.sources(&machine).to_string();
    assert_eq!(sources(&interleaved("")), "0-1");
    assert_eq!(sources(&interleaved("0,2")), "0-2");
    let weights = "0=3,2=1".parse().unwrap();
    let weighted = Options { placement: Placement::Weighted(weights), ..Options::default() };
    assert_eq!(sources(&weighted), "0-2");
}

#[test]
fn what_no_policy_binds_is_exposed_to_balancing() {
    let exposed = |change: fn(Extent) -> Extent| {
        let extents = |claims: &Claims| {
            (0..3).map(|node| change(stripe(claims, node, &[(0, 10), (1, 1)]))).collect()
        };
        let machine = machine(&[0, 1, 2], &[]);
        plan_all(&machine, &[process("0-5", "0-2")], extents, &interleaved("")).exposed_bytes
    };
    assert_eq!(exposed(|extent| extent), 33 * MIB, "what is in its place already, too");
    assert_eq!(exposed(|extent| Extent { policy: Mempolicy::Unasked, ..extent }), 33 * MIB);
    let bound = |extent: Extent| Extent { policy: "bind:0-2".parse().unwrap(), ..extent };
    assert_eq!(exposed(bound), 0);
    assert_eq!(exposed(|extent| Extent { hugetlb_bytes: Some(2 * MIB), ..extent }), 0);
    assert_eq!(exposed(|extent| Extent { stripe: None, ..extent }), 0, "not a wide placement's");
}

#[test]
fn latencies_bound_what_comes_nearer_and_promise_nothing_where_all_nodes_use_it_alike() {
    let machine = machine(&[0, 1], &[]);
    let extents = |claims: &Claims| (0..2).map(|node| stripe(claims, node, &[(0, 10)])).collect();
    let wide = plan_all(&machine, &[process("0-3", "0-1")], extents, &interleaved("")).benefit();
    let wide = wide.expect("it moves");
    assert_eq!((wide.waits.before, wide.max_percent), (wide.waits.after, 0.0));

    let resident = extent(0, &[(0, 30 * MIB), (1, 10 * MIB)]);
    let options = Options::default();
    let home = plan_of(&machine, process("0-1", "0-1"), vec![resident.clone()], &options);
    let home = home.benefit().expect("it moves");
    let [near, far] = [0, 1].map(|node| machine.distance(NodeId(0), NodeId(node)) as f64);
    assert_eq!((home.waits.before, home.waits.after), (far, near));
    let mean = (far + 3.0 * near) / 4.0;
    assert!((home.max_percent - 100.0 * (1.0 - near / mean)).abs() < 1e-9, "{home:?}");
    let there = plan_of(&machine, process("0-3", "0-1"), vec![resident], &options);
    assert_eq!(there.benefit(), None, "nothing moves");
}

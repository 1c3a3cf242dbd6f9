//! Tests which nodes are home.

use crate::{app::Layout, engine::inspect, scene::Scene, truth::node_count};
use numaloc_core::{Node, NodeMemory, Options, Skip, Topology};
use numaloc_host::{Roots, topology};

const MIB: u64 = 1 << 20;

fn is_skipped(layout: Layout) {
    let scene = Scene::of(layout);
    let inspected = inspect(&scene.target(), &Options::default());
    let plan = &inspected.plan;
    assert_eq!(plan.processes[0].skip, Some(Skip::NoTargetNode));
    assert_eq!(plan.processes[0].skip.map(Skip::message), Some("no target node"));
    assert!(plan.is_skipped() && plan.moves.is_empty());
    let outcome = inspected.carry_out(&Default::default(), &Default::default());
    assert_eq!(outcome.account().moved_bytes(), 0);
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}

#[test]
fn a_process_that_may_run_everywhere_is_skipped() {
    is_skipped(Layout::remote(&["anon:16M"]).on(""));
}

#[test]
fn threads_on_all_nodes_are_skipped() {
    assert_eq!(node_count(), 2, "this test is for two nodes");
    is_skipped(Layout::remote(&["anon:16M"]).on("0,1"));
}

/// Asserts that the kernel's lists and hwloc agree, except for the memory that is free or in cache at the moment.
pub fn assert_hwloc_agrees() {
    let roots = Roots::default();
    let still = |node: &Node| {
        let memory = NodeMemory { free_bytes: 0, cache_bytes: 0, ..node.memory.clone() };
        Node { memory, ..node.clone() }
    };
    let told = |topology: Topology| {
        let ids: Vec<_> = topology.ids().iter().collect();
        let pairs = ids.iter().flat_map(|&from| ids.iter().map(move |&to| (from, to)));
        let distances: Vec<_> =
            pairs.map(|(from, to)| (from, to, topology.distance(from, to))).collect();
        (topology.nodes().map(still).collect::<Vec<_>>(), distances)
    };
    let [listed, seen] = [topology::topology(&roots), topology::by_hwloc(&roots)];
    assert_eq!(told(listed.unwrap()), told(seen.unwrap()));
}

#[test]
fn the_kernel_and_hwloc_say_the_same() {
    assert_hwloc_agrees();
}

//! Four nodes in a ring.

use crate::{
    app::Layout,
    engine::inspect,
    scene::{Scene, assert_complete},
    truth::node_count,
};
use numaloc_core::{NodeId, Options};
use std::fs;

const MIB: u64 = 1 << 20;

/// The node of `candidates` that is nearest to `from`, by the kernel's own table.
fn nearest(from: u32, candidates: [u32; 2]) -> u32 {
    let path = format!("/sys/devices/system/node/node{from}/distance");
    let text = fs::read_to_string(path).expect("a row of distances");
    let row: Vec<u32> = text.split_whitespace().map(|word| word.parse().expect("one")).collect();
    let [a, b] = candidates;
    assert_ne!(row[a as usize], row[b as usize], "the test needs nodes at different distances");
    if row[a as usize] < row[b as usize] { a } else { b }
}

#[test]
fn threads_on_two_nodes_get_their_memory_to_the_nearest() {
    assert_eq!(node_count(), 4);
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).on("0,1").memory_on(2));
    let target = nearest(2, [0, 1]);
    let inspected = inspect(&scene.target(), &Options::default());
    let plan = &inspected.plan;
    assert_eq!(plan.processes[0].home.to_string(), "0-1");
    let outcome = crate::engine::migrate(&scene.target(), &Options::default());
    scene.assert_on("anon", target, 32 * MIB);
    scene.assert_on("thp", target, 16 * MIB);
    assert!(outcome.flows[&(NodeId(2), NodeId(target))] >= 48 * MIB, "{outcome:?}");
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn memory_on_either_home_node_stays() {
    assert_eq!(node_count(), 4);
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("0,1").memory_on(1));
    let outcome = crate::engine::migrate(&scene.target(), &Options::default());
    scene.assert_on("anon", 1, 16 * MIB);
    assert!(outcome.account().moved_bytes() < MIB, "{outcome:?}");
    scene.finish();
}

#[test]
fn a_named_set_of_nodes_is_filled_nearest_first() {
    assert_eq!(node_count(), 4);
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("0").memory_on(3));
    let to = Some("1-2".parse().expect("a list"));
    crate::engine::migrate(&scene.target(), &Options { to, ..Options::default() });
    scene.assert_on("anon", nearest(3, [1, 2]), 16 * MIB);
    scene.finish();
}

#[test]
fn a_process_that_may_run_everywhere_is_skipped() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("").memory_on(3));
    assert!(inspect(&scene.target(), &Options::default()).plan.is_skipped());
    scene.assert_on("anon", 3, 16 * MIB);
    scene.finish();
}

#[test]
fn the_kernel_and_hwloc_say_the_same_of_these_nodes() {
    crate::topology::assert_hwloc_agrees();
}

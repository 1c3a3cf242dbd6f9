//! Four nodes at distance 12 with a CPU each, of which 0 and 3 have no memory: a socket in quarters, with DIMMs on two of them.

use crate::{
    app::{App, Layout},
    engine::inspect,
    scene::{SLACK, Scene, assert_complete},
    truth::{Truth, node_count},
};
use numaloc_core::{NodeId, NodeSet, Options};
use numaloc_host::Target;

const MIB: u64 = 1 << 20;

/// The home that a plan has for an application, and what it would move. Pages of files do not count: other processes may have read them
/// first, on other CPUs.
fn planned(app: &App) -> (NodeSet, u64) {
    let options = Options { exclude_file: true, ..Options::default() };
    let plan = inspect(&[Target::Pid(app.pid())], &options).plan;
    (plan.processes[0].home.clone(), plan.planned_bytes())
}

/// Asserts that what the kernel has allocated by default for CPUs of this node is on home nodes.
pub fn assert_fresh_is_home(cpu_node: u32) -> NodeSet {
    let app = Layout::remote(&["anon:32M"]).on(cpu_node.to_string()).fresh().load("idle");
    let mut app = app.start("fresh");
    let nodes = Truth::of(app.pid()).region(app.range("anon"));
    let (home, planned_bytes) = planned(&app);
    println!("CPUs of node {cpu_node}: {nodes:?}, home {home}");
    assert_eq!(nodes.values().sum::<u64>(), 32 * MIB);
    assert!(nodes.keys().all(|&node| home.contains(NodeId(node))), "{nodes:?}, home {home}");
    assert!(planned_bytes < SLACK, "{planned_bytes}");
    app.check();
    home
}

#[test]
fn what_the_kernel_allocates_is_home() {
    assert_eq!(node_count(), 4);
    let homes = [0, 1, 2, 3].map(|node| assert_fresh_is_home(node).to_string());
    assert_eq!(homes, ["1-2", "1", "2", "1-2"]);
}

#[test]
fn memory_comes_home_to_a_node_that_has_some() {
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).on("1").memory_on(2));
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 1, 32 * MIB);
    scene.assert_on("thp", 1, 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn memory_on_either_of_the_nearest_nodes_stays() {
    for node in [1, 2] {
        let scene = Scene::of(Layout::remote(&["anon:16M"]).on("0,3").memory_on(node));
        assert!(inspect(&scene.target(), &Options::default()).plan.is_skipped());
        let outcome = crate::engine::migrate(&scene.target(), &Options::default());
        scene.assert_on("anon", node, 16 * MIB);
        assert_complete(&outcome);
        scene.finish();
    }
}

#[test]
fn the_kernel_and_hwloc_say_the_same_of_these_nodes() {
    crate::topology::assert_hwloc_agrees();
}

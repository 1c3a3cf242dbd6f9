//! Two nodes with CPUs and one of memory only (persistent memory, CXL).

use crate::{
    app::Layout,
    engine::{look, migrate},
    scene::{Scene, assert_complete},
    truth::node_count,
};
use numaloc_core::Options;

const MIB: u64 = 1 << 20;

#[test]
fn memory_comes_home_from_a_node_without_cpus() {
    assert_eq!(node_count(), 3);
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).memory_on(2));
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 0, 32 * MIB);
    scene.assert_on("thp", 0, 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_node_without_cpus_is_never_home() {
    assert_eq!(node_count(), 3);
    // It may run on all CPUs: nodes 0 and 1 are home, and node 2 is remote all the same.
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("").memory_on(2));
    let look = look(&scene.target(), &Options::default());
    let plan = &look.plan;
    assert_eq!(plan.processes[0].home.to_string(), "0-1");
    let outcome = migrate(&scene.target(), &Options::default());
    scene.assert_on("anon", 0, 16 * MIB); // 30 away, node 1 is 40
    assert_complete(&outcome);
    scene.finish();
}

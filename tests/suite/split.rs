//! All CPUs are on node 0, which has no memory; nodes 1 to 3 have memory and no CPUs, as a hypervisor may lay a partition out.

use crate::{
    app::Layout,
    engine::{inspect, migrate},
    nps::assert_fresh_is_home,
    scene::{Scene, assert_complete},
    truth::node_count,
};
use numaloc_core::{Options, Skip};

const MIB: u64 = 1 << 20;

#[test]
fn what_the_kernel_allocates_is_home() {
    assert_eq!(node_count(), 4);
    assert_eq!(assert_fresh_is_home(0).to_string(), "1-3");
}

#[test]
fn equally_near_memory_stays() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).memory_on(2));
    let plan = inspect(&scene.target(), &Options::default()).plan;
    assert_eq!(plan.processes[0].skip, Some(Skip::NoTargetNode), "all memory is home");
    assert_eq!(plan.locality.overall.remote_bytes, 0);
    scene.assert_on("anon", 2, 16 * MIB);
    scene.finish();
}

/// Without `from`: a node is not of another tier for having no CPUs, where none with CPUs has memory.
#[test]
fn memory_goes_to_a_node_that_is_named() {
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).memory_on(1));
    let to = Some("3".parse().expect("a list"));
    let outcome = migrate(&scene.target(), &Options { to, ..Options::default() });
    scene.assert_on("anon", 3, 32 * MIB);
    scene.assert_on("thp", 3, 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn the_kernel_and_hwloc_say_the_same_of_these_nodes() {
    crate::topology::assert_hwloc_agrees();
}

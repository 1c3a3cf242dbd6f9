//! Two sockets, and beside each a node of fast memory: 2 beside 0, and 3 beside 1. From 6.12 on these are in a tier of their own.

use crate::{
    app::Layout,
    cli::{json, numalocctl},
    engine::inspect,
    nps::assert_fresh_is_home,
    scene::{SLACK, Scene, assert_complete, assert_left},
    truth::node_count,
};
use numaloc_core::{NodeId, Options, Reason};

const MIB: u64 = 1 << 20;

#[test]
fn what_the_kernel_allocates_is_home() {
    assert_eq!(node_count(), 4);
    assert_eq!([0, 1].map(|node| assert_fresh_is_home(node).to_string()), ["0", "1"]);
}

#[test]
fn fast_memory_of_the_other_socket_goes_to_that_of_the_own_one() {
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).memory_on(3));
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 2, 32 * MIB);
    scene.assert_on("thp", 2, 16 * MIB);
    assert!(outcome.flows[&(NodeId(3), NodeId(2))] >= 48 * MIB, "{outcome:?}");
    assert_complete(&outcome);
    let again = inspect(&scene.target(), &Options::default()).plan;
    assert!(again.planned_bytes() < SLACK, "{again:?}");
    scene.finish();
}

#[test]
fn fast_memory_of_the_own_socket_stays() {
    let scene = Scene::of(Layout::remote(&["anon:32M"]).memory_on(2));
    let plan = inspect(&scene.target(), &Options::default()).plan;
    let stays = plan.skipped_bytes()[&Reason::OtherTier];
    assert!(stays >= 32 * MIB, "{plan:?}");
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 2, 32 * MIB);
    assert_left(&outcome, Reason::OtherTier, stays);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn nodes_that_are_named_are_emptied() {
    let scene = Scene::of(Layout::remote(&["anon:32M"]).memory_on(3));
    let from = Some("3".parse().expect("a list"));
    let outcome = scene.migrate(&Options { from, ..Options::default() });
    scene.assert_on("anon", 0, 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn the_kernel_and_hwloc_say_the_same_of_these_nodes() {
    crate::topology::assert_hwloc_agrees();
}

#[test]
fn nodes_of_fast_memory_are_named_and_of_a_faster_tier_on_every_kernel() {
    let nodes = json(&numalocctl(&["topology", "-o", "json"]))["topology"]["nodes"].clone();
    let kinds: Vec<_> = (0..4).map(|index| nodes[index]["kind"].clone()).collect();
    assert_eq!(kinds, ["DRAM", "DRAM", "HBM", "HBM"].map(|kind| format!("NODE_KIND_{kind}")));
    let tier = |index: usize| nodes[index]["tier"].as_u64().expect("a tier");
    assert!(tier(2) < tier(0) && tier(2) == tier(3) && tier(0) == tier(1), "{nodes}");
}

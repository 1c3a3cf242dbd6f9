//! Two nodes with CPUs and one with memory only (persistent memory, CXL). On kernel 6.1 all three are in one memory tier. From
//! 6.12 on the third is in a tier of its own.

mod by_use;
mod demoted;
mod drain;

use crate::{
    app::Layout,
    cli::{json, numalocctl},
    engine::{inspect, migrate},
    scene::{SLACK, Scene, assert_complete, assert_left},
    truth::{node_count, release},
};
use numaloc_core::{Options, Reason};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Allows pages to leave all nodes.
fn from_all() -> Options {
    Options { from: Some("0-2".parse().expect("a list")), ..Options::default() }
}

#[test]
fn a_node_of_another_tier_is_left_alone() {
    assert_eq!(node_count(), 3);
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).memory_on(2));
    let plan = inspect(&scene.target(), &Options::default()).plan;
    let stays = plan.skipped_bytes()[&Reason::OtherTier];
    assert!(stays >= 48 * MIB, "said in the plan: {plan:?}");
    let overall = plan.locality.overall;
    assert_eq!(overall.demoted_bytes, stays, "{:?}", plan.locality);
    assert!(overall.remote_bytes < 8 * MIB, "libraries alone: {:?}", plan.locality);
    // Only pages of libraries on node 1 may move.
    assert!(plan.locality.movable.remote_bytes < SLACK, "{:?}", plan.locality);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 2, 32 * MIB);
    scene.assert_on("thp", 2, 16 * MIB);
    assert!(outcome.flows.keys().all(|(from, _)| from.0 != 2), "{outcome:?}");
    assert_left(&outcome, Reason::OtherTier, stays);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_node_that_is_not_named_is_left_alone() {
    assert_eq!(node_count(), 3);
    let scene = Scene::of(Layout::remote(&["anon:32M"]).memory_on(1));
    let from = |list: &str| {
        let nodes = Some(list.parse().expect("a list"));
        scene.migrate(&Options { from: nodes, ..Options::default() })
    };
    let outcome = from("2");
    scene.assert_on("anon", 1, 32 * MIB);
    assert!(outcome.account().left_for(Reason::NodeExcluded) >= 32 * MIB, "{outcome:?}");
    assert_complete(&outcome);
    let outcome = from("1");
    scene.assert_on("anon", 0, 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn memory_comes_home_from_a_node_without_cpus() {
    assert_eq!(node_count(), 3);
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).memory_on(2));
    let outcome = scene.migrate(&from_all());
    scene.assert_on("anon", 0, 32 * MIB);
    scene.assert_on("thp", 0, 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_node_without_cpus_is_never_home() {
    assert_eq!(node_count(), 3);
    // It may run on all CPUs, so nodes 0 and 1 are home. Node 2 is remote all the same.
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("").memory_on(2));
    let inspected = inspect(&scene.target(), &from_all());
    let plan = &inspected.plan;
    assert_eq!(plan.processes[0].home.to_string(), "0-1");
    let outcome = migrate(&scene.target(), &from_all());
    scene.assert_on("anon", 0, 16 * MIB); // node 0 is at distance 30, node 1 at 40
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn the_kernel_and_hwloc_say_the_same_of_these_nodes() {
    crate::topology::assert_hwloc_agrees();
}

/// The emulator's table says what memory of the third node costs (tests/vm/run).
#[test]
fn the_firmware_says_what_memory_costs() {
    let output = numalocctl(&["bench", "--size", "2M", "--seconds", "100ms", "-o", "json"]);
    let document = json(&output);
    let pairs = document["pairs"].as_array().expect("a list");
    let nodes = |pair: &Value| (pair["cpu_node"].as_u64(), pair["memory_node"].as_u64());
    assert_eq!(pairs.len(), 6, "the third node has no CPUs: {document}");
    let far = pairs.iter().find(|pair| nodes(pair) == (Some(0), Some(2))).expect("measured");
    for (field, expected) in [
        ("firmware_latency_ns", 300),
        ("firmware_write_latency_ns", 500),
        ("firmware_read_bandwidth_bytes_per_second", 2000 << 20),
        ("firmware_write_bandwidth_bytes_per_second", 800 << 20),
        ("firmware_bandwidth_bytes_per_second", 800u64 << 20),
    ] {
        assert_eq!(far[field], expected, "{field}: {document}");
    }
    for pair in pairs {
        for field in ["bandwidth_bytes_per_second", "write_bandwidth_bytes_per_second"] {
            assert!(pair[field].as_u64().is_some_and(|rate| rate > 0), "{field}: {pair}");
        }
    }
}

/// Linux 6.1 has all nodes in one tier; there the firmware's table decides.
#[test]
fn the_third_node_is_of_a_slower_tier_on_every_kernel() {
    let nodes = json(&numalocctl(&["topology", "-o", "json"]))["topology"]["nodes"].clone();
    let node = |index: usize| &nodes[index];
    let source = if release().starts_with("6.1.") { "HMAT" } else { "KERNEL" };
    for (index, kind) in ["DRAM", "DRAM", "MEMORY_ONLY"].into_iter().enumerate() {
        assert_eq!(node(index)["kind"], format!("NODE_KIND_{kind}"), "{nodes}");
        assert_eq!(node(index)["tier_source"], format!("TIER_SOURCE_{source}"), "{nodes}");
    }
    let tier = |index| node(index)["tier"].as_u64().expect("a tier");
    assert_eq!(tier(0), tier(1), "{nodes}");
    assert!(tier(2) > tier(0), "{nodes}");
}

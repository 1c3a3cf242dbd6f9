//! A node for each L3 cache, two to a socket: neighbours are at distance 11, the others at 32.

use crate::{
    app::Layout,
    cli::{code, numalocctl},
    engine::inspect,
    nps::assert_fresh_is_home,
    scene::{SLACK, Scene, assert_complete},
    truth::{node_count, on},
};
use numaloc_core::{HomeRule, Options};

const MIB: u64 = 1 << 20;

#[test]
fn what_the_kernel_allocates_is_home() {
    assert_eq!(node_count(), 4);
    let homes = [0, 1, 2, 3].map(|node| assert_fresh_is_home(node).to_string());
    assert_eq!(homes, ["0", "1", "2", "3"]);
}

#[test]
fn near_memory_stays_if_that_is_asked_for() {
    let near = Options { home: HomeRule::Near, ..Options::default() };
    let scene = Scene::of(Layout::remote(&["anon:16M"]).memory_on(1));
    let plan = inspect(&scene.target(), &near).plan;
    assert_eq!(plan.processes[0].home.to_string(), "0-1");
    assert!(plan.planned_bytes() < SLACK, "{plan:?}");
    scene.assert_on("anon", 1, 16 * MIB);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 0, 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn far_memory_comes_to_the_own_socket() {
    let scene = Scene::of(Layout::remote(&["anon:32M"]).memory_on(2));
    let pid = scene.app.pid().to_string();
    let output = numalocctl(&["migrate", "--pid", &pid, "--home", "near"]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let nodes = scene.nodes("anon");
    assert_eq!(on(&nodes, 0) + on(&nodes, 1), 32 * MIB, "{nodes:?}");
    scene.finish();
}

/// Memory of node 2 is at distance 32 from node 0, that of node 1 at 11.
#[test]
fn near_memory_is_an_amount_of_its_own() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).memory_on(1));
    let pid = scene.app.pid().to_string();
    let output = numalocctl(&["locality", "--pid", &pid, "-o", "json"]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let share = &answer["locality"]["total"]["movable"];
    let bytes = |name: &str| share[name].as_u64().unwrap_or(0);
    assert!(
        bytes("near_bytes") >= 16 * MIB && bytes("near_bytes") <= bytes("remote_bytes"),
        "{answer:#}"
    );
    let text = numalocctl(&["locality", "--pid", &pid]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("NEAR %"), "{text:?}");
    scene.finish();
}

/// Node 0 is full of memory that cannot be dropped.
#[test]
fn what_finds_no_room_at_home_goes_to_the_neighbour() {
    let _full = crate::exchange::fill_home();
    let scene = Scene::of(Layout::remote(&["anon:32M"]).memory_on(2));
    let outcome = scene.migrate(&Options::default());
    let nodes = scene.nodes("anon");
    assert!(
        on(&nodes, 1) + on(&nodes, 0) == 32 * MIB && on(&nodes, 1) > 0,
        "{nodes:?}: {outcome:?}"
    );
    let account = outcome.account();
    assert!(account.nearer_bytes() >= on(&nodes, 1) - SLACK, "{account:?}");
    scene.finish();
}

#[test]
fn the_kernel_and_hwloc_say_the_same_of_these_nodes() {
    crate::topology::assert_hwloc_agrees();
}

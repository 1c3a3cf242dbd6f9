//! Servers that fork: processes that the target's cgroup gets while its memory is moved.

use crate::{
    app::{App, Layout, until},
    cli::{code, command, numalocctl},
    place::{away, home},
    scene::Scene,
    settings::{Cgroup, Setting},
    truth::{Nodes, Truth, off, on},
};
use std::fs;

const MIB: u64 = 1 << 20;

/// Has `app` fork a child each 60 ms that reads all of a region and ends 150 ms later.
pub fn churn(app: &mut App, region: &str) {
    assert_eq!(app.ask(&format!("churn {region} 60 150")), format!("churning {region}"));
}

/// Asserts that at most 1 % of a region's `bytes` is not on the home node.
pub fn assert_nearly_home(nodes: &Nodes, bytes: u64, what: &impl std::fmt::Debug) {
    assert_eq!(nodes.values().sum::<u64>(), bytes, "{nodes:?}");
    assert!(off(nodes, home()) <= bytes / 100, "{nodes:?}: {what:?}");
}

#[test]
fn what_its_children_map_comes_home_too() {
    let cgroup = Cgroup::new("forks");
    let mut scene = Scene::of(
        Layout::remote(&["memfd:64M", "anon:16M:cold"]).load("idle").within(cgroup.path()),
    );
    churn(&mut scene.app, "memfd");
    let output = numalocctl(&["migrate", "--cgroup", "/numaloc-forks"]);
    assert_nearly_home(&scene.nodes("memfd"), 64 * MIB, &output);
    assert_nearly_home(&scene.nodes("anon"), 16 * MIB, &output);
    assert_eq!(code(&output), Some(0), "{output:?}");
    drop(scene.finish());
}

#[test]
fn what_a_stranger_maps_stays_however_often_the_target_forks() {
    const FILE: &str = "/dev/shm/forks-stranger";
    let _balancing = Setting::numa_balancing(false);
    let cgroup = Cgroup::new("forks-stranger");
    let segment = format!("segment=file:{FILE}:16M");
    let layout = Layout::remote(&[&segment]).load("idle");
    let stranger = layout.start("stranger");
    let mut app = layout.within(cgroup.path()).start("server");
    churn(&mut app, "segment");
    let output = numalocctl(&["migrate", "--cgroup", "/numaloc-forks-stranger"]);
    let nodes = Truth::of(stranger.pid()).region(stranger.range("segment"));
    assert_eq!(nodes, [(away(), 16 * MIB)].into(), "{output:?}");
    // The server's own pages become private or shared with each child, so a few may stay: the last look then finds them.
    let stayed = String::from_utf8_lossy(&output.stdout).contains("that can be moved now");
    assert_eq!(code(&output), Some(if stayed { 6 } else { 0 }), "{output:?}");
    drop((app, stranger));
    fs::remove_file(FILE).expect("it is there");
}

/// Two processes share a segment. The one through which its pages are found is killed in the middle of the run.
#[test]
fn a_segment_outlives_the_process_through_which_it_was_found() {
    const FILE: &str = "/dev/shm/forks-killed";
    let _balancing = Setting::numa_balancing(false);
    let segment = format!("segment=file:{FILE}:64M");
    let layout = Layout::remote(&[&segment]).load("idle");
    let mut apps = [layout.start("one"), layout.start("other")];
    apps.sort_by_key(App::pid);
    let [mut first, mut second] = apps;
    let at_home = |app: &App| on(&Truth::of(app.pid()).region(app.range("segment")), home());
    let pids = [&first, &second].map(|app| format!("--pid={}", app.pid()));
    // One window of many small calls.
    let mut migration = command()
        .args(["migrate", "--profile", "fast", "--workers", "1", "--max-stall", "1ms"])
        .args(&pids)
        .spawn()
        .expect("it starts");
    until("something has moved", || at_home(&second) > 4 * MIB);
    first.kill();
    assert!(at_home(&second) < 60 * MIB, "it was over before its middle");
    let status = migration.wait().expect("it ends");
    assert_eq!(at_home(&second), 64 * MIB);
    assert_eq!(status.code(), Some(0));
    second.check();
    drop((first, second));
    fs::remove_file(FILE).expect("it is there");
}

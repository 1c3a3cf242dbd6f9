//! Shared memory that one process maps.

use crate::{
    app::Layout,
    engine::{inspect, inspect_again},
    scene::{Scene, assert_complete},
    settings::Setting,
};
use numaloc_core::Options;
use numaloc_executor::{Control, RunLimits};
use numaloc_host::Target;
use std::fs;

const MIB: u64 = 1 << 20;

#[test]
fn shared_anonymous_memory_comes_home() {
    let scene = Scene::remote(&["shm:32M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("shm", 0, 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn memfd_comes_home() {
    let scene = Scene::remote(&["memfd:32M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("memfd", 0, 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn what_a_stranger_leaves_behind_is_late() {
    const FILE: &str = "/dev/shm/left-behind";
    let _balancing = Setting::numa_balancing(false);
    let segment = format!("segment=file:{FILE}:16M");
    let mut stranger = Layout::remote(&[&segment]).load("idle").start("stranger");
    let mut app = Layout::remote(&[&segment, "anon:16M"]).load("idle").start("target");
    stranger.check();
    app.check();
    let target = [Target::Pid(app.pid())];
    let before = inspect(&target, &Options::default());
    let limits = RunLimits { duty_percent: Some(100), ..RunLimits::default() };
    let account = before.carry_out(&limits, &Control::default()).account();
    let after = || inspect_again(&before, &target).plan.locality;
    assert_eq!(account.late_bytes(&after(), 100), 0, "{account:?}");
    drop(stranger);
    fs::remove_file(FILE).expect("it is there");
    let late = account.late_bytes(&after(), 100);
    // The stranger mapped the program file too.
    assert!((16 * MIB..20 * MIB).contains(&late), "{late} of {account:?}");
    assert!(!account.is_partial(), "it was the stranger's, too");
}

//! System V segments: their ids are those of an IPC namespace, and the first id of each is 0.

use crate::{
    app::{App, Layout},
    engine::{inspect, migrate},
    place::{away, home},
    scene::SLACK,
    settings::Setting,
    truth::Truth,
};
use numaloc_core::{Options, Reason};
use numaloc_host::Target;
use std::fs;

const MIB: u64 = 1 << 20;

fn target(app: &App) -> Target {
    Target::Pid(app.pid())
}

/// The ids of an application's segments, which /proc/PID/maps shows as inodes.
fn ids(app: &App) -> Vec<u64> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", app.pid())).expect("its maps");
    let lines = maps.lines().filter(|line| line.contains(" /SYSV"));
    let mut ids: Vec<u64> = lines
        .map(|line| line.split_whitespace().nth(4).and_then(|id| id.parse().ok()).expect("an id"))
        .collect();
    ids.sort();
    ids
}

fn nodes(app: &App, region: &str) -> crate::truth::Nodes {
    Truth::of(app.pid()).region(app.range(region))
}

#[test]
fn segments_of_two_namespaces_go_to_two_homes() {
    let _balancing = Setting::numa_balancing(false);
    let layout =
        Layout::remote(&["zero=sysv:new:16M", "one=sysv:new:32M"]).load("idle").in_new_ipc();
    let mut first = layout.start("first");
    let mut second = layout.on(away()).memory_on(home()).start("second");
    assert_eq!((ids(&first), ids(&second)), (vec![0, 1], vec![0, 1]), "ids are equal");
    let targets = [target(&first), target(&second)];
    let remote = inspect(&targets, &Options::default()).plan.locality.overall.remote_bytes;
    assert!((96 * MIB..100 * MIB).contains(&remote), "{remote} bytes are remote");
    let outcome = migrate(&targets, &Options::default());
    for (app, home) in [(&first, home()), (&second, away())] {
        assert_eq!(nodes(app, "zero"), [(home, 16 * MIB)].into(), "{outcome:?}");
        assert_eq!(nodes(app, "one"), [(home, 32 * MIB)].into(), "{outcome:?}");
    }
    first.check();
    second.check();
}

/// Two processes that have the segment 0 at different addresses.
fn sharers() -> [App; 2] {
    let region =
        |id: &str, number, at: &str| format!("segment=sysv:{id}:32M:stripe={number}/2:at={at}");
    let layout = |region: &str| Layout::remote(&[region]).load("idle");
    let first = layout(&region("new", 0, "c000000000")).in_new_ipc().start("first");
    let second = layout(&region("0", 1, "d000000000")).in_ipc_of(&first).start("second");
    assert_eq!((ids(&first), ids(&second)), (vec![0], vec![0]));
    [first, second]
}

#[test]
fn segment_0_of_two_processes_comes_home_once() {
    let _balancing = Setting::numa_balancing(false);
    let mut apps = sharers();
    let outcome = migrate(&apps.each_ref().map(target), &Options::default());
    for app in &mut apps {
        assert_eq!(nodes(app, "segment"), [(home(), 32 * MIB)].into(), "{outcome:?}");
        app.check();
    }
    let moved = outcome.account().moved_bytes();
    assert!((32 * MIB..32 * MIB + 8 * SLACK).contains(&moved), "{outcome:?}");
    assert_eq!(outcome.account().shortfall_bytes(), 0, "{outcome:?}");
}

#[test]
fn segment_0_stays_if_one_of_two_processes_is_the_target() {
    let _balancing = Setting::numa_balancing(false);
    let mut apps = sharers();
    let outcome = migrate(&[target(&apps[0])], &Options::default());
    for app in &mut apps {
        assert_eq!(nodes(app, "segment"), [(away(), 32 * MIB)].into(), "{outcome:?}");
        app.check();
    }
    assert!(outcome.account().left_for(Reason::Shared) >= 32 * MIB, "{outcome:?}");
}

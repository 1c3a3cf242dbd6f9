//! Pages that KSM has merged: one frame at several addresses, counted once, and moved only if that is allowed for shared memory.

use crate::{
    app::{App, Layout, until},
    cli::{json, located, numalocctl},
    engine::{inspect, migrate},
    place::{away, home},
    scene::SLACK,
    settings::Setting,
    truth::{Truth, on},
};
use numaloc_core::{Options, Reason, page_size};
use numaloc_executor::Outcome;
use numaloc_host::Target;
use std::fs;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 8 * MIB;
const KSM: &str = "/sys/kernel/mm/ksm";

fn counter(name: &str) -> u64 {
    let text = fs::read_to_string(format!("{KSM}/{name}")).expect("Debian's kernels have KSM");
    text.trim().parse().expect("a number")
}

/// KSM that runs until all pages with a double are merged, and then stops, with what it has merged kept.
struct Merging(Vec<Setting>);

impl Merging {
    /// Waits until `pages` frames stand for twice their number of pages.
    fn all(pages: u64) -> Self {
        assert_eq!(counter("pages_shared"), 0, "nothing is left of another test");
        let set = |name: &str, value: &str| Setting::set(format!("{KSM}/{name}"), value);
        let mut settings = vec![set("sleep_millisecs", "1"), set("pages_to_scan", "4096")];
        let run = set("run", "1");
        until("all pages are merged", || counter("pages_sharing") >= pages);
        fs::write(format!("{KSM}/run"), "0").expect("root");
        settings.insert(0, run);
        Self(settings)
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        // Unmerges, for the next test. `run` is set back before the other settings are.
        fs::write(format!("{KSM}/run"), "2").ok();
        self.0.drain(..).for_each(drop);
    }
}

fn owner(name: &str, regions: &[&str]) -> App {
    Layout::remote(regions).load("idle").start(name)
}

fn nodes_of(app: &App, region: &str) -> [u64; 2] {
    let nodes = Truth::of(app.pid()).region(app.range(region));
    [on(&nodes, home()), on(&nodes, away())]
}

/// All resident bytes of a process as `locality` counts them.
fn counted_bytes(app: &App) -> u64 {
    let pid = app.pid().to_string();
    let output = numalocctl(&["locality", "--pid", &pid, "-o", "json", "--standalone"]);
    located(&json(&output)).values().sum()
}

fn options(include_shared: bool) -> Options {
    Options { include_shared, exclude_file: true, ..Options::default() }
}

/// Remote bytes of a process that stay because strangers map them, too: before anything is merged, of the program and
/// of what it was started with. How many of these are remote depends on the tests before.
fn shared_bytes(app: &App) -> u64 {
    let plan = inspect(&[Target::Pid(app.pid())], &options(false)).plan;
    let skipped = plan.skipped.iter().filter(|skipped| skipped.reason == Reason::Shared);
    let moves = plan.moves.iter().map(|planned| planned.shared_bytes);
    moves.chain(skipped.map(|skipped| skipped.remote_bytes)).sum()
}

/// Asserts that one region more than `before` stays as shared, and not each address of it.
fn assert_one_region(outcome: &Outcome, before: u64) {
    let left = outcome.account().left_for(Reason::Shared);
    assert!(left.abs_diff(before + SIZE) <= SLACK, "{before} before: {outcome:?}");
}

#[test]
fn a_merged_page_counts_once_and_moves_once() {
    let _balancing = Setting::numa_balancing(false);
    let mut app = owner("merged", &["one=merge:8M:cold", "other=merge:8M:cold"]);
    let (before, shared) = (counted_bytes(&app), shared_bytes(&app));
    let _merging = Merging::all(SIZE / page_size());
    for region in ["one", "other"] {
        assert_eq!(nodes_of(&app, region), [0, SIZE], "numa_maps counts each address");
    }
    let merged = counted_bytes(&app);
    assert!(before.abs_diff(merged + SIZE) <= SLACK, "{before} before, {merged} merged");

    let outcome = migrate(&[Target::Pid(app.pid())], &options(false));
    assert_one_region(&outcome, shared);
    assert_eq!(nodes_of(&app, "one"), [0, SIZE]);

    let outcome = migrate(&[Target::Pid(app.pid())], &options(true));
    let account = outcome.account();
    assert!(account.closes() && account.moved_bytes().abs_diff(SIZE) <= SLACK, "{outcome:?}");
    for region in ["one", "other"] {
        assert_eq!(nodes_of(&app, region), [SIZE, 0], "one frame at both addresses");
    }
    app.check();
}

#[test]
fn pages_that_are_merged_with_a_strangers_stay() {
    let _balancing = Setting::numa_balancing(false);
    let mut app = owner("merged", &["same=merge:8M:cold", "own=anon:8M:cold"]);
    let mut stranger = owner("stranger", &["same=merge:8M:cold"]);
    let shared = shared_bytes(&app);
    let _merging = Merging::all(SIZE / page_size());
    let outcome = migrate(&[Target::Pid(app.pid())], &options(false));
    assert!(outcome.account().closes(), "{outcome:?}");
    assert_one_region(&outcome, shared);
    assert_eq!(nodes_of(&app, "own"), [SIZE, 0]);
    for process in [&app, &stranger] {
        assert_eq!(nodes_of(process, "same"), [0, SIZE]);
    }
    let targets = [&app, &stranger].map(|app| Target::Pid(app.pid()));
    let outcome = migrate(&targets, &options(true));
    assert!(outcome.account().closes(), "{outcome:?}");
    for process in [&app, &stranger] {
        assert_eq!(nodes_of(process, "same"), [SIZE, 0]);
    }
    app.check();
    stranger.check();
}

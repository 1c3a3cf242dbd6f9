//! Four nodes in a ring.

use crate::{
    app::{App, Layout},
    engine::{self, inspect},
    exchange::{assert_into_free, fill},
    scene::{SLACK, Scene, assert_complete},
    settings::{HUGETLB_BYTES, Setting},
    spread::{
        assert_spread,
        portions::{assert_blocks, assert_shares, placed_by},
    },
    truth::{Truth, node_count, off, on, unused_bytes},
};
use numaloc_core::{
    MakeRoom, NodeId, Options,
    pace::{Pacing, Profile},
    page_size, pmd_size,
};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::Target;
use std::fs;

const MIB: u64 = 1 << 20;

/// The node of `candidates` that is nearest to `from`, by the kernel's own table.
fn nearest(from: u32, candidates: [u32; 2]) -> u32 {
    let path = format!("/sys/devices/system/node/node{from}/distance");
    let text = fs::read_to_string(path).expect("a row of distances");
    let row: Vec<u32> = text.split_whitespace().map(|word| word.parse().expect("one")).collect();
    let [a, b] = candidates;
    assert_ne!(row[a as usize], row[b as usize], "the test needs nodes at different distances");
    if row[a as usize] < row[b as usize] { a } else { b }
}

#[test]
fn threads_on_two_nodes_get_their_memory_to_the_nearest() {
    assert_eq!(node_count(), 4);
    let scene = Scene::of(Layout::remote(&["anon:32M", "thp:16M"]).on("0,1").memory_on(2));
    let target = nearest(2, [0, 1]);
    let inspected = inspect(&scene.target(), &Options::default());
    let plan = &inspected.plan;
    assert_eq!(plan.processes[0].home.to_string(), "0-1");
    let outcome = crate::engine::migrate(&scene.target(), &Options::default());
    scene.assert_on("anon", target, 32 * MIB);
    scene.assert_on("thp", target, 16 * MIB);
    assert!(outcome.flows[&(NodeId(2), NodeId(target))] >= 48 * MIB, "{outcome:?}");
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn memory_on_either_home_node_stays() {
    assert_eq!(node_count(), 4);
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("0,1").memory_on(1));
    let outcome = crate::engine::migrate(&scene.target(), &Options::default());
    scene.assert_on("anon", 1, 16 * MIB);
    assert!(outcome.account().moved_bytes() < MIB, "{outcome:?}");
    scene.finish();
}

#[test]
fn a_named_set_of_nodes_is_filled_nearest_first() {
    assert_eq!(node_count(), 4);
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("0").memory_on(3));
    let to = Some("1-2".parse().expect("a list"));
    crate::engine::migrate(&scene.target(), &Options { to, ..Options::default() });
    scene.assert_on("anon", nearest(3, [1, 2]), 16 * MIB);
    scene.finish();
}

#[test]
fn a_process_that_may_run_everywhere_is_skipped() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("").memory_on(3));
    assert!(inspect(&scene.target(), &Options::default()).plan.is_skipped());
    scene.assert_on("anon", 3, 16 * MIB);
    scene.finish();
}

#[test]
fn memory_is_spread_over_nodes_that_are_named() {
    let _pools = (0..4).map(|node| Setting::huge_pool(node, 16)).collect::<Vec<_>>();
    let scene = Scene::of(
        Layout::remote(&["anon:24M", "thp:24M", "hugetlb:16M", "shm:16M"]).on("0,3").memory_on(2),
    );
    let regions = [
        ("anon", page_size()),
        ("thp", pmd_size()),
        ("hugetlb", HUGETLB_BYTES),
        ("shm", page_size()),
    ];
    let settle = |placement: &str| {
        let options = placed_by(placement);
        let outcome = engine::migrate(&scene.target(), &options);
        assert_complete(&outcome);
        assert!(inspect(&scene.target(), &options).plan.planned_bytes() < SLACK, "{placement}");
    };
    for (placement, turns) in [
        ("interleave:0-3", &[0, 1, 2, 3][..]),
        ("interleave:0,3", &[0, 3]),
        ("weighted:0=1,1=3,3=2", &[0, 1, 1, 1, 3, 3]),
    ] {
        settle(placement);
        for (region, bytes) in regions {
            assert_spread(&scene.app, region, bytes, turns);
        }
    }
    settle("block:0,2,3");
    for (region, _) in regions {
        assert_blocks(&scene.app, region, &[0, 2, 3]);
    }
    scene.finish();
}

#[test]
fn large_memory_is_balanced_over_nodes_that_are_named() {
    let mut app = Layout::remote(&["anon:96M", "memfd:96M"]).on("0,3").memory_on(1).start("app");
    let target = [Target::Pid(app.pid())];
    let outcome = engine::migrate(&target, &placed_by("balance:0=1,1=1,3=2"));
    for region in ["anon", "memfd"] {
        assert_shares(&app, region, &[1, 1, 0, 2]);
    }
    assert_complete(&outcome);
    let moved = outcome.account().moved_bytes();
    assert!(moved <= 2 * 72 * MIB * 101 / 100 + SLACK, "{moved}");
    app.check();
}

#[test]
fn a_long_fast_run_tries_a_further_worker_where_a_cpu_is_idle() {
    const BYTES: u64 = 320 * MIB;
    let mut app = Layout::remote(&["anon:320M"]).on("0").memory_on(2).start("app");
    let target = [Target::Pid(app.pid())];
    // Small calls: a run of this size is long then.
    let limits = RunLimits { batch_bytes: Some(2 * MIB), ..RunLimits::default() };
    let mut workers_of_move_to = |node: u32, workers| {
        let pacing = Pacing { profile: Profile::Fast, workers, ..Pacing::default() };
        let to = Some([NodeId(node)].into_iter().collect());
        let inspected = inspect(&target, &Options { pacing, to, ..Options::default() });
        let outcome = inspected.carry_out(&limits, &Control::default());
        assert_complete(&outcome);
        let nodes = Truth::of(app.pid()).region(app.range("anon"));
        assert!(on(&nodes, node) >= BYTES, "{nodes:?}");
        app.check();
        outcome.calls.workers
    };
    // The emulated CPUs share two real ones, so others may seem to keep one busy.
    let tried = (0..10).any(|_| {
        let home = workers_of_move_to(0, None);
        assert!((2..=3).contains(&home), "three CPUs are free, this process had {home} workers");
        assert_eq!(workers_of_move_to(2, None), 2, "the node has no more CPUs");
        home == 3
    });
    assert!(tried, "no third worker was ever tried");
    assert_eq!(workers_of_move_to(0, Some(2)), 2, "the number that was asked for");
}

/// An application with 48 MiB on node 2 and its CPUs on this one.
fn far(home: u32) -> App {
    let layout = Layout::remote(&["anon:48M"]).on(home.to_string()).memory_on(2);
    layout.load("idle").start("far")
}

/// Best-effort work with 96 MiB on a node, which may run everywhere.
fn best_effort(node: u32) -> App {
    Layout::remote(&["anon:96M"]).on("").memory_on(node).load("idle").start("be")
}

#[test]
fn room_is_made_on_two_full_nodes_in_turns() {
    const RESERVE: u64 = 32 * MIB;
    let _settings = Setting::still_host();
    let (mut apps, others) = ([0, 1].map(far), [0, 1].map(best_effort));
    let ballast = [0, 1].map(|node| fill(node, RESERVE + 2 * MIB));
    let unused = [0, 1].map(|node| unused_bytes(node) - RESERVE);
    let target = |app: &App| Target::Pid(app.pid());
    let (make_room, reserve_bytes) = (MakeRoom::Exchange, Some(RESERVE));
    let options = Options { make_room, reserve_bytes, ..Options::default() };
    let inspected = inspect(&apps.each_ref().map(target), &options);
    let limits = RunLimits { duty_percent: Some(100), ..RunLimits::default() };
    let partners = others.each_ref().map(target);
    let (outcome, runs) = engine::exchange(&inspected, &partners, &limits, &Control::default());
    for (home, app) in (0..).zip(&mut apps) {
        let nodes = Truth::of(app.pid()).region(app.range("anon"));
        assert_eq!(nodes, [(home, 48 * MIB)].into(), "{outcome:?} {runs:?}");
        app.check();
    }
    assert_complete(&outcome);
    for ((home, mut other), unused) in (0..).zip(others).zip(unused) {
        let nodes = Truth::of(other.pid()).region(other.range("anon"));
        let there = off(&nodes, home);
        assert!(there > 0 && there + on(&nodes, home) == 96 * MIB, "{nodes:?} {runs:?}");
        assert_into_free((48 * MIB).saturating_sub(there), home, unused);
        let of_it = runs.iter().flat_map(|run| &run.processes);
        let of_it = of_it.filter(|process| process.identity.pid == other.pid());
        let moved: u64 = of_it.map(|process| process.account.moved_bytes()).sum();
        assert!(moved.abs_diff(there) <= SLACK, "{nodes:?} {runs:?}");
        other.check();
    }
    drop(ballast);
}

#[test]
fn the_kernel_and_hwloc_say_the_same_of_these_nodes() {
    crate::topology::assert_hwloc_agrees();
}

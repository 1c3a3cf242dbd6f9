//! A target full of page cache, and what else happens there: swap, memory that is bound to it, runs that end or that meet.

use super::*;
use crate::{
    app::until,
    cli,
    disk::Swap,
    engine::{inspect, migrate},
};
use numaloc_core::{Pacing, Profile};
use numaloc_executor::{Control, RunLimits, SharedRooms};
use std::{sync::Arc, thread};

#[test]
fn with_swap_nothing_is_swapped_out() {
    let swap = Swap::on(128);
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast) = full(320);
    let before = distress();
    let outcome = scene.migrate(&Options::default());
    assert_eq!(distress(), before, "{DISTRESS:?} {outcome:?}");
    assert_complete(&outcome);
    scene.assert_on("anon", 0, SIZE);
    ballast.check();
    drop((ballast, file, swap));
    scene.finish();
}

#[test]
fn memory_that_is_bound_to_the_node_finds_room_meanwhile() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast) = full(320);
    let before = distress();
    // It allocates while the other memory moves: which of both is first does not matter.
    let mut bound = Layout::remote(&["anon:48M"]).memory_on(0).load("idle").spawn("bound");
    let outcome = scene.migrate(&Options::default());
    bound.ready();
    bound.check();
    assert_eq!(distress(), before, "{DISTRESS:?} {outcome:?}");
    let nodes = scene.nodes("anon");
    assert_eq!(on(&nodes, 0) + on(&nodes, 1), SIZE);
    assert!(on(&nodes, 0) > SIZE / 2, "{nodes:?} {outcome:?}");
    ballast.check();
    drop((bound, ballast, file));
    scene.finish();
}

#[test]
fn a_run_that_is_killed_leaves_nothing_behind() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast) = full(320);
    // The spare memory of the node besides memory in use, wherever the target's pages are.
    let spare = || {
        let spare =
            free_bytes(0) + node_bytes(0, "Inactive(file):") + node_bytes(0, "Active(file):");
        spare + on(&scene.nodes("anon"), 0)
    };
    let before = (spare(), distress());
    let pid = scene.app.pid().to_string();
    let mut run = cli::command();
    run.args(["migrate", "--rate", "32M", "--pid", &pid]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    until("it moves", || on(&scene.nodes("anon"), 0) > SIZE / 8);
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    let nodes = scene.nodes("anon");
    assert_eq!(on(&nodes, 0) + on(&nodes, 1), SIZE, "nothing is lost");
    assert!(on(&nodes, 1) > 0, "it was killed in its middle");
    let after = (spare(), distress());
    assert!(after.0 + 32 * MIB > before.0, "{before:?} and then {after:?}");
    assert_eq!(after.1, before.1, "{DISTRESS:?}");
    let rest = scene.migrate(&Options::default());
    assert_complete(&rest);
    scene.assert_on("anon", 0, SIZE);
    ballast.check();
    drop((ballast, file));
    scene.finish();
}

/// Two runs of 96 MiB into the same node at the same time. They know of each other if they share `rooms`.
fn two_runs(rooms: Option<Arc<SharedRooms>>) {
    let scenes = [(); 2].map(|()| Scene::remote(&["anon:96M"]));
    let (file, mut ballast) = full(360);
    let before = distress();
    let targets = scenes.each_ref().map(Scene::target);
    let limits = RunLimits { duty_percent: Some(100), rooms, ..RunLimits::default() };
    let outcomes = thread::scope(|scope| {
        let runs = targets.each_ref().map(|target| {
            let limits = &limits;
            scope.spawn(move || {
                inspect(target, &Options::default()).carry_out(limits, &Control::default())
            })
        });
        runs.map(|run| run.join().expect("it does not panic"))
    });
    assert_eq!(distress(), before, "{DISTRESS:?} {outcomes:?}");
    for (scene, outcome) in scenes.iter().zip(&outcomes) {
        scene.assert_on("anon", 0, 96 * MIB);
        assert_complete(outcome);
    }
    ballast.check();
    drop((ballast, file));
    // The one that came last puts its settings back first.
    scenes.into_iter().rev().for_each(|scene| drop(scene.finish()));
}

#[test]
fn two_runs_of_one_daemon_share_the_room() {
    two_runs(Some(Arc::default()));
}

#[test]
fn two_runs_that_do_not_know_of_each_other_both_arrive() {
    two_runs(None);
}

#[test]
fn a_gentle_run_drops_cache_slowly() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast) = full(320);
    let pacing = Pacing { profile: Profile::Gentle, ..Pacing::default() };
    let bound = pacing.pace().drop_bytes_per_second.expect("gentle has one");
    let outcome = migrate(&scene.target(), &Options { pacing, ..Options::default() });
    let dropped = outcome.calls.cache_bytes;
    assert!(dropped > 0, "{outcome:?}");
    // Never faster than the bound, counted from the first byte that came in place of cache; a slow machine may take longer.
    let most = bound as f64 * outcome.elapsed.as_secs_f64() + 4.0 * MIB as f64;
    assert!(dropped as f64 <= most, "{dropped} dropped in {:?}", outcome.elapsed);
    ballast.check();
    drop((ballast, file));
    scene.finish();
}

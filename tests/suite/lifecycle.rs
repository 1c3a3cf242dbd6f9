//! Targets that do not hold still, and migrations that do not come to their end.

use crate::{
    app::{App, until},
    engine::look,
    scene::{SLACK, Scene, assert_complete},
    truth::{off, on},
};
use numaloc_core::{Options, Reason};
use numaloc_executor::{Control, Limits, Outcome};
use std::{sync::atomic::Ordering::Relaxed, thread, time::Duration};

const MIB: u64 = 1 << 20;

/// Small batches, so that there is a middle.
fn small() -> Limits {
    Limits { batch_bytes: Some(256 << 10), workers: Some(1), ..Limits::default() }
}

/// Migrates, and acts as soon as something has moved.
fn in_the_middle(scene: &mut Scene, act: impl FnOnce(&mut App, &Control)) -> Outcome {
    let (look, control) = (look(&scene.target(), &Options::default()), Control::default());
    thread::scope(|scope| {
        let run = scope.spawn(|| look.carry_out(&small(), &control));
        until("something has moved", || control.moved_bytes.load(Relaxed) > 0 || run.is_finished());
        assert!(!run.is_finished(), "it was over before its middle");
        act(&mut scene.app, &control);
        run.join().expect("the migration ends")
    })
}

#[test]
fn a_target_that_exits_is_left() {
    let mut scene = Scene::remote(&["anon:128M"]);
    let outcome = in_the_middle(&mut scene, |app, _| app.kill());
    let account = outcome.account();
    let gone = account.left_for(Reason::ProcessGone) + account.vanished_bytes();
    assert!(gone > 0 && account.moved_bytes() > 0, "{outcome:?}");
    assert!(!outcome.is_partial(), "{outcome:?}");
}

#[test]
fn a_target_that_execs_keeps_its_new_memory_where_it_is() {
    let mut scene = Scene::remote(&["anon:128M"]);
    let outcome = in_the_middle(&mut scene, |app, _| {
        app.send("exec");
        app.ready();
    });
    let account = outcome.account();
    let gone = account.left_for(Reason::ProcessGone) + account.vanished_bytes();
    assert!(gone > 0 && account.moved_bytes() > 0, "{outcome:?}");
    scene.assert_on("anon", 1, 128 * MIB);
    scene.app.check();
}

#[test]
fn a_target_that_forks_loses_nothing() {
    let mut scene = Scene::remote(&["anon:128M"]);
    let outcome = in_the_middle(&mut scene, |app, _| {
        assert!(app.ask("fork 2").starts_with("forked"));
    });
    let account = outcome.account();
    assert!(account.moved_bytes() > 0, "{outcome:?}");
    assert_eq!(account.left_for(Reason::ProcessGone), 0, "{outcome:?}");
    assert_eq!(scene.nodes("anon").values().sum::<u64>(), 128 * MIB);
    scene.finish();
}

#[test]
fn what_is_unmapped_does_no_harm() {
    let mut scene = Scene::remote(&["high=anon:64M", "low=anon:64M"]);
    let high = scene.app.range("high").start > scene.app.range("low").start;
    // Memory is visited upwards: the region that is being moved is unmapped.
    let (first, last) = if high { ("low", "high") } else { ("high", "low") };
    let outcome = in_the_middle(&mut scene, |app, _| {
        assert_eq!(app.ask(&format!("unmap {first}")), format!("unmapped {first}"));
    });
    scene.assert_on(last, 0, 64 * MIB);
    assert_eq!(scene.nodes(first), [].into());
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_cancelled_migration_is_consistent_and_can_be_resumed() {
    let mut scene = Scene::remote(&["anon:128M"]);
    let before = scene.truth().all();
    let outcome = in_the_middle(&mut scene, |_, control| control.cancel.store(true, Relaxed));
    let account = outcome.account();
    assert!(outcome.cancelled && outcome.is_partial(), "{outcome:?}");
    assert!(account.left_for(Reason::Cancelled) > 0, "{outcome:?}");
    let nodes = scene.nodes("anon");
    assert_eq!(nodes.values().sum::<u64>(), 128 * MIB);
    let gone = on(&before, 1) - on(&scene.truth().all(), 1);
    assert!(account.moved_bytes().abs_diff(gone) <= SLACK, "{gone} moved, {account:?}");
    assert!(off(&nodes, 0) > 0, "it was cancelled in its middle");

    let rest = scene.migrate(&Options::default());
    assert_complete(&rest);
    assert!(rest.account().found_bytes() < account.found_bytes());
    scene.assert_on("anon", 0, 128 * MIB);
    scene.finish();
}

#[test]
fn no_time_is_out_of_time() {
    let scene = Scene::remote(&["anon:32M"]);
    let look = look(&scene.target(), &Options::default());
    let limits = Limits { timeout: Some(Duration::ZERO), ..Limits::default() };
    let outcome = look.carry_out(&limits, &Control::default());
    assert!(outcome.account().left_for(Reason::OutOfTime) >= 32 * MIB, "{outcome:?}");
    scene.assert_on("anon", 1, 32 * MIB);
    scene.finish();
}

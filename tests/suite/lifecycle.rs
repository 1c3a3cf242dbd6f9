//! Targets that change during a migration, and migrations that end early.

use crate::{
    app::{App, Layout, until},
    engine::inspect,
    place::{away, home},
    scene::{SLACK, Scene, assert_complete},
    settings::Cgroup,
    truth::{off, on},
};
use numaloc_core::{Options, Reason};
use numaloc_executor::{Control, Outcome, RunLimits};
use numaloc_host::Target;
use std::{fs, sync::atomic::Ordering::Relaxed, thread, time::Duration};

const MIB: u64 = 1 << 20;

/// Small batches, so that there is time to act in the middle of the run.
fn small() -> RunLimits {
    RunLimits { batch_bytes: Some(256 << 10), ..RunLimits::default() }
}

/// Migrates, and calls `act` as soon as something has moved.
fn in_the_middle(scene: &mut Scene, act: impl FnOnce(&mut App, &Control)) -> Outcome {
    in_the_middle_of(&scene.target(), scene, act)
}

fn in_the_middle_of(
    targets: &[Target],
    scene: &mut Scene,
    act: impl FnOnce(&mut App, &Control),
) -> Outcome {
    let (inspected, control) = (inspect(targets, &Options::default()), Control::default());
    thread::scope(|scope| {
        let run = scope.spawn(|| inspected.carry_out(&small(), &control));
        until("something has moved", || control.moved_bytes.load(Relaxed) > 0 || run.is_finished());
        assert!(!run.is_finished(), "it was over before its middle");
        act(&mut scene.app, &control);
        run.join().expect("the migration ends")
    })
}

#[test]
fn a_target_that_exits_is_left() {
    let mut scene = Scene::remote(&["anon:64M"]);
    let outcome = in_the_middle(&mut scene, |app, _| app.kill());
    let account = outcome.account();
    let gone = account.left_for(Reason::ProcessGone) + account.vanished_bytes();
    assert!(gone > 0 && account.moved_bytes() > 0, "{outcome:?}");
    assert!(!outcome.is_partial(), "{outcome:?}");
}

#[test]
fn a_target_that_execs_keeps_its_new_memory_where_it_is() {
    let mut scene = Scene::remote(&["anon:64M"]);
    let outcome = in_the_middle(&mut scene, |app, _| {
        app.send("exec");
        app.ready();
    });
    let account = outcome.account();
    let gone = account.left_for(Reason::ProcessGone) + account.vanished_bytes();
    assert!(gone > 0 && account.moved_bytes() > 0, "{outcome:?}");
    scene.assert_on("anon", away(), 64 * MIB);
    scene.app.check();
}

#[test]
fn a_target_that_forks_loses_nothing() {
    let mut scene = Scene::remote(&["anon:64M"]);
    let outcome = in_the_middle(&mut scene, |app, _| {
        assert!(app.ask("fork 2").starts_with("forked"));
    });
    let account = outcome.account();
    assert!(account.moved_bytes() > 0, "{outcome:?}");
    assert_eq!(account.left_for(Reason::ProcessGone), 0, "{outcome:?}");
    assert_eq!(scene.nodes("anon").values().sum::<u64>(), 64 * MIB);
    scene.finish();
}

#[test]
fn what_is_unmapped_does_no_harm() {
    let mut scene = Scene::remote(&["high=anon:32M", "low=anon:32M"]);
    let high = scene.app.range("high").start > scene.app.range("low").start;
    // Memory is visited in ascending order, so this unmaps the region that is being moved.
    let (first, last) = if high { ("low", "high") } else { ("high", "low") };
    let outcome = in_the_middle(&mut scene, |app, _| {
        assert_eq!(app.ask(&format!("unmap {first}")), format!("unmapped {first}"));
    });
    scene.assert_on(last, home(), 32 * MIB);
    assert_eq!(scene.nodes(first), [].into());
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_cancelled_migration_is_consistent_and_can_be_resumed() {
    let mut scene = Scene::remote(&["anon:64M"]);
    let before = scene.truth().all();
    let outcome = in_the_middle(&mut scene, |_, control| control.cancel.store(true, Relaxed));
    let account = outcome.account();
    assert!(outcome.cancelled && outcome.is_partial(), "{outcome:?}");
    assert!(account.left_for(Reason::Cancelled) > 0, "{outcome:?}");
    let nodes = scene.nodes("anon");
    assert_eq!(nodes.values().sum::<u64>(), 64 * MIB);
    let gone = on(&before, away()) - on(&scene.truth().all(), away());
    assert!(account.moved_bytes().abs_diff(gone) <= SLACK, "{gone} moved, {account:?}");
    assert!(off(&nodes, home()) > 0, "it was cancelled in its middle");

    let rest = scene.migrate(&Options::default());
    assert_complete(&rest);
    assert!(rest.account().found_bytes() < account.found_bytes());
    scene.assert_on("anon", home(), 64 * MIB);
    scene.finish();
}

#[test]
fn no_time_is_out_of_time() {
    let scene = Scene::remote(&["anon:32M"]);
    let inspected = inspect(&scene.target(), &Options::default());
    let limits = RunLimits { timeout: Some(Duration::ZERO), ..RunLimits::default() };
    let outcome = inspected.carry_out(&limits, &Control::default());
    assert!(outcome.account().left_for(Reason::OutOfTime) >= 32 * MIB, "{outcome:?}");
    scene.assert_on("anon", away(), 32 * MIB);
    scene.finish();
}

#[test]
fn no_more_moves_than_the_budget() {
    let scene = Scene::remote(&["anon:32M"]);
    let inspected = inspect(&scene.target(), &Options::default());
    let limits = RunLimits { budget_bytes: Some(8 * MIB), ..RunLimits::default() };
    let outcome = inspected.carry_out(&limits, &Control::default());
    let account = outcome.account();
    assert_eq!(account.moved_bytes(), 8 * MIB, "{outcome:?}");
    assert!(account.left_for(Reason::OutOfBudget) >= 24 * MIB, "{outcome:?}");
    assert!(on(&scene.nodes("anon"), away()) >= 24 * MIB);
    let none = RunLimits { budget_bytes: Some(0), ..RunLimits::default() };
    let inspected = inspect(&scene.target(), &Options::default());
    let outcome = inspected.carry_out(&none, &Control::default());
    assert_eq!(outcome.account().moved_bytes(), 0, "{outcome:?}");
    scene.finish();
}

fn stat(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}

fn leave(app: &mut App) {
    assert_eq!(app.ask("leave"), "left");
    until("the first thread has ended", || stat(app.pid()).contains(") Z "));
}

#[test]
fn memory_outlives_the_first_thread() {
    let mut scene = Scene::remote(&["anon:32M"]);
    leave(&mut scene.app);
    assert_complete(&scene.migrate(&Options::default()));
    scene.assert_on("anon", home(), 32 * MIB);
    scene.finish();
}

#[test]
fn a_target_whose_first_thread_leaves_continues_to_move() {
    let mut scene = Scene::remote(&["anon:64M"]);
    let outcome = in_the_middle(&mut scene, |app, _| leave(app));
    assert_complete(&outcome);
    scene.assert_on("anon", home(), 64 * MIB);
    scene.finish();
}

/// The next process gets this pid, or the next free one.
fn next_pid(pid: i32) {
    fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).expect("root may");
}

/// In the middle of a run, a process of the target that shares the application's memory exits or becomes another program. Its pid
/// is the lower one.
fn a_sharer_goes(then: &str, has_gone: fn(&str) -> bool) {
    let cgroup = Cgroup::new(&format!("sharer-{then}"));
    next_pid(20_000);
    let mut scene = Scene::of(Layout::remote(&["anon:64M"]).within(cgroup.path()));
    next_pid(10_000);
    let sharer: i32 = scene.app.ask("share").parse().expect("a pid");
    assert!(sharer < scene.app.pid(), "{sharer} comes before {}", scene.app.pid());
    let outcome = in_the_middle_of(&[cgroup.target()], &mut scene, |app, _| {
        app.ask(&format!("sharer {then}"));
        until("the other process has gone its way", || has_gone(&stat(sharer)));
    });
    let pids: Vec<i32> = outcome.processes.iter().map(|process| process.identity.pid).collect();
    assert_eq!(pids, [scene.app.pid()], "one address space, of the process that made the other");
    assert_complete(&outcome);
    scene.assert_on("anon", home(), 64 * MIB);
    drop(scene.finish());
}

#[test]
fn memory_outlives_a_process_that_shared_it() {
    a_sharer_goes("exit", |stat| stat.contains(") Z "));
}

#[test]
fn a_process_that_shared_memory_becomes_another_program() {
    a_sharer_goes("exec", |stat| stat.contains("(sleep) "));
}

//! How a run holds back for the sake of others.

use crate::{
    app::{Layout, spinners, until},
    engine::{Look, look},
    scene::{Scene, assert_complete},
    settings::Cgroup,
};
use numaloc_core::{
    Options, Outcome,
    pace::{Pacing, Profile},
};
use numaloc_executor::{Control, Limits};
use std::{sync::atomic::Ordering::Relaxed, thread, time::Duration};

const MIB: u64 = 1 << 20;

fn options(profile: Profile) -> Options {
    Options { pacing: Pacing { profile, ..Pacing::default() }, ..Options::default() }
}

/// Has a run go on while `meanwhile` is done.
fn during(
    look: &Look,
    limits: &Limits,
    control: &Control,
    meanwhile: impl FnOnce(&dyn Fn() -> bool),
) -> Outcome {
    thread::scope(|scope| {
        let run = scope.spawn(|| look.carry_out(limits, control));
        meanwhile(&|| run.is_finished());
        run.join().expect("it ends")
    })
}

#[test]
fn pressure_in_the_targets_cgroup_holds_a_run_back_until_it_is_over() {
    if !std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return; // cgroup v1 accounts for no pressure
    }
    let cgroup = Cgroup::new("pacing");
    let scene = Scene::of(Layout::remote(&["anon:96M"]).within(cgroup.path()));
    let (look, control) = (look(&scene.target(), &options(Profile::Balanced)), Control::default());
    // So slow that the run is there for as long as the test needs it.
    let limits = Limits { rate_bytes_per_second: Some(4 * MIB), ..Limits::default() };
    let outcome = during(&look, &limits, &control, |ended| {
        until("the run has begun", || control.moved_bytes.load(Relaxed) > 0);
        let spinners = spinners(6, |layout| layout.within(cgroup.path()));
        let why = || control.held_back();
        until("it holds back", || why().contains("cpu.pressure of /numaloc-pacing is"));
        drop(spinners);
        until("it has recovered", || ended() || !why().contains("pressure"));
        assert!(!ended(), "the run was over before the pressure was");
    });
    assert_complete(&outcome);
    assert!(outcome.calls.held_back > Duration::ZERO);
    assert_eq!(control.held_back(), "");
    scene.assert_on("anon", 0, 96 * MIB);
    scene.finish();
}

#[test]
fn calls_of_a_gentle_run_are_short() {
    let scene = Scene::remote(&["anon:32M"]);
    // Emulated CPUs that wait for a real one make any call longer.
    let longest = Duration::from_millis(50);
    let pacing = Pacing { profile: Profile::Gentle, max_stall: Some(longest), ..Pacing::default() };
    let options = Options { pacing, ..Options::default() };
    let look = look(&scene.target(), &options);
    let outcome = look.carry_out(&Limits::default(), &Control::default());
    assert_complete(&outcome);
    let calls = &outcome.calls;
    assert!(calls.over_stall <= calls.calls / 4, "{calls:?}");
    // It worked for a tenth of the time at most: scans and second looks count, too.
    assert!(calls.held_back >= calls.total * 8, "{calls:?}");
    scene.assert_on("anon", 0, 32 * MIB);
    scene.finish();
}

#[test]
fn a_run_that_yields_goes_on_when_others_are_done() {
    let scene = Scene::remote(&["thp:64M"]);
    let (look, control) = (look(&scene.target(), &options(Profile::Fast)), Control::default());
    control.yielding.store(true, Relaxed);
    let outcome = during(&look, &Limits::default(), &control, |ended| {
        assert!(control.held_back().contains("higher class"));
        // It does not starve meanwhile.
        until("a little has moved", || control.moved_bytes.load(Relaxed) > 0);
        assert!(!ended(), "it has yielded to nobody");
        control.yielding.store(false, Relaxed);
    });
    assert_complete(&outcome);
    assert!(outcome.calls.held_back > Duration::ZERO);
    scene.assert_on("thp", 0, 64 * MIB);
    scene.finish();
}

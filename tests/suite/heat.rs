//! The most used memory comes home first, and no setting of the host stays changed.

use crate::{
    app::{Layout, spinners, until},
    engine::{inspect, try_inspect},
    place::{away, home},
    scene::Scene,
    settings::Setting,
    truth::{Truth, off, on, release},
};
use numaloc_core::{HeatSource, Options, Order, Pacing, Profile, Reason};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::{Error, Roots, Target, heat, journal::Journal};
use numaloc_sys::fixture::skipped;
use std::{fs, path::Path, sync::atomic::Ordering::Relaxed, thread};

const MIB: u64 = 1 << 20;
const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Switches the kernel's own user of DAMON. Newer kernels start with it enabled, and then no other program can use DAMON.
const DAMON_STAT: &str = "/sys/module/damon_stat/parameters/enabled";

pub fn has_damon() -> bool {
    Path::new(KDAMONDS).exists()
}

/// Skips a test that needs DAMON where the kernel has none. Returns whether it did.
pub fn skip_without_damon() -> bool {
    let skips = !has_damon();
    if skips {
        skipped("this kernel has no DAMON");
    }
    skips
}

/// Makes DAMON available to the test.
pub fn free_damon() -> Option<Setting> {
    Setting::set_if_present(DAMON_STAT, "N")
}

pub fn kdamonds() -> String {
    fs::read_to_string(format!("{KDAMONDS}/nr_kdamonds")).expect("DAMON").trim().to_owned()
}

/// Bytes of the hot area and of the cold area. They are few, so that even on a slow machine the writer touches all of the hot
/// area while DAMON watches: what it does not touch in that time counts as unused.
const EACH: u64 = 16 * MIB;

/// A scene with a hot and a cold area of the same size, of which half is to come home. The cold area has the lower addresses.
fn half(order: Order) -> (Scene, Options) {
    let scene = Scene::remote(&["anon:16M", "cold=mlock:16M:cold"]);
    assert!(scene.app.range("cold").start < scene.app.range("anon").start);
    // `fast`, because the other profiles hold back under pressure, which is not tested here.
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    (scene, Options { order, target_ratio: 50, pacing, ..Options::default() })
}

fn the_hot_half_comes_home(order: Order, expected: HeatSource) {
    let (scene, options) = half(order);
    // An emulated CPU keeps its address translations until it changes to another process, and accesses through them are not seen
    // until then. So other processes take turns with the target.
    let _others = spinners(3, |layout| layout);
    let inspected = inspect(&scene.target(), &options);
    assert_eq!(inspected.plan.order, expected);
    let limits = RunLimits { batch_bytes: Some(MIB / 2), ..RunLimits::default() };
    let outcome = inspected.carry_out(&limits, &Control::default());
    let (hot, cold) = (scene.nodes("anon"), scene.nodes("cold"));
    println!("{order:?}: hot {hot:?}, cold {cold:?}");
    let (first, second) = if order == Order::Address { (&cold, &hot) } else { (&hot, &cold) };
    assert!(on(first, home()) >= EACH / 8 * 7, "{order:?}: hot {hot:?}, cold {cold:?}");
    assert!(off(second, home()) >= EACH / 8 * 7, "{order:?}: hot {hot:?}, cold {cold:?}");
    let account = outcome.account();
    assert!(account.closes() && account.left_for(Reason::RatioReached) > 0, "{account:?}");
    scene.finish();
}

#[test]
fn by_address_the_lower_half_comes_home() {
    the_hot_half_comes_home(Order::Address, HeatSource::Address);
    // The method is not chosen for a small move, because measuring takes too long for it.
    let (scene, options) = half(Order::Probed);
    let options = Options { pacing: Pacing::default(), ..options };
    assert_eq!(inspect(&scene.target(), &options).plan.order, HeatSource::Address);
}

#[test]
fn referenced_mappings_come_home_first() {
    the_hot_half_comes_home(Order::Referenced, HeatSource::Referenced);
}

#[test]
fn what_damon_sees_in_use_comes_home_first() {
    let _damon = free_damon();
    if has_damon() {
        the_hot_half_comes_home(Order::Damon, HeatSource::Damon);
        assert_eq!(kdamonds(), "0");
    } else {
        assert!(release().starts_with("6.1."), "DAMON was expected");
        let (scene, options) = half(Order::Damon);
        let error = try_inspect(&scene.target(), &options).expect_err("the kernel has no DAMON");
        assert!(matches!(&error, Error::NoDamon { .. }), "{error}");
    }
}

/// Its own copies and what it still shares are extents that cover the same addresses.
#[test]
fn a_family_with_copies_can_be_watched() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let layout = Layout::remote(&["cow:32M"]).load("idle").copies_on(away());
    let mut parent = layout.start("parent");
    let child: i32 = parent.ask("child").parse().expect("a pid");
    let targets = [Target::Pid(parent.pid()), Target::Pid(child)];
    let inspected = inspect(&targets, &Options { order: Order::Damon, ..Options::default() });
    let outcome = inspected.carry_out(&RunLimits::default(), &Control::default());
    let range = parent.range("cow");
    assert_eq!(Truth::of(parent.pid()).region(range), [(home(), 32 * MIB)].into(), "{outcome:?}");
    assert_eq!(kdamonds(), "0");
    parent.check();
}

#[test]
fn who_cancels_meanwhile_finds_damon_as_it_was() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let (scene, options) = half(Order::Damon);
    let (inspected, control) = (inspect(&scene.target(), &options), Control::default());
    let outcome = thread::scope(|scope| {
        let run = scope.spawn(|| inspected.carry_out(&RunLimits::default(), &control));
        until("DAMON is set up", || kdamonds() != "0" || run.is_finished());
        control.cancel.store(true, Relaxed);
        run.join().expect("it ends")
    });
    let account = outcome.account();
    assert!(outcome.cancelled && account.moved_bytes() == 0, "{account:?}");
    assert!(account.left_for(Reason::Cancelled) >= 2 * EACH, "{account:?}");
    assert_eq!(kdamonds(), "0");
    scene.finish();
}

#[test]
fn who_ends_meanwhile_is_gone() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let (mut scene, options) = half(Order::Damon);
    let inspected = inspect(&scene.target(), &options);
    let outcome = thread::scope(|scope| {
        let run = scope.spawn(|| inspected.carry_out(&RunLimits::default(), &Control::default()));
        until("DAMON is set up", || kdamonds() != "0" || run.is_finished());
        scene.app.kill();
        run.join().expect("it ends")
    });
    let account = outcome.account();
    let gone = account.left_for(Reason::ProcessGone) + account.vanished_bytes();
    assert!(gone >= EACH && !outcome.is_partial(), "{account:?}");
    assert_eq!(kdamonds(), "0");
}

/// Starts a kernel thread of DAMON that watches a process, in the same way as a run of numaloc does.
fn watch(pid: i32) {
    let write = |path: &str, value: &str| {
        let path = format!("{KDAMONDS}/{path}");
        fs::write(&path, value).unwrap_or_else(|error| panic!("{path} = {value}: {error}"));
    };
    write("nr_kdamonds", "1");
    write("0/contexts/nr_contexts", "1");
    write("0/contexts/0/operations", "vaddr");
    write("0/contexts/0/targets/nr_targets", "1");
    write("0/contexts/0/targets/0/pid_target", &pid.to_string());
    write("0/state", "on");
}

#[test]
fn what_others_watch_stays_and_what_a_killed_run_left_goes() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let roots = Roots::default();
    let (scene, options) = half(Order::Damon);
    watch(scene.app.pid());
    let error = try_inspect(&scene.target(), &options).expect_err("in use by another program");
    assert!(matches!(&error, Error::NoDamon { .. }), "{error}");
    assert!(!heat::recover(&roots).expect("looked"));
    assert_eq!(kdamonds(), "1");

    let journal = Journal::<Vec<i32>>::take(&roots, "damon").expect("/run can be written");
    journal.expect("it is free").note(&vec![scene.app.pid()]).expect("/run can be written");
    inspect(&scene.target(), &options);
    assert_eq!(kdamonds(), "1", "a look changes nothing");
    assert!(heat::recover(&roots).expect("taken down"));
    assert_eq!(kdamonds(), "0");
}

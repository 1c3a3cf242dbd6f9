//! Folios that change between the scan that found them and the call that moves them. A pause makes this time long. The account
//! must agree with numa_maps to the page.

use crate::{
    app::{App, until},
    engine::{Inspection, inspect},
    place::home,
    scene::Scene,
    settings::Setting,
    truth::{Truth, huge_bytes, off, on},
};
use numaloc_core::{
    Options,
    pace::{Pacing, Profile},
    pmd_size,
};
use numaloc_executor::{Control, Outcome, RunLimits, SharedRate};
use std::{
    fs,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

const MIB: u64 = 1 << 20;

const RATE: u64 = 8 * MIB;

/// Seconds for which the run is held back while the test acts. The next one is used when a call happened meanwhile.
const PAUSES: [u64; 3] = [1, 5, 30];

/// The value that `act` returned, while pages that had been found waited for their call.
enum Seen<T> {
    Quiet(T),
    /// A call happened in between, so what was seen before and after it cannot be compared.
    Call,
}

/// Moves one region alone. Calls `act` while pages that have been found wait for their call. Repeats all of it with a longer pause
/// if a call happened in between.
fn while_some_wait<T>(region: &str, act: impl Fn(&mut App) -> T) -> (Scene, T, Outcome) {
    for pause in PAUSES {
        let mut scene = Scene::remote(&[&format!("{region}:32M")]);
        let (seen, outcome) = in_a_pause(&mut scene, region, pause, &act);
        if let Seen::Quiet(seen) = seen {
            return (scene, seen, outcome);
        }
        println!("a call was in between, in {pause} s");
    }
    panic!("a call was in between each time");
}

fn in_a_pause<T>(
    scene: &mut Scene,
    region: &str,
    seconds: u64,
    act: impl Fn(&mut App) -> T,
) -> (Seen<T>, Outcome) {
    let inspected = only(scene, region);
    let rate = Arc::new(SharedRate::new(RATE));
    let shared_rate = Some(rate.clone());
    let limits = RunLimits { shared_rate, ..RunLimits::default() };
    let control = Control::default();
    thread::scope(|scope| {
        let run = scope.spawn(|| inspected.carry_out(&limits, &control));
        let moved = || control.moved_bytes.load(Relaxed);
        let waits = || control.held_back() == "bandwidth limit";
        until("some have moved and others wait", || moved() > 0 && waits());
        rate.take(seconds * RATE);
        // A call that was paid for before the pause comes first.
        thread::sleep(Duration::from_millis(500));
        until("others wait", waits);
        let settled = || control.settled_bytes.load(Relaxed);
        let before = settled();
        let seen = act(&mut scene.app);
        let is_quiet = settled() == before && waits();
        // The result of a run that was not quiet is not used: end it early.
        control.cancel.store(!is_quiet, Relaxed);
        let outcome = run.join().expect("it ends");
        (if is_quiet { Seen::Quiet(seen) } else { Seen::Call }, outcome)
    })
}

/// A plan for one region and nothing else.
fn only(scene: &Scene, region: &str) -> Inspection {
    // One worker: while one of two waits, the other may be in a call, and numa_maps does not count what is under migration.
    let pacing = Pacing { profile: Profile::Fast, workers: Some(1), ..Pacing::default() };
    let mut inspected = inspect(&scene.target(), &Options { pacing, ..Options::default() });
    let start = scene.app.range(region).start;
    inspected.plan.moves.retain(|planned_move| planned_move.mappings[0].start == start);
    inspected.plan.skipped.clear();
    inspected
}

/// Stops khugepaged, which would make huge pages of split ones again, and would fill the holes of freed ones.
/// A change of its pause starts one last scan (mm/khugepaged.c, `scan_sleep_millisecs_store`), which is late on a busy machine.
/// From 7.x on it fills folios of all sizes. Without permission for a single hole it fills none.
fn no_khugepaged() -> [Setting; 2] {
    [("max_ptes_none", "0"), ("scan_sleep_millisecs", "3600000")].map(|(name, value)| {
        Setting::set(format!("/sys/kernel/mm/transparent_hugepage/khugepaged/{name}"), value)
    })
}

/// Frees half of each `unit` bytes, of huge or large folios, while the move is under way.
pub fn frees_halves(unit: u64, half: &str) {
    let _quiet = no_khugepaged();
    let (scene, (before, after), outcome) = while_some_wait("thp", |app| {
        let nodes = |app: &App| Truth::of(app.pid()).region(app.range("thp"));
        let before = nodes(app);
        assert_eq!(app.ask(&format!("free thp {unit} {half}")), "freed thp");
        (before, nodes(app))
    });
    let end = scene.nodes("thp");
    let is = (off(&before, home()) + on(&before, home()), &end);
    assert_eq!(is, (32 * MIB, &[(home(), 16 * MIB)].into()), "{outcome:?}");
    let account = outcome.account();
    assert_eq!(account.found_bytes(), 32 * MIB, "{outcome:?}");
    assert_eq!(
        account.moved_bytes(),
        on(&before, home()) + on(&end, home()) - on(&after, home()),
        "{outcome:?}"
    );
    assert_eq!(account.vanished_bytes(), off(&before, home()) - off(&after, home()), "{outcome:?}");
    scene.finish();
}

#[test]
fn a_huge_page_whose_second_half_is_freed() {
    frees_halves(pmd_size(), "last");
}

#[test]
fn a_huge_page_whose_first_half_is_freed() {
    frees_halves(pmd_size(), "first");
}

#[test]
fn huge_pages_that_are_split_come_home_page_by_page() {
    let _quiet = no_khugepaged();
    let (scene, (), outcome) = while_some_wait("thp", |app| {
        let (range, pid) = (app.range("thp"), app.pid());
        assert_eq!(huge_bytes(pid, range.clone()), 32 * MIB, "the test needs huge pages");
        let what = format!("{pid},{:#x},{:#x}", range.start, range.end);
        fs::write("/sys/kernel/debug/split_huge_pages", what).expect("debugfs");
        assert_eq!(huge_bytes(pid, range.clone()), 0, "they have not been split");
    });
    scene.assert_on("thp", home(), 32 * MIB);
    let account = outcome.account();
    assert_eq!((account.found_bytes(), account.moved_bytes()), (32 * MIB, 32 * MIB), "{outcome:?}");
    scene.finish();
}

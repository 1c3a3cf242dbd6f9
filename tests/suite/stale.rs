//! Folios that change between the scan that found them and the call that moves them: at a low rate that is a long time. The
//! account is to agree with numa_maps to the page.

use crate::{
    app::{App, until},
    engine::{Look, look},
    scene::Scene,
    settings::Setting,
    truth::{Nodes, Truth, huge_bytes, off, on},
};
use numaloc_core::{
    HUGE, Options,
    pace::{Pacing, Profile},
};
use numaloc_executor::{Control, Limits, Outcome};
use std::{fs, sync::atomic::Ordering::Relaxed, thread};

const MIB: u64 = 1 << 20;

/// Moves one region alone, a huge page in a quarter of a second, and acts while pages that have been found wait for their call;
/// `act` is told how to ask for what has moved.
fn while_some_wait(
    scene: &mut Scene,
    region: &str,
    act: impl FnOnce(&mut App, &dyn Fn() -> u64),
) -> Outcome {
    let look = only(scene, region);
    let limits = Limits { rate_bytes_per_second: Some(8 * MIB), ..Limits::default() };
    let control = Control::default();
    thread::scope(|scope| {
        let run = scope.spawn(|| look.carry_out(&limits, &control));
        until("some have moved and others wait", || {
            control.moved_bytes.load(Relaxed) > 0 && control.held_back() == "bandwidth limit"
        });
        act(&mut scene.app, &|| control.moved_bytes.load(Relaxed));
        assert!(!run.is_finished(), "it was over before its middle");
        run.join().expect("it ends")
    })
}

/// A plan for a region and nothing else.
fn only(scene: &Scene, region: &str) -> Look {
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    let mut look = look(&scene.target(), &Options { pacing, ..Options::default() });
    let start = scene.app.range(region).start;
    look.plan.moves.retain(|step| step.mappings[0].start == start);
    look.plan.skipped.clear();
    look
}

/// khugepaged makes huge pages of what was split.
fn no_khugepaged() -> Setting {
    let khugepaged = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    Setting::set(format!("{khugepaged}/scan_sleep_millisecs"), "3600000")
}

/// Frees a half of each `unit` bytes of huge or large folios on the way.
pub fn frees_halves(unit: u64, half: &str) {
    let _quiet = no_khugepaged();
    let mut scene = Scene::remote(&["thp:32M"]);
    let (mut before, mut after) = (Nodes::new(), Nodes::new());
    let (range, pid) = (scene.app.range("thp"), scene.app.pid());
    let outcome = while_some_wait(&mut scene, "thp", |app, moved| {
        let (moved_before, nodes) = (moved(), || Truth::of(pid).region(range.clone()));
        before = nodes();
        assert_eq!(app.ask(&format!("free thp {unit} {half}")), "freed thp");
        after = nodes();
        assert_eq!(moved(), moved_before, "a call was in between");
    });
    let end = scene.nodes("thp");
    assert_eq!((off(&before, 0) + on(&before, 0), &end), (32 * MIB, &[(0, 16 * MIB)].into()));
    let account = outcome.account();
    assert_eq!(account.found_bytes(), 32 * MIB, "{outcome:?}");
    assert_eq!(account.moved_bytes(), on(&before, 0) + on(&end, 0) - on(&after, 0), "{outcome:?}");
    assert_eq!(account.vanished_bytes(), off(&before, 0) - off(&after, 0), "{outcome:?}");
    scene.finish();
}

#[test]
fn a_huge_page_whose_second_half_is_freed() {
    frees_halves(HUGE, "last");
}

#[test]
fn a_huge_page_whose_first_half_is_freed() {
    frees_halves(HUGE, "first");
}

#[test]
fn huge_pages_that_are_split_come_home_page_by_page() {
    let _quiet = no_khugepaged();
    let mut scene = Scene::remote(&["thp:32M"]);
    let (range, pid) = (scene.app.range("thp"), scene.app.pid());
    let outcome = while_some_wait(&mut scene, "thp", |_, _| {
        assert_eq!(huge_bytes(pid, range.clone()), 32 * MIB, "the test needs huge pages");
        let what = format!("{pid},{:#x},{:#x}", range.start, range.end);
        fs::write("/sys/kernel/debug/split_huge_pages", what).expect("debugfs");
        assert_eq!(huge_bytes(pid, range.clone()), 0, "they have not been split");
    });
    scene.assert_on("thp", 0, 32 * MIB);
    let account = outcome.account();
    assert_eq!((account.found_bytes(), account.moved_bytes()), (32 * MIB, 32 * MIB), "{outcome:?}");
    scene.finish();
}

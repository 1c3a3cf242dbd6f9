//! Private memory in 4 KiB pages.

use crate::{
    engine::inspect,
    place::{away, home},
    scene::{Scene, assert_complete},
    truth::release,
};
use numaloc_core::{Options, Pacing, Profile, Reason};

const MIB: u64 = 1 << 20;

#[test]
fn comes_home_while_it_is_written() {
    let scene = Scene::remote(&["anon:64M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", home(), 64 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn of_large_calls_a_sample_is_looked_at_and_the_account_is_true() {
    let scene = Scene::remote(&["anon:128M"]);
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    let outcome = scene.migrate(&Options { pacing, ..Options::default() });
    scene.assert_on("anon", home(), 128 * MIB);
    assert_complete(&outcome);
    let (sampled, moved) = (outcome.calls.sampled_bytes, outcome.account().moved_bytes());
    assert!((16 * MIB..=moved).contains(&sampled), "{sampled} of {moved}: {outcome:?}");
    scene.finish();
}

#[test]
fn several_regions_with_holes_come_home() {
    let scene = Scene::remote(&["anon:32M", "sparse:256M:touch=16M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", home(), 32 * MIB);
    scene.assert_on("sparse", home(), 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_second_run_finds_nothing() {
    let scene = Scene::remote(&["anon:32M"]);
    scene.migrate(&Options::default());
    let again = inspect(&scene.target(), &Options::default());
    assert_eq!(again.plan.moves, [], "a plan after a perfect run is empty");
    let outcome = scene.migrate(&Options::default());
    assert_eq!(outcome.account().moved_bytes(), 0, "{outcome:?}");
    assert_eq!(outcome.calls.addresses, 0, "{outcome:?}");
    scene.assert_on("anon", home(), 32 * MIB);
    scene.finish();
}

#[test]
fn mlocked_comes_home() {
    let scene = Scene::remote(&["mlock:32M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("mlock", home(), 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn without_access_rights_comes_home() {
    let scene = Scene::remote(&["prot-none:32M", "anon:16M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", home(), 16 * MIB);
    // move_pages of 6.1 to 6.4 takes pages without access rights for absent ones, like NUMA-hint entries. Here no
    // thread can take the fault, so the pages stay and must be reported.
    let left = outcome.account().left_for(Reason::NotMovable);
    if release().starts_with("6.1.") && left > 0 {
        scene.assert_on("prot-none", away(), 32 * MIB);
        assert_eq!(left, 32 * MIB, "{outcome:?}");
    } else {
        scene.assert_on("prot-none", home(), 32 * MIB);
        assert_complete(&outcome);
    }
    scene.finish();
}

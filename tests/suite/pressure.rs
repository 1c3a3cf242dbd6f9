//! A target node that is nearly full.

use crate::{
    app::App,
    place::{away, home},
    scene::{self, Scene},
    truth::{free_bytes, high_watermark_bytes, on, vmstat},
};
use numaloc_core::{
    MakeRoom, Options, Reason,
    pace::{Pacing, Profile},
};

const MIB: u64 = 1 << 20;
/// Bytes that may move: free memory above the default reserve of 64 MiB and the watermarks.
const ROOM: u64 = 24 * MIB;
const RESERVE: u64 = 64 * MIB;

/// Fills the home node until little more than the reserve is free.
fn ballast() -> App {
    scene::ballast(home(), RESERVE + ROOM + high_watermark_bytes(home()))
}

/// Nothing is dropped for room.
fn free_alone() -> Options {
    Options { make_room: MakeRoom::None, ..Options::default() }
}

/// Counters that grow when memory runs out, or when memory is reclaimed.
const DISTRESS: [&str; 5] =
    ["oom_kill", "pswpout", "allocstall_movable", "pgscan_kswapd", "pgscan_direct"];

fn distress() -> [u64; 5] {
    DISTRESS.map(vmstat)
}

#[test]
fn moves_what_fits_and_reports_the_rest() {
    let scene = Scene::remote(&["anon:96M"]);
    let mut ballast = ballast();
    let before = distress();
    let outcome = scene.migrate(&free_alone());
    assert_eq!(distress(), before, "{DISTRESS:?}");
    let (nodes, account) = (scene.nodes("anon"), outcome.account());
    assert!(on(&nodes, home()) > 0 && on(&nodes, away()) > 0, "{nodes:?} {outcome:?}");
    assert_eq!(on(&nodes, home()) + on(&nodes, away()), 96 * MIB);
    assert!(account.left_for(Reason::NoMemory) > 0, "{outcome:?}");
    assert!(free_bytes(home()) >= RESERVE / 2, "the reserve is gone: {} free", free_bytes(home()));
    ballast.check();
    // Once there is room again, another run brings the rest home.
    drop(ballast);
    scene.migrate(&free_alone());
    scene.assert_on("anon", home(), 96 * MIB);
    scene.finish();
}

#[test]
fn the_fastest_run_has_nothing_reclaimed_either() {
    let scene = Scene::remote(&["anon:96M"]);
    let mut ballast = ballast();
    let before = distress();
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    let outcome = scene.migrate(&Options { pacing, ..free_alone() });
    assert_eq!(distress(), before, "{DISTRESS:?}");
    assert!(outcome.account().left_for(Reason::NoMemory) > 0, "{outcome:?}");
    assert!(free_bytes(home()) >= RESERVE / 2, "the reserve is gone: {} free", free_bytes(home()));
    ballast.check();
    scene.finish();
}

#[test]
fn a_node_without_room_for_huge_pages_loses_none() {
    let scene = Scene::remote(&["thp:96M"]);
    let mut ballast = ballast();
    let before = distress();
    let outcome = scene.migrate(&free_alone());
    assert_eq!(distress(), before, "{DISTRESS:?}");
    let nodes = scene.nodes("thp");
    assert_eq!(nodes.values().sum::<u64>(), 96 * MIB, "{nodes:?}");
    assert!(outcome.account().left_for(Reason::NoMemory) > 0, "{outcome:?}");
    ballast.check();
    scene.finish();
}

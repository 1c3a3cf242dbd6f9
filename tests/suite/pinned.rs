//! Pages that the kernel cannot move while a device uses them.

use crate::{
    app::until,
    disk::is_slow_disk_writing,
    place::{away, home},
    scene::{SLACK, Scene},
    truth::on,
};
use numaloc_core::{Options, Pacing, Reason};
use numaloc_executor::Outcome;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn held_bytes(outcome: &Outcome) -> u64 {
    outcome.account().left_for(Reason::Pinned) + outcome.account().left_for(Reason::Busy)
}

#[test]
fn registered_buffers_stay_and_the_rest_comes_home() {
    let scene = Scene::remote(&["anon:32M", "io-uring:4M", "more=anon:16M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", home(), 32 * MIB);
    scene.assert_on("more", home(), 16 * MIB);
    scene.assert_on("io-uring", away(), 4 * MIB);
    let held = held_bytes(&outcome);
    assert!(held.abs_diff(4 * MIB) <= SLACK, "{outcome:?}");
    assert!(outcome.is_partial());
    scene.finish();
}

/// A run with a page that cannot be moved ends its call, and the pace's runs are short: the calls must not become many. The
/// kernel tries such pages again and again, so calls take long; a high `max_stall` keeps that from making them more.
#[test]
fn pages_that_stay_take_few_calls() {
    let scene = Scene::remote(&["io-uring:16M"]);
    let pacing = Pacing { max_stall: Some(Duration::from_secs(30)), ..Pacing::default() };
    let outcome = scene.migrate(&Options { pacing, ..Options::default() });
    scene.assert_on("io-uring", away(), 16 * MIB);
    let pagelist_bytes =
        Options::default().pacing.pace().pagelist_bytes.expect("page lists have a bound");
    assert!(outcome.calls.calls < 16 * MIB / pagelist_bytes / 2, "{outcome:?}");
    scene.finish();
}

#[test]
fn direct_io_in_flight_stays_and_the_rest_comes_home() {
    // The first 256 KiB of the region are being written again and again, to a disk that takes four seconds for them.
    let scene = Scene::remote(&["anon:32M", "direct:/dev/vdb:1M"]);
    until("a write is in flight", is_slow_disk_writing);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", home(), 32 * MIB);
    let left = on(&scene.nodes("direct"), away());
    // Between two writes the kernel releases the pages. Pages that were tried then have moved.
    assert!(left <= 256 << 10, "pages that were not in flight stayed: {outcome:?}");
    assert_eq!(held_bytes(&outcome), left, "{outcome:?}");
    assert!(left > 0, "nothing was in flight: {outcome:?}");
    scene.finish();
}

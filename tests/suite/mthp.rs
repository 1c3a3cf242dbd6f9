//! Folios between a base page and a huge page (multi-size THP): one address each, as for any folio. Needs Linux 6.8.

use crate::{engine::inspect, scene::Scene, settings::Setting, stale};
use numaloc_core::{Options, pmd_size};

const MIB: u64 = 1 << 20;
const FOLIO: u64 = 64 << 10;

/// Makes the kernel use folios of 64 KiB for anonymous memory.
fn small_folios() -> [Setting; 2] {
    let size = |kb| format!("/sys/kernel/mm/transparent_hugepage/hugepages-{kb}kB/enabled");
    [Setting::set(size(64), "always"), Setting::set(size(pmd_size() >> 10), "never")]
}

#[test]
fn each_takes_exactly_one_address() {
    let _sizes = small_folios();
    let scene = Scene::remote(&["thp:16M"]);
    let mut small_only = inspect(&scene.target(), &Options::default());
    let start = scene.app.range("thp").start;
    small_only.plan.moves.retain(|planned_move| planned_move.mappings[0].start == start);
    small_only.plan.skipped.clear();
    let outcome = small_only.carry_out(&Default::default(), &Default::default());
    scene.assert_on("thp", 0, 16 * MIB);
    assert_eq!(outcome.account().moved_bytes(), 16 * MIB);
    assert_eq!(outcome.calls.addresses - outcome.calls.retried_addresses, 16 * MIB / FOLIO);
    scene.finish();
}

#[test]
fn one_whose_half_is_freed_counts_by_half() {
    let _sizes = small_folios();
    stale::frees_halves(FOLIO, "last");
}

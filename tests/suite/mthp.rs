//! Folios between a base page and a huge page (multi-size THP): one address each, as for any folio. Needs Linux 6.8.

use crate::{engine::inspect, scene::Scene, settings::Setting, stale};
use numaloc_core::{Options, page_size, pmd_size};

const MIB: u64 = 1 << 20;

/// The size of the folios: 64 KiB, or four pages, which are the fewest of anonymous memory (mm/huge_memory.c, `THP_ORDERS_ALL_ANON`).
fn folio() -> u64 {
    (64 << 10).max(4 * page_size())
}

/// Makes the kernel use such folios for anonymous memory.
fn small_folios() -> [Setting; 2] {
    let size = |kb| format!("/sys/kernel/mm/transparent_hugepage/hugepages-{kb}kB/enabled");
    [Setting::set(size(folio() >> 10), "always"), Setting::set(size(pmd_size() >> 10), "never")]
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
    assert_eq!(outcome.calls.addresses - outcome.calls.retried_addresses, 16 * MIB / folio());
    scene.finish();
}

#[test]
fn one_whose_half_is_freed_counts_by_half() {
    let _sizes = small_folios();
    stale::frees_halves(folio(), "last");
}

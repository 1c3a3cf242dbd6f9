//! Huge pages that go to a node whose free memory is in small pieces.

use super::*;
use crate::{settings::Setting, truth::huge_bytes};
use numaloc_core::{Compact, page_size};
use numaloc_sys::fixture::skipped;
use std::path::Path;

/// Whether this kernel and these rights allow it to compact a node.
pub const COMPACT: &str = "/sys/devices/system/node/node0/compact";

/// Node 0 has much free memory, all but a little of it in pieces of 256 KiB between pages in use, which are those of a region of
/// this kind.
pub fn fragmented(kind: &str) -> App {
    let mib = free_bytes(0).saturating_sub(high_watermark_bytes(0) + 8 * MIB) / (2 * MIB) * 2;
    let pieces = Layout::remote(&[&format!("pieces={kind}:{mib}M")]).memory_on(0).load("idle");
    let mut pieces = pieces.start("pieces");
    assert_eq!(pieces.ask("free pieces 524288 last"), "freed pieces");
    pieces
}

/// Free bytes of node 0 in blocks of 2 MiB and more.
pub fn blocks() -> u64 {
    let text = fs::read_to_string("/proc/buddyinfo").expect("buddyinfo");
    let zones = text.lines().filter(|line| line.starts_with("Node 0,"));
    let counts = zones.flat_map(|line| line.split_whitespace().skip(4).enumerate().skip(9));
    counts
        .map(|(order, count)| count.parse::<u64>().expect("a count") * (page_size() << order))
        .sum()
}

#[test]
fn huge_pages_arrive_whole() {
    if !Path::new(COMPACT).exists() {
        skipped("this kernel cannot compact");
        return;
    }
    let _quiet = Setting::no_compaction();
    let scene = Scene::remote(&["thp:160M"]);
    let (pid, range) = (scene.app.pid(), scene.app.range("thp"));
    assert_eq!(huge_bytes(pid, range.clone()), 160 * MIB, "the test needs huge pages");
    fs::write("/proc/sys/vm/drop_caches", "3").expect("root");
    let mut pieces = fragmented("anon");
    let (free, before) = (free_bytes(0), blocks());
    let by_kernel = || vmstat("compact_daemon_migrate_scanned");
    let scanned = by_kernel();
    assert!(free > 256 * MIB && before < 96 * MIB, "the scene: {free} free, {before} in blocks");
    let compact = Compact::Always;
    let outcome = scene.migrate(&Options { compact, ..Options::default() });
    scene.assert_on("thp", 0, 160 * MIB);
    assert_eq!(huge_bytes(pid, range), 160 * MIB, "{outcome:?}");
    // The kernel's own compaction may have been there first.
    let least = u64::from(by_kernel() == scanned);
    assert!((least..=2).contains(&outcome.calls.compactions), "{outcome:?}");
    assert_complete(&outcome);
    pieces.check();
    drop(pieces);
    scene.finish();
}

#[test]
fn nothing_is_compacted_where_blocks_are_free_or_it_is_not_wanted() {
    let scene = Scene::remote(&["thp:32M"]);
    fs::write("/proc/sys/vm/drop_caches", "3").expect("root");
    let outcome = scene.migrate(&Options { compact: Compact::Never, ..Options::default() });
    assert_eq!(outcome.calls.compactions, 0, "{outcome:?}");
    scene.assert_on("thp", 0, 32 * MIB);
    scene.finish();
    let scene = Scene::remote(&["thp:32M"]);
    assert!(blocks() > 64 * MIB, "the scene: {} in blocks", blocks());
    let outcome = scene.migrate(&Options { compact: Compact::Always, ..Options::default() });
    assert_eq!(outcome.calls.compactions, 0, "{outcome:?}");
    scene.assert_on("thp", 0, 32 * MIB);
    scene.finish();
}

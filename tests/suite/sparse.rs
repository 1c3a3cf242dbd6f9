//! Reservations that are mostly holes, and memory that is mostly at home: the work depends on what is touched and what is remote.

use crate::{
    engine::inspect,
    scene::{Scene, assert_complete},
    truth::release,
};
use numaloc_core::{
    Options,
    pace::{Pacing, Profile},
};
use numaloc_executor::{Control, RunLimits};
use std::fs;

const MIB: u64 = 1 << 20;
/// Bytes of the pagemap of 100 GiB: eight bytes for each 4 KiB page.
const WHOLE_PAGEMAP: u64 = (100 << 30) / 4096 * 8;

/// Bytes that this process has read with system calls.
fn read_bytes() -> u64 {
    field("/proc/self/io", "rchar:")
}

fn field(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).expect("a file of our own process");
    let value = text.lines().find_map(|line| line.strip_prefix(name)).expect("the field");
    value.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Migrates a scene. Returns the bytes that were read for it, and the bytes by which it raised this process's peak memory.
fn cost(scene: &Scene) -> (u64, u64) {
    fs::write("/proc/self/clear_refs", "5").expect("resets the peak");
    let (read_before, before) = (read_bytes(), field("/proc/self/status", "VmHWM:"));
    let outcome = scene.migrate(&Options::default());
    let read = read_bytes() - read_before;
    // From 6.2 on the kernel takes the peak from per-CPU counters that it does not sum up exactly (include/linux/mm.h,
    // get_mm_counter and update_hiwater_rss). So it may read a few pages lower than before.
    let peak = field("/proc/self/status", "VmHWM:").saturating_sub(before);
    assert_complete(&outcome);
    (read, peak << 10)
}

#[test]
fn work_follows_what_is_touched() {
    let large = Scene::remote(&["sparse:100G:touch=100M"]);
    let (large_read, large_memory) = cost(&large);
    large.assert_on("sparse", 0, 100 * MIB);
    large.finish();

    let small = Scene::remote(&["sparse:10G:touch=100M"]);
    let (small_read, small_memory) = cost(&small);
    small.assert_on("sparse", 0, 100 * MIB);
    small.finish();

    println!("100 GiB: {large_read} bytes read, {large_memory} bytes of memory at the peak");
    println!("10 GiB: {small_read} bytes read, {small_memory} bytes of memory at the peak");
    // Without PAGEMAP_SCAN (6.7) the plan has to read through all holes once.
    let holes = if release().starts_with("6.1.") { WHOLE_PAGEMAP } else { 0 };
    assert!(large_read <= 4 * small_read + 8 * MIB + holes, "reads follow what is reserved");
    assert!(large_memory <= 32 * MIB, "memory follows what is reserved");
}

/// Address sanitizers and garbage collectors have such ones.
#[test]
fn a_plan_reads_no_holes_of_a_reservation() {
    let scene = Scene::remote(&["sparse:16384G:touch=64M"]);
    let before = read_bytes();
    let plan = inspect(&scene.target(), &Options::default()).plan;
    let read = read_bytes() - before;
    println!("16 TiB: {read} bytes read");
    assert!(plan.expected_bytes >= 64 * MIB, "{:?}", plan.expected_flows);
    assert!(read <= 16 * MIB, "{read} bytes read");
    scene.finish();
}

/// A heap is at the beginning of its reservation.
#[test]
fn a_move_ends_where_the_heap_of_a_reservation_does() {
    let scene = Scene::remote(&["heap:16384G:touch=64M"]);
    let (read, _) = cost(&scene);
    scene.assert_on("heap", 0, 64 * MIB);
    println!("16 TiB with a heap of 64 MiB: {read} bytes read");
    // The page map of one window of 1 GiB, and what is left of it.
    assert!(read <= 32 * MIB, "{read} bytes read");
    scene.finish();
}

#[test]
fn a_move_reads_nothing_of_memory_at_home() {
    const BYTES: u64 = 256 * MIB;
    let scene = Scene::remote(&["anon:256M"]);
    scene.migrate(&Options { target_ratio: 95, ..Options::default() });
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    let inspected = inspect(&scene.target(), &Options { pacing, ..Options::default() });
    let before = read_bytes();
    let outcome = inspected.carry_out(&RunLimits::default(), &Control::default());
    let read = read_bytes() - before;
    scene.assert_on("anon", 0, BYTES);
    assert_complete(&outcome);
    let whole = BYTES / 4096 * 8;
    println!("{read} bytes read to move {}", outcome.account().moved_bytes());
    assert!(read < whole / 4 * 3, "{read} bytes read, the whole page map has {whole}");
    scene.finish();
}

//! Half a gigabyte in pages of each kind, and shared by eight processes, in all placements one after the other.

use super::{
    portions::{assert_blocks, assert_shares, placed_by},
    *,
};
use crate::truth::{Truth, on};

const BYTES: u64 = 512 * MIB;

/// Moves a region that several applications map to each placement. Its folios are of `bytes` bytes.
fn assert_placements(apps: &mut [App], region: &str, bytes: u64) {
    let targets: Vec<Target> = apps.iter().map(|app| Target::Pid(app.pid())).collect();
    let range = apps[0].range(region);
    let first = apps[0].pid();
    assert_eq!(range.end - range.start, BYTES);
    let settled = |options: &Options| {
        let outcome = migrate(&targets, options);
        assert_complete(&outcome);
        let plan = inspect(&targets, options).plan;
        let of_region = |each: &&numaloc_core::Move| {
            each.mappings.iter().any(|mapping| {
                let process = &plan.processes[mapping.process].process;
                process.identity.pid == first && range.contains(&mapping.start)
            })
        };
        assert_eq!(plan.moves.iter().find(of_region), None, "{options:?}");
        outcome
    };
    settled(&placed_by("interleave:0-1"));
    assert_spread(&apps[0], region, bytes, &[0, 1]);
    settled(&placed_by("weighted:0=3,1=1"));
    assert_spread(&apps[0], region, bytes, &[0, 0, 0, 1]);
    settled(&placed_by("block:0-1"));
    assert_blocks(&apps[0], region, &[0, 1]);
    let before = on(&Truth::of(first).region(range.clone()), 0);
    let moved = settled(&placed_by("balance:0=1,1=3")).account().moved_bytes();
    assert_shares(&apps[0], region, &[1, 3]);
    let surplus = before - BYTES / 4;
    // The program itself, with its libraries, is balanced as well.
    assert!(moved <= surplus + surplus / 100 + SLACK * apps.len() as u64, "{moved} of {surplus}");
    if region == "thp" {
        assert_eq!(huge_bytes(first, range), BYTES, "huge pages stay whole");
    }
    for app in apps {
        app.check();
    }
}

/// The placements of memory of one process, beside a control process with memory of the same kind.
fn assert_placements_of(region: &str, bytes: u64) {
    let _still = Setting::still_host();
    let control = Layout::remote(&[&format!("{region}:16M")]).on("0,1").control();
    let before = Truth::of(control.pid());
    let large = Layout::remote(&[&format!("{region}:512M:{FEW_WORDS}")]).on("0,1").start("large");
    assert_placements(&mut [large], region, bytes);
    let after = Truth::of(control.pid());
    assert_eq!(after.without_files(), before.without_files(), "control moved");
}

#[test]
fn base_pages_in_all_placements() {
    assert_placements_of("anon", page_size());
}

#[test]
fn huge_pages_in_all_placements() {
    assert_placements_of("thp", pmd_size());
}

#[test]
fn pages_of_a_pool_in_all_placements() {
    let _pools = (Setting::huge_pool(0, 400), Setting::huge_pool(1, 400));
    assert_placements_of("hugetlb", HUGETLB_BYTES);
}

#[test]
fn a_segment_of_eight_in_all_placements() {
    let segment = format!("seg=file:/dev/shm/large:512M:dirty:{FEW_WORDS}");
    let _still = Setting::still_host();
    let layout = Layout::remote(&[&segment]).on("0,1").load("idle");
    let app = |index: u32| layout.start(&format!("mapper{index}"));
    assert_placements(&mut (0..8).map(app).collect::<Vec<_>>(), "seg", page_size());
    fs::remove_file("/dev/shm/large").expect("it is there");
}

//! A folio is the target's only if each of its pages is.

use super::*;
use crate::{
    fake::Fake,
    files::kpage::{COMPOUND_HEAD, COMPOUND_TAIL},
};
use std::fs;

const FOLIO: u64 = 512;
const PAGES: u64 = 16;

fn words(fake: &Fake, path: &str, words: impl Iterator<Item = u64>) {
    fake.write(path, "");
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    fs::write(fake.path(path), bytes).expect("a temporary directory");
}

/// The ownership of the first `seen` pages of a memory whose 16 pages are one folio, as (pages, ownership). Each
/// process shows the pages that `shows` is true for, and the kernel counts `counts` mappings.
fn found_if(
    processes: i32,
    seen: u64,
    shows: impl Fn(i32, u64) -> bool,
    counts: impl Fn(u64) -> u64,
    ruled_out: RuledOut,
) -> Vec<(u64, Ownership)> {
    let fake = Fake::new();
    fake.write("sys/devices/system/node/online", "0");
    let flags = |pfn: u64| match pfn {
        FOLIO => COMPOUND_HEAD,
        _ if (FOLIO..FOLIO + PAGES).contains(&pfn) => COMPOUND_TAIL,
        _ => 0,
    };
    words(&fake, "proc/kpageflags", (0..2 * FOLIO).map(flags));
    let of_page = |pfn: u64| if pfn < FOLIO { 0 } else { counts(pfn - FOLIO) };
    words(&fake, "proc/kpagecount", (0..FOLIO + PAGES).map(of_page));
    let spaces: Vec<AddressSpace> = (0..processes)
        .map(|process| {
            fake.process(100 + process, "app", &["0"]);
            let entry = |page: u64| {
                if shows(process, page) {
                    1 << 63 | 1 << 61 | u64::from(counts(page) == 1) << 56 | (FOLIO + page)
                } else {
                    0
                }
            };
            fs::remove_file(fake.path(&format!("proc/{}/pagemap", 100 + process))).ok();
            words(&fake, &format!("proc/{}/pagemap", 100 + process), (0..PAGES).map(entry));
            fake.space(100 + process)
        })
        .collect();
    let mappings: Vec<Mapping> =
        (0..spaces.len()).map(|process| Mapping { process, start: 0 }).collect();
    let claims: Claims = spaces.iter().map(|_| numaloc_core::Claim::default()).collect();
    let scanned = Scanned {
        spaces: &spaces,
        claims: &claims,
        mappings: &mappings,
        pages: &Pages::All,
        mappers: Mappers::Counted,
        hugetlb_bytes: None,
        ruled_out,
    };
    let page_access = PageAccess::new(&fake.roots()).expect("one node");
    let page_access = PageAccess { source: Source::Pagemap, ..page_access };
    let mut scanner = Scanner::new(&fake.roots(), &page_access, Precision::Exact);
    let mut found = Vec::new();
    let mut visit = |run: PageRun<'_>| {
        assert_eq!(run.entries.len() as u64 * page_size(), run.bytes);
        found.push((run.bytes / page_size(), run.ownership));
    };
    scanner.scan(&scanned, 0..seen * page_size(), &mut visit).expect("it scans");
    found
}

fn found(
    processes: i32,
    seen: u64,
    shows: impl Fn(i32, u64) -> bool,
    counts: impl Fn(u64) -> u64,
) -> Vec<(u64, Ownership)> {
    found_if(processes, seen, shows, counts, RuledOut::default())
}

#[test]
fn where_no_stranger_maps_the_file_counts_say_nothing() {
    let none = RuledOut { file: true, anonymous: false };
    let other = RuledOut { file: false, anonymous: true };
    for processes in [1, 2] {
        let found = |ruled_out| found_if(processes, PAGES, |_, _| true, |_| 3, ruled_out);
        assert_eq!(found(none), [(PAGES, Ownership::Family)], "{processes} processes");
        assert_eq!(found(other), [(PAGES, Ownership::Stranger)], "{processes} processes");
    }
    let third = |_: i32, page: u64| page == 3;
    assert_eq!(found_if(2, PAGES, third, |_| 2, none), [(1, Ownership::Family)]);
}

#[test]
fn a_page_of_a_folio_that_strangers_map_elsewhere_is_theirs_too() {
    let third = |_: i32, page: u64| page == 3;
    let with_stranger = |ours: u64| {
        move |page: u64| match page {
            3 => ours,
            4 => 1,
            _ => 0,
        }
    };
    for (processes, alone) in [(1, Ownership::Exclusive), (2, Ownership::Family)] {
        let ours = processes as u64;
        let strangers = found(processes, PAGES, third, with_stranger(ours));
        assert_eq!(strangers, [(1, Ownership::Stranger)], "{processes} processes");
        let counted = |page: u64| if page == 3 { ours } else { 0 };
        assert_eq!(found(processes, PAGES, third, counted), [(1, alone)], "{processes} processes");
    }
}

#[test]
fn what_the_target_shows_outside_of_the_part_is_its_own() {
    let all = |_: i32, _: u64| true;
    for (processes, ownership) in [(1, Ownership::Exclusive), (2, Ownership::Family)] {
        let ours = processes as u64;
        assert_eq!(found(processes, 5, all, |_| ours), [(5, ownership)]);
        let one_more = |page: u64| ours + u64::from(page == 9);
        assert_eq!(found(processes, 5, all, one_more), [(5, Ownership::Stranger)]);
    }
}

#[test]
fn a_part_that_others_map_is_theirs_and_so_is_the_rest_of_its_folio() {
    let all = |_: i32, _: u64| true;
    let one_more = |page: u64| 1 + u64::from(page == 9);
    let pages = found(1, PAGES, all, one_more);
    assert!(pages.iter().all(|&(_, ownership)| ownership == Ownership::Stranger), "{pages:?}");
    assert_eq!(pages.iter().map(|found| found.0).sum::<u64>(), PAGES);
}

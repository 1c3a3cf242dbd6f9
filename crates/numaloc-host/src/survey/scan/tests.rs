//! A page that cannot be read is an error, not an absent page.

use super::*;
use crate::survey::scan::huge::probe_max;
use crate::{fake::Fake, files::frames::FrameNodes};
use numaloc_core::{Claim, NodeSet, number};
use std::{fs, sync::Arc};

/// The content of a page map.
pub(super) enum Content {
    /// Reading fails with EISDIR, because a directory is in its place.
    Error,
    /// Pages that no other process maps.
    Pages(usize),
}

pub(super) fn space(fake: &Fake, pid: i32, content: Content) -> AddressSpace {
    fake.process(pid, "app", &["0"]);
    let path = fake.path(&format!("proc/{pid}/pagemap"));
    fs::remove_file(&path).expect("a process has one");
    let page = 1u64 << 63 | 1 << 56 | 7;
    match content {
        Content::Error => fs::create_dir(path).expect("a directory"),
        Content::Pages(count) => fs::write(path, page.to_ne_bytes().repeat(count)).expect("a file"),
    }
    fake.space(pid)
}

pub(super) fn scanner(fake: &Fake) -> Scanner {
    fake.write("sys/devices/system/node/online", "0");
    let page_access = PageAccess::new(&fake.roots()).expect("one node");
    let page_access = PageAccess { source: Source::Pagemap, ..page_access };
    Scanner::new(&fake.roots(), &page_access, Precision::Exact)
}

fn scan(fake: &Fake, spaces: &[AddressSpace]) -> Result<u64, Error> {
    let mappings: Vec<Mapping> =
        (0..spaces.len()).map(|process| Mapping { process, start: 0 }).collect();
    let claim = Claim { home: NodeSet::new(), allowed: NodeSet::new(), ..Claim::default() };
    let claims: Claims = spaces.iter().map(|_| claim.clone()).collect();
    let (claims, mappings, pages) = (&claims, &mappings, &Pages::All);
    let scanned = Scanned::counted(spaces, claims, mappings, pages);
    let mut bytes = 0;
    scanner(fake).scan(&scanned, 0..64 * page_size(), &mut |run| bytes += run.bytes)?;
    Ok(bytes)
}

#[test]
fn a_page_map_that_cannot_be_read_is_an_error() {
    let fake = Fake::new();
    let space = space(&fake, 100, Content::Error);
    let mut places = Vec::new();
    let located = scanner(&fake).locate(&space, 0, 4, &mut places);
    let spaces = [space];
    for error in [scan(&fake, &spaces).expect_err("it scans"), located.expect_err("it locates")] {
        assert!(matches!(error, Error::Pages { pid: 100, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("process 100 (app): reading its pagemap"), "{text}");
    }
    assert_eq!(places, []);
    assert!(spaces[0].is_alive(), "nothing says that it has ended");
}

#[test]
fn an_address_space_that_has_ended_has_no_pages() {
    let fake = Fake::new();
    let ended = space(&fake, 100, Content::Pages(1));
    // The pagemap of an address space that has ended reads as empty.
    fs::write(fake.path("proc/100/pagemap"), "").expect("a file");
    let mut places = Vec::new();
    scanner(&fake).locate(&ended, 0, 2, &mut places).expect("no error");
    assert_eq!(places, [PageLocation::Absent; 2]);
    assert_eq!(scan(&fake, &[ended]).expect("no error"), 0);
}

#[test]
fn of_a_family_one_may_end_and_none_may_be_unreadable() {
    let fake = Fake::new();
    let mut spaces =
        vec![space(&fake, 100, Content::Pages(64)), space(&fake, 200, Content::Pages(1))];
    fs::write(fake.path("proc/200/pagemap"), "").expect("a file");
    assert_eq!(scan(&fake, &spaces).expect("no error"), 64 * page_size());
    spaces.push(space(&fake, 300, Content::Error));
    assert!(matches!(scan(&fake, &spaces), Err(Error::Pages { pid: 300, .. })));
}

/// Two processes and a stranger map pages. If one of the two ends after its page map was read, the kernel counts two mappings, too.
#[test]
fn what_a_stranger_maps_stays_his_if_one_of_the_target_ends() {
    const SHARED: u64 = 512;
    let fake = Fake::new();
    let entry = |page: u64| 1u64 << 63 | (page + 1);
    let shared: Vec<u8> = (0..SHARED).flat_map(|page| entry(page).to_ne_bytes()).collect();
    let path = |pid: i32| fake.path(&format!("proc/{pid}/pagemap"));
    let spaces = [100, 200, 300].map(|pid| space(&fake, pid, Content::Pages(SHARED as usize)));
    fake.write("proc/kpagecount", "");
    let counts = 2u64.to_ne_bytes().repeat(2 * SHARED as usize);
    fs::write(fake.path("proc/kpagecount"), counts).expect("a file");
    let claims: Claims = spaces.iter().map(|_| Claim::default()).collect();
    let mappings = [0, 1, 2].map(|process| Mapping { process, start: 0 });
    let (claims, mappings, pages) = (&claims, &mappings, &Pages::All);
    let scanned = Scanned::counted(&spaces, claims, mappings, pages);
    let owners = |ends: bool| {
        for pid in [100, 200] {
            fs::write(path(pid), &shared).expect("a file");
        }
        let mut found = Vec::new();
        let mut visit = |run: PageRun<'_>| {
            // Pages of the third process are visited before pages that the others share.
            if ends && run.mapping == 2 {
                fs::write(path(200), "").expect("a file");
            }
            found.push((run.mapping, run.bytes / page_size(), run.ownership));
        };
        scanner(&fake).scan(&scanned, 0..SHARED * page_size(), &mut visit).expect("it scans");
        found
    };
    let own = (2, SHARED, Ownership::Exclusive);
    assert_eq!(owners(false), [own, (0, SHARED, Ownership::Family)]);
    assert_eq!(owners(true), [own, (0, SHARED, Ownership::Stranger)]);
}

/// This process, whose pages have real frames; `None`, reported as skipped, if frames are hidden from this user.
pub(in crate::survey) fn this_process(roots: &Roots) -> Option<(AddressSpace, PageAccess)> {
    let topology = crate::nodes::topology::topology(roots).expect("this machine's");
    let process = crate::processes::process::read(roots, std::process::id() as i32, &topology);
    let process = process.expect("this process");
    let space = AddressSpace::open(&Arc::new(roots.clone()), process).expect("it is readable");
    let page_access = PageAccess::new(roots).expect("nodes");
    if page_access.source == Source::Query {
        println!("SKIPPED: frames are hidden from this user");
        return None;
    }
    Some((space.expect("it lives"), page_access))
}

/// The table of frames does not know the memory of this process, and the kernel does.
#[test]
fn memory_that_came_online_later_is_found() {
    let roots = Roots::default();
    let Some((space, page_access)) = this_process(&roots) else { return };
    let page_access = PageAccess { frames: Arc::new(FrameNodes::empty()), ..page_access };
    let memory = vec![1u8; 4 * page_size() as usize];
    let address = (memory.as_ptr() as u64).next_multiple_of(page_size());
    let mut places = vec![PageLocation::Unknown];
    let mut scanner = Scanner::new(&roots, &page_access, Precision::Exact);
    scanner.locate(&space, address, 2, &mut places).expect("no error");
    assert_eq!(
        places,
        [PageLocation::Unknown, PageLocation::On(NodeId(0)), PageLocation::On(NodeId(0))]
    );
}

/// Several nodes have frames in each block, so no table tells the node of a frame. The kernel does.
#[test]
fn pages_in_blocks_that_nodes_share_are_asked_for() {
    let roots = Roots::default();
    let Some((space, page_access)) = this_process(&roots) else { return };
    let page_access = PageAccess { frames: Arc::new(FrameNodes::all_ambiguous()), ..page_access };
    let memory = vec![1u8; 8 * pmd_size() as usize];
    let start = (memory.as_ptr() as u64).next_multiple_of(pmd_size());
    let (spaces, claims) = ([space], [Claim::default()].into_iter().collect());
    let mappings = &[Mapping { process: 0, start }];
    let (pages, mappers, hugetlb_bytes) = (&Pages::All, Mappers::Counted, None);
    let scanned = Scanned {
        spaces: &spaces,
        claims: &claims,
        mappings,
        pages,
        mappers,
        hugetlb_bytes,
        ruled_out: RuledOut::default(),
    };
    let mut scanner = Scanner::new(&roots, &page_access, Precision::Exact);
    let (mut placed, bytes) = (0, 4 * pmd_size());
    let mut visit = |run: PageRun<'_>| placed += if run.node.is_some() { run.bytes } else { 0 };
    scanner.scan(&scanned, 0..bytes, &mut visit).expect("no error");
    assert_eq!(placed, bytes);
}

#[test]
fn small_hugetlb_pages_are_not_taken_for_pages_of_2_mib() {
    let fake = Fake::new();
    let space = &space(&fake, 100, Content::Pages(1));
    let (start, lookup, mappers) = (0, false, Mappers::Counted);
    let is_whole = |hugetlb_bytes| {
        let ruled_out = RuledOut::default();
        MappedView { space, start, lookup, mappers, hugetlb_bytes, ruled_out }.has_whole_huge()
    };
    assert!(is_whole(None) && is_whole(Some(pmd_size())) && is_whole(Some(1 << 30)));
    assert!(!is_whole(Some(64 << 10)));
}

#[test]
fn the_first_page_behind_a_hole_is_found() {
    let roots = Roots::default();
    let Some((space, page_access)) = this_process(&roots) else { return };
    let mut memory = vec![0u8; number::index(probe_max() + 8 * pmd_size())];
    let start = (memory.as_ptr() as u64).next_multiple_of(pmd_size());
    let (end, touched) =
        (start + probe_max() + 6 * pmd_size(), start + probe_max() + 4 * pmd_size() + page_size());
    let index = number::index(touched - memory.as_ptr() as u64);
    memory[index] = 1;
    let can_scan = page_access.can_scan;
    let mut scanner = Scanner::new(&roots, &page_access, Precision::Exact);
    let mut first = |addresses| scanner.first_present(&space, addresses).expect("no error");
    if can_scan {
        // It may be a huge page.
        assert_eq!(first(start..end) / pmd_size(), touched / pmd_size());
        assert_eq!(first(touched + pmd_size()..end), end);
        assert_eq!(first(touched..end), touched);
    } else {
        println!("SKIPPED: this kernel has no PAGEMAP_SCAN");
    }
    let without = PageAccess { can_scan: false, ..page_access };
    let mut scanner = Scanner::new(&roots, &without, Precision::Exact);
    assert_eq!(scanner.first_present(&space, start..end).expect("no error"), start);
}

use super::*;
use crate::{
    fake::{Fake, anonymous},
    files::pagemap::Entries,
    limits::probe,
};
use numaloc_core::pmd_size;

fn here() -> Mapping {
    Mapping { process: 0, start: stretch_bytes() - 2 * page_size() }
}

/// A host whose frames from 8192 on are huge pages.
fn host() -> Fake {
    let fake = Fake::new();
    let flags = |pfn: u64| match pfn {
        ..8192 => 0,
        pfn if pfn.is_multiple_of(pmd_pages()) => COMPOUND_HEAD,
        _ => COMPOUND_TAIL,
    };
    let bytes: Vec<u8> = (0..16384).flat_map(|pfn| flags(pfn).to_ne_bytes()).collect();
    fake.write("proc/kpageflags", "");
    std::fs::write(fake.path("proc/kpageflags"), bytes).expect("a temporary directory");
    fake
}

fn keeper_on(host: &Fake) -> Option<StretchKeeper> {
    let roots = host.roots();
    StretchKeeper::new(&roots, probe::small_folios(&roots))
}

/// What is kept of pages, each with its number, frame, node and whether it is exclusive.
fn kept(pages: &[(u64, u64, u32, Ownership)]) -> Vec<SeenStretch> {
    let host = host();
    let mut keeper = keeper_on(&host).expect("folios are base or huge pages");
    let extent = anonymous(here().start, 8 * stretch_bytes());
    let mut notes = keeper.begin(&extent, &Claim::default()).expect("it is private");
    for &(page, frame, node, ownership) in pages {
        let bytes = frame.to_ne_bytes();
        notes.add(&PageRun {
            offset: page * page_size() - here().start,
            bytes: page_size(),
            node: Some(NodeId(node)),
            ownership,
            entries: Entries::of(&bytes),
            ..PageRun::default()
        });
    }
    notes.into_stretches()
}

/// As [`kept`], of exclusive pages at frames that no huge page has there.
fn kept_plain(pages: impl IntoIterator<Item = (u64, u32)>) -> Vec<SeenStretch> {
    let page = |(page, node)| (page, page % 512 + 1, node, Ownership::Exclusive);
    kept(&pages.into_iter().map(page).collect::<Vec<_>>())
}

fn stretch(seen: &SeenPages, number: u64) -> Option<&SeenStretch> {
    seen.stretch(here(), number * stretch_bytes())
}

#[test]
fn the_remote_pages_of_each_stretch_are_kept() {
    let pages = [510, 511, 512, 514, 515, 1023, 1024].map(|page| (page, 1));
    let seen = SeenPages::new(kept_plain(pages), Instant::now());
    let remote = |number, pages: Range<u64>| {
        let addresses = pages.start * page_size()..pages.end * page_size();
        let ranges = stretch(&seen, number).expect("it has remote pages").remote(addresses);
        ranges.map(|range| (range.start / page_size(), range.end / page_size())).collect::<Vec<_>>()
    };
    assert!(seen.are_fresh());
    assert_eq!(remote(0, 0..4096), [(510, 512)]);
    assert_eq!(remote(1, 0..4096), [(512, 513), (514, 516), (1023, 1024)]);
    assert_eq!(remote(1, 515..1023), [(515, 516)]);
    assert_eq!(remote(1, 1024..4096), []);
    assert_eq!(remote(2, 0..4096), [(1024, 1025)]);
    assert_eq!(stretch(&seen, 3), None);
    let other = Mapping { start: 0, ..here() };
    assert_eq!(seen.stretch(other, stretch_bytes()), None, "another mapping");
}

#[test]
fn what_is_old_or_does_not_hold_is_not_used() {
    let stretches = || kept_plain([(512, 1)]);
    assert!(!SeenPages::new(Vec::new(), Instant::now()).are_fresh());
    let seen = SeenPages::new(stretches(), Instant::now());
    seen.outdate();
    assert!(!seen.are_fresh());
    if let Some(before) = Instant::now().checked_sub(FRESH) {
        assert!(!SeenPages::new(stretches(), before).are_fresh());
    }
}

#[test]
fn a_stretch_with_pages_of_two_nodes_or_of_others_is_scanned_again() {
    let two = kept_plain([(512, 1), (513, 2), (514, 1), (1024, 2)]);
    assert_eq!(
        two.iter().map(|stretch| stretch.address / stretch_bytes()).collect::<Vec<_>>(),
        [2]
    );
    for ownership in [Ownership::Family, Ownership::Stranger, Ownership::Several] {
        let own = (513, 7, 1, Ownership::Exclusive);
        assert_eq!(kept(&[(512, 1, 1, ownership), own]), []);
        assert_eq!(kept(&[own, (514, 1, 1, ownership)]), []);
    }
}

#[test]
fn a_part_of_a_huge_page_is_scanned_again() {
    let own = |page: u64, frame: u64| kept(&[(page, frame, 1, Ownership::Exclusive)]).len();
    let pages = pmd_pages();
    assert_eq!(own(pages + 3, 8192 + 3), 0, "it is one");
    assert_eq!(own(pages + 3, pages + 3), 1, "its frame would do");
    assert_eq!(own(pages + 3, 8192 + 4), 1, "it is one elsewhere");
    assert_eq!(own(pages + 3, 1 << 40 | 3), 0, "its frame has no flags");
    let row: Vec<_> = (0..pages).map(|at| (pages + at, at, 1, Ownership::Exclusive)).collect();
    assert_eq!(kept(&row).len() as u64, pages / PAGES, "base pages in a row");
}

#[test]
fn memory_of_several_or_with_several_homes_is_not_kept() {
    let host = host();
    let mut keeper = keeper_on(&host).expect("folios are base or huge pages");
    let plain = anonymous(0, pmd_size());
    let mut is_kept = |extent: Extent| keeper.begin(&extent, &Claim::default()).is_some();
    assert!(is_kept(plain.clone()));
    assert!(is_kept(Extent { pages: Pages::Own, ..plain.clone() }));
    assert!(!is_kept(anonymous(0, stretch_bytes() - page_size())), "smaller than a stretch");
    assert!(!is_kept(Extent { kind: Kind::Shmem, ..plain.clone() }));
    assert!(!is_kept(Extent { hugetlb_bytes: Some(pmd_size()), ..plain.clone() }));
    let two = [0, 1].map(|process| Mapping { process, start: 0 }).to_vec();
    assert!(!is_kept(Extent { mappings: two, ..plain.clone() }));
    let sizes = "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
    host.write(sizes, "[always] inherit madvise never\n");
    assert!(keeper_on(&host).is_none(), "folios of 64 KiB");
}

#[test]
fn a_range_is_divided_into_what_was_kept_and_the_rest() {
    let seen = SeenPages::new(kept_plain([(512, 1), (1024, 1), (4 * 512, 1)]), Instant::now());
    let stretch = |number| stretch(&seen, number);
    let at = |number: u64| number * stretch_bytes() - here().start;
    let all = seen.divide(here(), 0..8 * stretch_bytes());
    let expected = [
        (0..at(1), None),
        (at(1)..at(2), stretch(1)),
        (at(2)..at(3), stretch(2)),
        (at(3)..at(4), None),
        (at(4)..at(5), stretch(4)),
        (at(5)..8 * stretch_bytes(), None),
    ];
    assert_eq!(all, expected);
    let part = at(1) + page_size()..at(2) - page_size();
    assert_eq!(seen.divide(here(), part.clone()), [(part, stretch(1))]);
    assert_eq!(seen.divide(here(), 7..7), []);
}

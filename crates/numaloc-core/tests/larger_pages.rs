//! Values that count in pages, with pages of each size that kernels have. In a program of its own: the size of pages is one
//! for a whole process.
#![forbid(unsafe_code)]

use numaloc_core::{
    Chunks, NodeId, Origin, SMALLEST_PAGE, Supply,
    file_cache::{FileCache, piece_bytes},
    grains::{Grains, Raster, grain_bytes},
    page_size, pmd_pages, pmd_size,
    supply::can_be_fresh,
};

const MIB: u64 = 1 << 20;
const NODE: NodeId = NodeId(3);

#[test]
fn sizes_follow_from_that_of_base_pages() {
    for (shift, huge) in [(12, 2 * MIB), (14, 32 * MIB), (16, 512 * MIB)] {
        numaloc_sys::assume_page_shift(shift);
        assert_eq!((page_size(), pmd_size()), (1 << shift, huge));
        assert_eq!(page_size() % SMALLEST_PAGE, 0);
        assert_eq!(Supply::base().page_bytes, page_size());
        assert!(can_be_fresh(huge) && !can_be_fresh(1 << 34), "the allocator has a huge page");
        chunks_are_huge_pages();
        grains_are_of_whole_pages();
        a_piece_of_a_file_is_counted_whole();
        huge_pages_take_turns();
    }
}

fn chunks_are_huge_pages() {
    let (page, huge) = (page_size(), pmd_size());
    let (start, bytes) = (7 * huge - page, 3 * huge);
    let mut chunks = Chunks::default();
    chunks.add(start, 0..page);
    chunks.add(start, huge..huge + page);
    let ranges = chunks.ranges(start, bytes).map(|range| (range.start, range.end));
    assert_eq!(ranges.collect::<Vec<_>>(), [(0, page + huge)], "no huge page is cut");
    assert_eq!(chunks.bytes(), 2 * huge);
}

fn grains_are_of_whole_pages() {
    for bytes in [page_size(), 64 * MIB, 1 << 40] {
        let size = grain_bytes(bytes, None);
        assert!(size.is_multiple_of(page_size()) && pmd_size().is_multiple_of(size), "{size}");
    }
    let raster = Raster { start: pmd_size(), size: grain_bytes(64 * MIB, None) };
    let mut grains = Grains::default();
    grains.add(NODE, raster, 0..3 * page_size(), false);
    grains.add(NODE, raster, 2 * pmd_size()..3 * pmd_size(), true);
    let all = 3 * page_size() + pmd_size();
    assert_eq!(grains.bytes().collect::<Vec<_>>(), [(NODE, all)]);
    let taken = grains.take(NODE, raster.start, 0, all);
    assert_eq!((taken.bytes, taken.is_all), (all, true));
    let part = grains.take(NODE, raster.start, 0, all - page_size());
    assert_eq!((part.bytes, part.is_all), (3 * page_size(), false), "the huge page stays whole");
}

fn a_piece_of_a_file_is_counted_whole() {
    let mut cache = FileCache::default();
    cache.add(0, &[(NODE, piece_bytes())].into());
    cache.add(9, &[(NODE, page_size())].into());
    assert_eq!(cache.bytes(), piece_bytes() + page_size());
}

fn huge_pages_take_turns() {
    let origin = Origin { first_page: 4 * pmd_pages(), ..Origin::default() };
    let offset = i64::try_from(pmd_size()).expect("a length");
    assert_eq!(origin.index(offset, pmd_size()), 5);
    assert_eq!(origin.index(offset, page_size()), 5 * pmd_pages());
}

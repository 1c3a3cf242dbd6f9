//! Keeps which pages are to be tried again: one bit per page. Pure.
//!
//! A bit says that a page was found remote and is not settled yet. It does not say what is there later: a later visit scans again,
//! and the bits tell which of the pages that it finds were found before. So no page is found twice. Pages whose bits are still
//! set after the visit have vanished.

use numaloc_core::{Move, number, page_size};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Bits are kept in chunks of this many pages of an extent. A chunk begins at a multiple of it, in addresses of the first
/// mapping.
const EACH: u64 = 512;
/// Bytes of a window, in whole chunks. No page has parts in two windows.
const WINDOW_BYTES: u64 = 1 << 30;
/// Most chunks that the workers with which a run begins keep together: they cover 256 GiB of pages of 4 KiB. A
/// chunk takes 80 bytes in B-tree nodes that are at least about half full, so 24 MiB in all.
pub const MOST: usize = 1 << 17;

/// The key of a chunk. It is sorted by place first, so that neighbouring chunks follow each other, whatever their accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChunkKey {
    move_index: u32,
    chunk: u64,
    account: u32,
}

/// A bit for each page of a chunk.
type Bits = [u64; (EACH / 64) as usize];

/// Bytes of a chunk.
fn chunk_bytes() -> u64 {
    EACH * page_size()
}

/// Most chunks of a window.
fn window_chunks() -> u64 {
    WINDOW_BYTES / chunk_bytes()
}

/// The pages of a plan's extents that are to be tried again.
#[derive(Debug)]
pub struct Deferred<'p> {
    moves: &'p [Move],
    most: usize,
    chunks: BTreeMap<ChunkKey, Bits>,
}

impl<'p> Deferred<'p> {
    /// Begins without pages, and never keeps more than `most` chunks.
    pub fn new(moves: &'p [Move], most: usize) -> Self {
        Self { moves, most, chunks: BTreeMap::new() }
    }

    /// Whether no page is kept.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Takes all pages out, for the next pass over them.
    pub fn take(&mut self) -> Self {
        Self { chunks: std::mem::take(&mut self.chunks), ..*self }
    }

    /// Adds the pages at `bytes` from the start of the extent of move `move_index`, in the account of a process. Returns how many
    /// bytes of them had not been added before; `None` if they could not be kept.
    pub fn add(&mut self, move_index: usize, account: usize, bytes: Range<u64>) -> Option<u64> {
        let places = || {
            masks(self.skew(move_index), bytes.clone())
                .map(|(chunk, _)| place(move_index, chunk, account))
        };
        let new = places().filter(|place| !self.chunks.contains_key(place)).count();
        if self.chunks.len() + new > self.most {
            return None;
        }
        let mut added_pages = 0;
        for (chunk, mask) in masks(self.skew(move_index), bytes) {
            let bits = self.chunks.entry(place(move_index, chunk, account)).or_default();
            for (bits, mask) in bits.iter_mut().zip(mask) {
                added_pages += u64::from((mask & !*bits).count_ones());
                *bits |= mask;
            }
        }
        Some(added_pages * page_size())
    }

    /// Takes out the first window.
    pub fn next(&mut self) -> Option<Marks> {
        let (&first, _) = self.chunks.first_key_value()?;
        let limit = (first.chunk / window_chunks() + 1) * window_chunks();
        let mut chunks = BTreeMap::new();
        let mut end = first.chunk;
        while let Some(entry) = self.chunks.first_entry()
            && entry.key().move_index == first.move_index
            && entry.key().chunk <= end
            && entry.key().chunk < limit
        {
            end = entry.key().chunk + 1;
            let (place, bits) = entry.remove_entry();
            chunks.insert(place, bits);
        }
        let move_index = first.move_index as usize;
        let skew = self.skew(move_index);
        let at = |chunk: u64| (chunk * chunk_bytes()).saturating_sub(skew);
        let range = at(first.chunk)..at(end).min(self.moves[move_index].bytes);
        Some(Marks { move_index, range, skew, chunks })
    }

    /// Bytes from the start of an extent's first chunk to the start of the extent.
    fn skew(&self, move_index: usize) -> u64 {
        self.moves[move_index].mappings[0].start % chunk_bytes()
    }
}

/// The marked pages of a window.
#[derive(Debug)]
pub struct Marks {
    /// Index of the extent among the plan's moves.
    pub move_index: usize,
    /// Bytes from the extent's start.
    pub range: Range<u64>,
    skew: u64,
    chunks: BTreeMap<ChunkKey, Bits>,
}

impl Marks {
    /// The accounts of marked pages.
    pub fn accounts(&self) -> BTreeSet<usize> {
        self.chunks.keys().map(|place| place.account as usize).collect()
    }

    /// Takes out the marks of the pages at `bytes` from the extent's start in the account of a process. Returns these pages in
    /// order.
    pub fn take(&mut self, account: usize, bytes: Range<u64>) -> Vec<Range<u64>> {
        let mut taken: Vec<Range<u64>> = Vec::new();
        for (chunk, mask) in masks(self.skew, bytes) {
            let place = place(self.move_index, chunk, account);
            let Some(bits) = self.chunks.get_mut(&place) else { continue };
            for (word, (bits, mask)) in (0..).zip(bits.iter_mut().zip(mask)) {
                let mut both = *bits & mask;
                *bits &= !mask;
                while both != 0 {
                    let page = word * 64 + u64::from(both.trailing_zeros());
                    both &= both - 1;
                    let start = chunk * chunk_bytes() + page * page_size() - self.skew;
                    match taken.last_mut() {
                        Some(last) if last.end == start => last.end += page_size(),
                        _ => taken.push(start..start + page_size()),
                    }
                }
            }
        }
        taken
    }

    /// The bytes that are still marked: an account and bytes for each chunk.
    pub fn rest(self) -> impl Iterator<Item = (usize, u64)> {
        let pages = |bits: Bits| bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let rest = self.chunks.into_iter();
        let rest =
            rest.map(move |(place, bits)| (place.account as usize, pages(bits) * page_size()));
        rest.filter(|&(_, bytes)| bytes > 0)
    }
}

fn place(move_index: usize, chunk: u64, account: usize) -> ChunkKey {
    ChunkKey { move_index: number::small(move_index), chunk, account: number::small(account) }
}

/// The chunks in which `bytes` lie, each with a bit for each page of `bytes` there.
fn masks(skew: u64, bytes: Range<u64>) -> impl Iterator<Item = (u64, Bits)> {
    let pages = (skew + bytes.start) / page_size()..(skew + bytes.end).div_ceil(page_size());
    (pages.start / EACH..pages.end.div_ceil(EACH)).map(move |chunk| {
        let mut bits = Bits::default();
        let first = pages.start.max(chunk * EACH) - chunk * EACH;
        let end = pages.end.min((chunk + 1) * EACH) - chunk * EACH;
        (first..end).for_each(|page| bits[(page / 64) as usize] |= 1 << (page % 64));
        (chunk, bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Chunks, Kind, Mapping, NodeId, Pages};
    use proptest::{collection::vec, prelude::*, sample::select};

    fn planned_move(start: u64, bytes: u64) -> Move {
        Move {
            mappings: vec![Mapping { process: 0, start }],
            pages: Pages::All,
            bytes,
            kind: Kind::Anonymous,
            hugetlb_bytes: None,
            mappers: Default::default(),
            stripe: None,
            rule: None,
            name: "".into(),
            routes: 0,
            remote: [(NodeId(1), bytes)].into(),
            shared_bytes: 0,
            away: Chunks::whole(start, bytes),
        }
    }

    /// All windows, one after the other.
    fn windows(mut deferred: Deferred<'_>) -> Vec<Marks> {
        std::iter::from_fn(|| deferred.next()).collect()
    }

    /// The extents of the property tests: one begins in the middle of a chunk, the other is longer than a window.
    fn extents() -> [Move; 2] {
        [
            planned_move(chunk_bytes() - 3 * page_size(), 9 * chunk_bytes()),
            planned_move(0, (window_chunks() + 3) * chunk_bytes()),
        ]
    }

    /// A folio somewhere in them: extent, process, first page, number of pages.
    fn folio() -> impl Strategy<Value = (usize, usize, u64, u64)> {
        let pages = select(vec![1, 1, 1, 16, 512, 1024]);
        (0..2usize, 0..3usize, 0..1000u64, pages).prop_map(|(move_index, process, at, pages)| {
            let extent = extents()[move_index].bytes / page_size();
            // The factor 263 puts some of them at the end of the first window.
            let first = if move_index == 1 { at * 263 } else { at * 4 };
            (move_index, process, first.min(extent - pages), pages)
        })
    }

    proptest! {
        /// Each page is settled once: by a later visit that finds it, or with the rest.
        #[test]
        fn each_page_comes_out_once(
            folios in vec(folio(), 0..60),
            visits in vec(folio(), 0..60),
        ) {
            let (moves, mut model) = (extents(), BTreeSet::new());
            let mut deferred = Deferred::new(&moves, MOST);
            for (move_index, process, first, pages) in folios {
                prop_assert!(deferred.add(move_index, process, first * page_size()..(first + pages) * page_size()).is_some());
                model.extend((first..first + pages).map(|page| (move_index, process, page)));
            }
            for mut marks in windows(deferred) {
                let move_index = marks.move_index;
                for &(_, process, first, pages) in visits.iter().filter(|visit| visit.0 == move_index) {
                    let visited = first * page_size()..(first + pages) * page_size();
                    for taken in marks.take(process, visited.clone()) {
                        prop_assert!(visited.start <= taken.start && taken.end <= visited.end);
                        let taken = taken.start / page_size()..taken.end / page_size();
                        prop_assert!(taken.into_iter().all(|page| model.remove(&(move_index, process, page))));
                    }
                }
                let within = |&&(of, _, page): &&(usize, usize, u64)| {
                    of == move_index && marks.range.contains(&(page * page_size()))
                };
                let left: Vec<_> = model.iter().filter(within).copied().collect();
                left.iter().for_each(|page| { model.remove(page); });
                let sum = |of: usize| left.iter().filter(|page| page.1 == of).count() as u64 * page_size();
                let mut rest = [0; 3];
                marks.rest().for_each(|(process, bytes)| rest[process] += bytes);
                prop_assert_eq!(rest, [sum(0), sum(1), sum(2)]);
            }
            prop_assert_eq!(model, BTreeSet::new());
        }

        /// A window lies within its extent, has at most 1 GiB, and cuts no huge page.
        #[test]
        fn windows_do_not_cut_huge_pages(folios in vec(folio(), 0..60)) {
            let moves = extents();
            let mut deferred = Deferred::new(&moves, MOST);
            for (move_index, process, first, pages) in folios {
                deferred.add(move_index, process, first * page_size()..(first + pages) * page_size());
            }
            let mut end = (0, 0);
            for marks in windows(deferred) {
                let (extent, Range { start, end: stop }) = (&moves[marks.move_index], marks.range);
                prop_assert!((marks.move_index, start) >= end && start < stop && stop <= extent.bytes);
                prop_assert!(stop - start <= window_chunks() * chunk_bytes());
                let is_cut = |at: u64| !(extent.mappings[0].start + at).is_multiple_of(chunk_bytes());
                prop_assert!(!is_cut(start) || start == 0, "{start:#x}");
                prop_assert!(!is_cut(stop) || stop == extent.bytes, "{stop:#x}");
                end = (marks.move_index, stop);
            }
        }
    }

    #[test]
    fn a_page_that_is_found_by_another_process_has_not_been_found_before() {
        let moves = [planned_move(0, chunk_bytes())];
        let mut deferred = Deferred::new(&moves, MOST);
        deferred.add(0, 1, 0..2 * page_size());
        let mut marks = deferred.next().expect("one window");
        let mut take = |process, bytes| {
            let taken = marks.take(process, bytes).into_iter();
            taken.map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(take(0, 0..chunk_bytes()), []);
        assert_eq!(take(1, page_size()..chunk_bytes()), [(page_size(), 2 * page_size())]);
        assert_eq!(take(1, 0..chunk_bytes()), [(0, page_size())]);
        assert_eq!(marks.rest().next(), None);
    }

    /// Two cases: 100 GiB that are all pinned, 26 million pages; and 200 GiB of which every other folio is pinned. The folios are
    /// added from both ends in turn.
    #[test]
    fn much_that_is_pinned_takes_little() {
        const GIB: u64 = 1 << 30;
        let folio_bytes = 16 * page_size();
        // A node of std's BTreeMap has 5 to 11 entries, a parent and its number of entries; an inner node has 12 children too.
        let node = 11 * size_of::<(ChunkKey, Bits)>() + 16;
        let bound =
            |chunks: usize| chunks.div_ceil(5) * node + chunks.div_ceil(25) * (node + 12 * 8);
        assert!(bound(MOST) < 32 << 20, "{}", bound(MOST));
        for stride in [1, 2] {
            let moves = [planned_move(0, 100 * GIB * stride)];
            let mut deferred = Deferred::new(&moves, MOST);
            let folios = 100 * GIB / folio_bytes;
            for folio in
                (0..folios).map(|index| if index % 2 == 0 { index } else { folios - index })
            {
                let at = folio * stride * folio_bytes;
                assert!(deferred.add(0, 0, at..at + folio_bytes).is_some(), "no room for {folio}");
            }
            assert!(bound(deferred.chunks.len()) < 32 << 20, "{}", deferred.chunks.len());
            let found: u64 =
                windows(deferred).into_iter().flat_map(Marks::rest).map(|rest| rest.1).sum();
            assert_eq!(found, 100 * GIB);
        }
    }

    #[test]
    fn memory_without_room_is_not_kept_in_part() {
        let moves = [planned_move(0, 8 * chunk_bytes())];
        let mut deferred = Deferred::new(&moves, 2);
        assert_eq!(deferred.add(0, 0, 0..page_size()), Some(page_size()));
        assert_eq!(deferred.add(0, 0, 0..3 * chunk_bytes()), None);
        assert_eq!(
            deferred.add(0, 0, chunk_bytes()..chunk_bytes() + page_size()),
            Some(page_size())
        );
        assert_eq!(
            deferred.add(0, 0, 0..2 * chunk_bytes()),
            Some(2 * chunk_bytes() - 2 * page_size()),
            "the others are kept already"
        );
        assert_eq!(deferred.add(0, 1, 0..page_size()), None);
        let rest: Vec<_> = windows(deferred).into_iter().flat_map(Marks::rest).collect();
        assert_eq!(rest, [(0, chunk_bytes()), (0, chunk_bytes())]);
    }
}

//! The parts of an extent, each as large as a huge page, that contain pages of interest.

use crate::pmd_size;
use std::{iter, ops::Range};

/// A set of chunks of an extent. A chunk reaches from one multiple of [`pmd_size`] to the next, so that no huge page lies
/// in two chunks. Multiples are counted either in addresses of the first mapping or in offsets of the mapped object.
/// The set is stored as runs of 16 bytes each: an extent of 1 TiB with every other chunk in the set takes 4 MiB.
///
/// ```
/// use numaloc_core::{Chunks, page_size, pmd_size};
///
/// // An extent of 4 chunks that begins where a chunk begins. One page in the second chunk is remote.
/// let (page, huge) = (page_size(), pmd_size());
/// let (start, bytes) = (16 * huge, 4 * huge);
/// let mut away = Chunks::default();
/// away.add(start, huge + page..huge + 2 * page);
/// assert_eq!(away.ranges(start, bytes).collect::<Vec<_>>(), [huge..2 * huge]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// Ranges of chunk numbers, in ascending order; no two ranges touch.
    runs: Vec<Range<u64>>,
}

impl Chunks {
    /// All chunks of an extent of `bytes` bytes at address `start`.
    pub fn whole(start: u64, bytes: u64) -> Self {
        let mut chunks = Self::default();
        chunks.add(start, 0..bytes);
        chunks
    }

    /// Adds the chunks that contain some bytes. `bytes` is counted from the start of the extent, which is at address
    /// `start`.
    pub fn add(&mut self, start: u64, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        let skew = start % pmd_size();
        let end = (skew + bytes.end).div_ceil(pmd_size());
        self.insert((skew + bytes.start) / pmd_size()..end);
    }

    /// Adds the chunks of another set of the same extent.
    pub fn join(&mut self, other: Self) {
        other.runs.into_iter().for_each(|run| self.insert(run));
    }

    /// The first run of chunks that ends after `offset`, cut so that it begins at `offset` or later. Offset and result
    /// are in bytes from the start of the extent, which is at address `start`. The last chunk may reach beyond the end
    /// of the extent.
    pub fn next(&self, start: u64, offset: u64) -> Option<Range<u64>> {
        let skew = start % pmd_size();
        let bytes = |chunk: u64| (chunk * pmd_size()).saturating_sub(skew);
        let index = self.runs.partition_point(|run| bytes(run.end) <= offset);
        self.runs.get(index).map(|run| bytes(run.start).max(offset)..bytes(run.end))
    }

    /// The ranges of all chunks in an extent of `bytes` bytes at address `start`. Chunks that touch form one range.
    pub fn ranges(&self, start: u64, bytes: u64) -> impl Iterator<Item = Range<u64>> {
        let next = move |before: &Range<u64>| self.next(start, before.end);
        let runs = iter::successors(self.next(start, 0), next);
        runs.map(move |run| run.start..run.end.min(bytes))
    }

    /// Bytes of all chunks, each counted in full; the first and the last chunk of an extent may have fewer.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| (run.end - run.start) * pmd_size()).sum()
    }

    fn insert(&mut self, new: Range<u64>) {
        let first = self.runs.partition_point(|run| run.end < new.start);
        let end = first + self.runs[first..].partition_point(|run| run.start <= new.end);
        let touched = &self.runs[first..end];
        let start = touched.first().map_or(new.start, |run| run.start.min(new.start));
        let stop = touched.last().map_or(new.end, |run| run.end.max(new.end));
        self.runs.splice(first..end, iter::once(start..stop));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size;
    use proptest::{collection::vec, prelude::*};
    use std::collections::BTreeSet;

    proptest! {
        /// Behaves as a set of single chunks, whatever ranges are added and in whatever order.
        #[test]
        fn what_was_added_is_there_and_nothing_else(
            page in 0..1024u64,
            added in vec((0..20_000u64, 0..1500u64), 0..40),
            offset in 0..40u64,
        ) {
            let (start, skew) = (page * page_size(), page * page_size() % pmd_size());
            let (mut halves, mut model) = ([Chunks::default(), Chunks::default()], BTreeSet::new());
            for (index, (first, pages)) in added.into_iter().enumerate() {
                let bytes = first * page_size()..(first + pages) * page_size();
                model.extend((bytes.start..bytes.end).step_by(page_size() as usize).map(|at| (skew + at) / pmd_size()));
                halves[index % 2].add(start, bytes);
            }
            let [mut chunks, other] = halves;
            chunks.join(other);
            let (mut seen, mut at) = (BTreeSet::new(), 0);
            while let Some(run) = chunks.next(start, at) {
                prop_assert!(run.start >= at && run.start < run.end);
                seen.extend((skew + run.start) / pmd_size()..(skew + run.end) / pmd_size());
                at = run.end;
            }
            prop_assert_eq!(&seen, &model);
            prop_assert_eq!(chunks.bytes(), model.len() as u64 * pmd_size());
            let begin = offset * pmd_size() / 2;
            let ends_later = |chunk: &&u64| (**chunk + 1) * pmd_size() > skew + begin;
            let first = model.iter().find(ends_later).map(|chunk| (chunk * pmd_size()).max(skew + begin));
            prop_assert_eq!(chunks.next(start, begin).map(|run| skew + run.start), first.map(|at| at.max(skew)));
        }
    }

    #[test]
    fn runs_that_touch_are_one() {
        let mut chunks = Chunks::default();
        for at in [0, 2, 1, 5] {
            chunks.add(0, at * pmd_size()..(at + 1) * pmd_size());
        }
        assert_eq!(chunks.runs, [0..3, 5..6]);
        assert_eq!(
            Chunks::whole(pmd_size() - page_size(), 2 * page_size()).bytes(),
            2 * pmd_size()
        );
        assert_eq!(Chunks::whole(0, 0), Chunks::default());
        // The whole address space of a process with five levels of page tables.
        assert_eq!(Chunks::whole(0, 1 << 56).bytes(), 1 << 56);
        let mut chunks = Chunks::default();
        for range in [4..6, 0..2, 2..3, 9..12] {
            chunks.add(0, range.start * pmd_size()..range.end * pmd_size());
        }
        assert_eq!(chunks.runs, [0..3, 4..6, 9..12]);
    }

    #[test]
    fn ranges_are_widened_to_chunks_within_the_extent() {
        let widened = |range: Range<u64>, start, bytes| {
            let mut chunks = Chunks::default();
            chunks.add(start, range);
            chunks.ranges(start, bytes).next()
        };
        assert_eq!(widened(0x3000..0x4000, 0x1000, 16 << 20), Some(0..pmd_size() - 0x1000));
        assert_eq!(
            widened(pmd_size()..pmd_size() + 0x1000, 0, 16 << 20),
            Some(pmd_size()..2 * pmd_size())
        );
        assert_eq!(widened(0..0x1000, pmd_size(), 0x2000), Some(0..0x2000));
    }
}

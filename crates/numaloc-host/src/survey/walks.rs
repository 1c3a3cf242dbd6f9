//! What the kernel walks to print the lines of numa_maps, and how many lines are read at once for it.

use crate::files::numa_maps::AtOnce;

/// Memory of which the page tables are walked in a tenth of a millisecond if its pages are base pages, in bytes. Huge pages take
/// next to nothing, but which pages are huge is only guessed until they are moved (`residency`).
pub(super) const BRIEF_BYTES: u64 = 16 << 20;
/// Most lines of mappings with pages that a page of text has room for: the shortest one is `7f0000000000 default anon=1 N0=1
/// kernelpagesize_kB=4`. Lines of mappings without pages are shorter, and take no walk.
const LINES: usize = 80;

/// The mappings of a process that have pages, in the order of their addresses: the first address of each, and the bytes that the
/// kernel walks at most for its line.
#[derive(Debug, Default)]
pub(super) struct Walks(Vec<(u64, u64)>);

impl FromIterator<(u64, u64)> for Walks {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(walks: I) -> Self {
        let mut walks: Vec<_> = walks.into_iter().collect();
        walks.sort_unstable();
        Self(walks)
    }
}

impl Walks {
    /// The bytes of the first mapping; `None`: there is none.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first().map(|&(_, bytes)| bytes)
    }

    /// Whether each walk up to the mapping at `last` is short by itself.
    pub(super) fn are_brief(&self, last: u64) -> bool {
        self.0.iter().all(|&(start, bytes)| start > last || bytes <= BRIEF_BYTES)
    }

    /// Number of lines to read at once behind the one of the mapping at `after`; `None`: from the beginning. The last lines of a page
    /// may belong to mappings behind the needed ones, so all mappings count.
    pub(super) fn at_once(&self, after: Option<u64>) -> AtOnce {
        let first = after.map_or(0, |after| self.0.partition_point(|&(start, _)| start <= after));
        let bytes: u64 = self.0.iter().skip(first).take(LINES).map(|&(_, bytes)| bytes).sum();
        if bytes <= BRIEF_BYTES { AtOnce::Many } else { AtOnce::One }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_mappings_on_the_way_are_walked_in_passing() {
        let walks: Walks = [(0x1000, 4096), (0x9000, BRIEF_BYTES + 4096), (0x5000, BRIEF_BYTES)]
            .into_iter()
            .collect();
        assert!(walks.are_brief(0x5000), "what lies behind does not matter");
        assert!(!walks.are_brief(0x9000));
        assert_eq!(walks.first(), Some(4096));
        assert_eq!(Walks::default().first(), None);
    }

    #[test]
    fn lines_are_read_by_the_page_where_their_walks_take_a_short_time_together() {
        let two: Walks = [(0x1000, 4096), (0x5000, 4096)].into_iter().collect();
        assert_eq!(two.at_once(None), AtOnce::Many);
        let large: Walks = [(0x1000, BRIEF_BYTES), (0x5000, 4096)].into_iter().collect();
        assert!(
            large.are_brief(0x5000) && large.at_once(None) == AtOnce::One,
            "together they take long"
        );
        assert_eq!(large.at_once(Some(0x1000)), AtOnce::Many, "the large one has been read");
        // 400 MiB in single pages, and a large mapping behind them.
        let pages = (0..100_000).map(|page| (page * 8192, 4096));
        let many: Walks = pages.chain([(1 << 40, 1 << 30)]).collect();
        assert_eq!([None, Some(8192 * 50_000)].map(|after| many.at_once(after)), [AtOnce::Many; 2]);
        assert_eq!(many.at_once(Some(8192 * (100_000 - 60))), AtOnce::One, "the large one is near");
        assert_eq!(Walks::default().at_once(None), AtOnce::Many);
    }
}

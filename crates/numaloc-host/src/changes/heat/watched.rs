//! The watched memory: the memory to be moved, cut into a bounded number of regions.

use numaloc_core::{Mapping, Move, number, page_size};
use std::{collections::BTreeMap, ops::Range};

/// Largest number of processes that are watched: the ones that map most of the memory to be moved.
const PROCESSES_MAX: usize = 16;

/// About how many regions are watched in total, however much memory there is. The cost of watching depends only on this: little memory
/// has short regions, of which more pages are looked at.
pub const REGIONS: u64 = 500;

/// Bytes of the shortest region of a range of some length: it holds several base pages of any size.
const REGION_LEAST: u64 = 256 << 10;

/// Memory of one process to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedMemory {
    /// Its index in the plan.
    pub process: usize,
    pub pid: i32,
    /// In order of address, apart from each other or adjacent.
    pub regions: Vec<Range<u64>>,
}

/// A range of memory that may be watched.
#[derive(Clone, Copy, Debug)]
pub struct Watchable<'a> {
    /// Where processes map it.
    pub mappings: &'a [Mapping],
    /// Its length in bytes.
    pub bytes: u64,
    /// The bytes in it that matter.
    pub weight_bytes: u64,
}

impl<'a> From<&'a Move> for Watchable<'a> {
    fn from(planned_move: &'a Move) -> Self {
        let (mappings, bytes) = (&planned_move.mappings[..], planned_move.bytes);
        Self { mappings, bytes, weight_bytes: planned_move.remote_bytes() }
    }
}

/// Chooses what to watch. The more a range weighs, the more regions it gets. If there are too many ranges, those that weigh least get
/// none.
pub fn watched(ranges: &[Watchable<'_>], pids: &[i32]) -> Vec<WatchedMemory> {
    let mut by_process = vec![0; pids.len()];
    for range in ranges {
        range.mappings.iter().for_each(|of| by_process[of.process] += range.weight_bytes);
    }
    let mut processes: Vec<usize> = (0..pids.len()).filter(|&of| by_process[of] > 0).collect();
    processes.sort_by_key(|&process| std::cmp::Reverse(by_process[process]));
    processes.truncate(PROCESSES_MAX);
    let total: u64 = processes.iter().map(|&process| by_process[process]).sum();

    let mappings = ranges.iter().flat_map(|range| range.mappings.iter().map(move |of| (range, of)));
    let mut views: Vec<_> =
        mappings.filter(|(_, mapping)| processes.contains(&mapping.process)).collect();
    views.sort_by_key(|(range, _)| std::cmp::Reverse(range.weight_bytes));
    let mut regions: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
    for (range, mapping) in views.into_iter().take(number::index(REGIONS)) {
        let share = u128::from(range.weight_bytes) * u128::from(REGIONS) / u128::from(total);
        let pieces = number::amount(share).clamp(1, (range.bytes / REGION_LEAST).max(1));
        let piece = range.bytes.div_ceil(pieces).next_multiple_of(page_size());
        let cut = |offset| {
            let end = range.bytes.min(offset + piece);
            mapping.start + offset..mapping.start + end
        };
        let cuts = (0..range.bytes).step_by(number::index(piece)).map(cut);
        regions.entry(mapping.process).or_default().extend(cuts);
    }
    let watched = |(process, mut regions): (usize, Vec<Range<u64>>)| {
        disjoin(&mut regions);
        WatchedMemory { process, pid: pids[process], regions }
    };
    regions.into_iter().map(watched).collect()
}

/// Sorts regions and cuts off what lies in one before. Pages of a process's own and pages that it shares are separate extents that
/// may cover the same addresses, and DAMON refuses regions that overlap (mm/damon/sysfs.c, `damon_sysfs_set_regions`).
fn disjoin(regions: &mut Vec<Range<u64>>) {
    regions.sort_by_key(|region| (region.start, region.end));
    let mut end = 0;
    regions.retain_mut(|region| {
        region.start = region.start.max(end);
        end = end.max(region.end);
        !region.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Chunks, Kind, NodeId, Pages, pmd_size};

    const GIB: u64 = 1 << 30;

    fn planned_move(processes: &[usize], start: u64, bytes: u64, remote_bytes: u64) -> Move {
        let mapping = |&process: &usize| Mapping { process, start };
        Move {
            mappings: processes.iter().map(mapping).collect(),
            pages: Pages::All,
            bytes,
            kind: Kind::Anonymous,
            hugetlb_bytes: None,
            mappers: Default::default(),
            stripe: None,
            rule: None,
            name: "".into(),
            routes: 0,
            remote: [(NodeId(1), remote_bytes)].into(),
            shared_bytes: 0,
            away: Chunks::whole(start, bytes),
        }
    }

    fn watch(moves: &[Move], pids: &[i32]) -> Vec<WatchedMemory> {
        watched(&moves.iter().map(Watchable::from).collect::<Vec<_>>(), pids)
    }

    #[test]
    fn extents_are_covered_in_order_whatever_their_size() {
        let moves = [
            planned_move(&[0], 8 * GIB, 3 * GIB, 3 * GIB),
            planned_move(&[0], 4 * GIB, page_size(), page_size()),
            planned_move(&[0], GIB + page_size(), pmd_size() + page_size(), pmd_size()),
        ];
        let watched = watch(&moves, &[7]);
        let [WatchedMemory { process: 0, pid: 7, regions }] = &watched[..] else {
            panic!("{watched:?}")
        };
        assert!(regions.windows(2).all(|pair| pair[0].end <= pair[1].start), "{regions:?}");
        let bytes: u64 = regions.iter().map(|region| region.end - region.start).sum();
        assert_eq!(bytes, 3 * GIB + page_size() + pmd_size() + page_size());
        let large = regions.iter().filter(|region| region.start >= 8 * GIB).count();
        assert!((490..=500).contains(&large), "{large}");
    }

    #[test]
    fn little_memory_has_short_regions_that_hold_several_pages() {
        let longest = |bytes| {
            let watched = watch(&[planned_move(&[0], GIB, bytes, bytes)], &[7]);
            let regions = &watched[0].regions;
            (regions.len(), regions.iter().map(|region| region.end - region.start).max())
        };
        assert_eq!(longest(8 * REGION_LEAST), (8, Some(REGION_LEAST)));
        assert_eq!(longest(1000 * pmd_size()), (500, Some(2 * pmd_size())));
    }

    #[test]
    fn extents_at_the_same_addresses_are_watched_once() {
        let moves = [
            planned_move(&[0, 1], GIB, 64 * pmd_size(), 40 * pmd_size()),
            planned_move(&[0], GIB + pmd_size() / 2, 32 * pmd_size(), 3 * pmd_size()),
        ];
        for WatchedMemory { regions, .. } in watch(&moves, &[7, 8]) {
            assert!(regions.windows(2).all(|pair| pair[0].end <= pair[1].start), "{regions:?}");
            let bytes: u64 = regions.iter().map(|region| region.end - region.start).sum();
            assert_eq!(bytes, 64 * pmd_size());
        }
    }

    #[test]
    fn the_price_is_bounded() {
        let everyone: Vec<usize> = (0..100).collect();
        let many: Vec<Move> = (0..3000)
            .map(|at| planned_move(&[at % 100], at as u64 * GIB, GIB, pmd_size()))
            .collect();
        for moves in [&[planned_move(&everyone, 0, 64 * GIB, 64 * GIB)][..], &many] {
            let watched = watch(moves, &[1; 100]);
            let regions: usize = watched.iter().map(|watched| watched.regions.len()).sum();
            assert!(watched.len() <= PROCESSES_MAX && regions <= 2 * REGIONS as usize);
            assert!(watched.len() == PROCESSES_MAX, "{}", watched.len());
        }
        assert_eq!(watch(&[], &[1, 2]), []);
    }
}

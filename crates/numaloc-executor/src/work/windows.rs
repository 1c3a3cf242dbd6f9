//! Cuts a plan into windows and hands them out in order.

mod groups;

pub use groups::WindowGroup;

use numaloc_core::{Heat, Move, number, pmd_size};
use std::{ops::Range, vec};

/// A part of an extent that is scanned in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Index of the extent among the plan's moves.
    pub move_index: usize,
    /// Bytes from the extent's start.
    pub range: Range<u64>,
    /// The worker moves its pending folios once they have this many bytes.
    pub fill: u64,
}

/// Hands out each window of a plan once.
#[derive(Debug)]
pub enum Windows<'p> {
    /// In the plan's order. Windows are cut when they are handed out.
    ByAddress(Cuts<'p>),
    /// All windows, sorted. Each takes 32 bytes: 2 MiB for 1 TiB in windows of 16 MiB, and 16 MiB in windows of one chunk each
    /// (2 MiB).
    Sorted(vec::IntoIter<Window>),
}

/// A sorted window has this part of the remote bytes, or `window_bytes` if that is less. A finer cut would be useless: a
/// measurement of heat tells no more regions apart.
const SORTED_MAX: u64 = 1024;

impl<'p> Windows<'p> {
    /// In the plan's order. Each window has about `window_bytes` of remote memory. With several `workers` the last windows are
    /// smaller, so that no worker waits long for another at the end.
    pub fn by_address(moves: &'p [Move], window_bytes: u64, workers: usize) -> Self {
        Self::ByAddress(Cuts::new(moves, window_bytes, workers))
    }

    /// Cuts further windows for this many workers. Sorted windows are cut already.
    pub fn share_among(&mut self, workers: usize) {
        if let Self::ByAddress(cuts) = self {
            cuts.workers = workers.max(1) as u64;
        }
    }

    /// The most used windows first, others by address. Each window has at most about `window_bytes` of remote memory.
    pub fn hottest_first(moves: &'p [Move], window_bytes: u64, heat: &Heat) -> Self {
        Self::sorted(moves, window_bytes, |planned, window| !score(planned, window, heat))
    }

    /// The least used windows first, others in the plan's order.
    pub fn coldest_first(moves: &'p [Move], window_bytes: u64, heat: &Heat) -> Self {
        Self::sorted(moves, window_bytes, |planned, window| score(planned, window, heat))
    }

    fn sorted(moves: &'p [Move], window_bytes: u64, key: impl Fn(&Move, &Window) -> u64) -> Self {
        let remote_bytes: u64 = moves.iter().map(Move::remote_bytes).sum();
        let fine = (remote_bytes / SORTED_MAX).min(window_bytes);
        let cuts = Cuts::new(moves, fine, 1);
        let mut windows: Vec<Window> =
            cuts.map(|window| Window { fill: window_bytes, ..window }).collect();
        windows.sort_by_cached_key(|window| key(&moves[window.move_index], window));
        Self::Sorted(windows.into_iter())
    }
}

impl Iterator for Windows<'_> {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        match self {
            Self::ByAddress(cuts) => cuts.next(),
            Self::Sorted(windows) => windows.next(),
        }
    }
}

/// The use of a window's bytes on average, summed over the processes that map it. Returned as the bits of a float
/// that is not negative: these sort as the float does.
fn score(planned_move: &Move, window: &Window, heat: &Heat) -> u64 {
    let mean = |mapping: &numaloc_core::Mapping| {
        let Range { start, end } = window.range;
        heat.mean(mapping.process, mapping.start + start..mapping.start + end)
    };
    planned_move.mappings.iter().map(mean).fold(0.0, |sum: f64, mean| sum + mean).to_bits()
}

/// Cuts extents into windows, one extent after the other.
#[derive(Debug)]
pub struct Cuts<'p> {
    moves: &'p [Move],
    window_bytes: u64,
    workers: u64,
    /// Least remote bytes of a window, if there are several workers.
    least_bytes: u64,
    move_index: usize,
    /// Bytes of the extent's chunks in which something is to be moved.
    away_bytes: u64,
    offset: u64,
    /// Remote bytes, according to the plan, that are not in a window yet.
    left_bytes: u64,
}

/// Least remote bytes of the last windows of a large run: with less, calls take longer per byte.
const LAST: u64 = 16 << 20;

/// The same where all is little: workers share it, rather than that one of them waits for the only call of the other.
pub const LEAST: u64 = 4 << 20;

/// Largest window. Even if it consists of base pages alone, a worker needs less than 20 MiB to keep track of it.
const WINDOW_MAX: u64 = 1 << 30;

impl<'p> Cuts<'p> {
    /// Windows have about `window_bytes` of remote memory each, according to the plan. Chunks without remote memory are left out,
    /// so the number of windows depends on an extent's remote memory and not on its touched or reserved memory.
    fn new(moves: &'p [Move], window_bytes: u64, workers: usize) -> Self {
        let left_bytes: u64 = moves.iter().map(Move::remote_bytes).sum();
        let (window_bytes, workers) = (window_bytes.max(pmd_size()), workers.max(1) as u64);
        let least_bytes = (left_bytes / workers / 4).clamp(LEAST, LAST);
        let (move_index, away_bytes) = (0, moves.first().map_or(0, away_bytes));
        Self {
            moves,
            window_bytes,
            workers,
            least_bytes,
            move_index,
            away_bytes,
            offset: 0,
            left_bytes,
        }
    }

    /// The rest of the current run of chunks in which something is to be moved. Continues with the next extent when the current
    /// one has no more.
    fn run(&mut self) -> Option<(&'p Move, Range<u64>)> {
        loop {
            let planned_move = self.moves.get(self.move_index)?;
            let run = planned_move.away.next(planned_move.mappings[0].start, self.offset);
            if let Some(run) = run.filter(|run| run.start < planned_move.bytes) {
                return Some((planned_move, run));
            }
            (self.move_index, self.offset) = (self.move_index + 1, 0);
            self.away_bytes = self.moves.get(self.move_index).map_or(0, away_bytes);
        }
    }

    /// Remote bytes of the next window. With several workers: half of one worker's share of the rest.
    fn fill(&self) -> u64 {
        match self.workers {
            ..=1 => self.window_bytes,
            workers => (self.left_bytes / workers / 2).max(self.least_bytes).min(self.window_bytes),
        }
    }
}

impl Iterator for Cuts<'_> {
    type Item = Window;

    /// The next window. It begins and ends at a multiple of the huge page size, in addresses of the first mapping, or at an end
    /// of the extent. So no folio is in two windows.
    fn next(&mut self) -> Option<Window> {
        let (planned_move, run) = self.run()?;
        let start = planned_move.mappings[0].start;
        let unit = planned_move.hugetlb_bytes.unwrap_or(pmd_size()).max(pmd_size());
        let begin = ((start + run.start) / unit * unit).max(start + self.offset) - start;
        let sparseness = self.away_bytes / planned_move.remote_bytes().max(1);
        let fill = self.fill();
        let bytes = fill.saturating_mul(sparseness.max(1)).min(WINDOW_MAX.max(fill));
        let end = run.end.min(begin + bytes);
        let end = ((start + end).next_multiple_of(unit) - start).min(planned_move.bytes);
        let share = u128::from(planned_move.remote_bytes()) * u128::from(end - begin);
        self.left_bytes = self
            .left_bytes
            .saturating_sub(number::amount(share / u128::from(self.away_bytes.max(1))));
        self.offset = end;
        Some(Window { move_index: self.move_index, range: begin..end, fill })
    }
}

/// Bytes of the extent's chunks in which something is to be moved.
fn away_bytes(planned_move: &Move) -> u64 {
    planned_move.away.bytes().min(planned_move.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Chunks, Kind, Mapping, NodeId, Pages, Sightings};
    use proptest::{collection::vec, prelude::*};

    pub(super) fn planned_move(
        start: u64,
        bytes: u64,
        remote_bytes: u64,
        hugetlb_bytes: Option<u64>,
    ) -> Move {
        let mappings = vec![Mapping { process: 0, start }];
        let remote = [(NodeId(1), remote_bytes)].into();
        let (kind, name) = (Kind::Anonymous, "".into());
        let pages = Pages::All;
        Move {
            mappings,
            pages,
            bytes,
            kind,
            hugetlb_bytes,
            mappers: Default::default(),
            stripe: None,
            rule: None,
            name,
            routes: 0,
            remote,
            shared_bytes: 0,
            away: Chunks::whole(start, bytes),
        }
    }

    #[test]
    fn windows_cover_each_extent_once_and_end_at_huge_pages() {
        let moves = [
            planned_move(pmd_size() - 4096, 9 * pmd_size(), 9 * pmd_size(), None),
            planned_move(0, 4096, 4096, None),
            planned_move(1 << 30, 2 << 30, 2 << 30, Some(1 << 30)),
        ];
        let windows: Vec<Window> = Windows::by_address(&moves, 4 * pmd_size(), 1).collect();
        let of = |move_index| {
            windows
                .iter()
                .filter(move |window| window.move_index == move_index)
                .map(|window| window.range.clone())
        };
        let first: Vec<_> = of(0).collect();
        assert_eq!(
            first,
            [
                0..4096 + 4 * pmd_size(),
                4096 + 4 * pmd_size()..4096 + 8 * pmd_size(),
                4096 + 8 * pmd_size()..9 * pmd_size()
            ]
        );
        assert_eq!(of(1).collect::<Vec<_>>(), vec![0..4096]);
        assert_eq!(of(2).collect::<Vec<_>>(), [0..1 << 30, 1 << 30..2 << 30]);
    }

    #[test]
    fn what_has_nothing_remote_is_not_visited() {
        const GIB: u64 = 1 << 30;
        let mut moves = [planned_move(0, 1024 * GIB, GIB, None), planned_move(0, GIB, GIB, None)];
        moves[0].away = Chunks::whole(0, GIB);
        moves[0].away.add(0, 512 * GIB..513 * GIB);
        moves[1].away = Chunks::default();
        let windows = Windows::by_address(&moves, 1 << 26, 1).map(|window| window.range);
        let bytes: u64 = windows.map(|range| range.end - range.start).sum();
        assert_eq!(bytes, 2 * GIB);
        // Pages of 1 GiB are not cut.
        let mut moves = [planned_move(GIB, 4 * GIB, GIB, Some(GIB))];
        moves[0].away = Chunks::default();
        moves[0].away.add(GIB, 2 * GIB + pmd_size()..2 * GIB + 2 * pmd_size());
        let mut windows = Windows::by_address(&moves, pmd_size(), 2).map(|window| window.range);
        assert_eq!((windows.next(), windows.next()), (Some(2 * GIB..3 * GIB), None));
    }

    #[test]
    fn windows_follow_what_is_touched() {
        let count = |bytes, remote| {
            Windows::by_address(&[planned_move(0, bytes, remote, None)], 16 << 20, 2).count()
        };
        assert_eq!(count(1 << 30, 1 << 30), 64);
        assert_eq!(count(1 << 30, 1 << 24), 4, "two workers share it");
        assert_eq!(count(100 << 30, 100 << 20), 100);
    }

    #[test]
    fn several_workers_share_what_is_little() {
        let sizes = |workers| {
            let moves = [planned_move(0, 20 << 20, 20 << 20, None)];
            let windows = Windows::by_address(&moves, 64 << 20, workers);
            windows.map(|window| (window.range.end - window.range.start) >> 20).collect::<Vec<_>>()
        };
        assert_eq!((sizes(1), sizes(2)), (vec![20], vec![6, 4, 4, 4, 2]));
    }

    #[test]
    fn the_last_windows_of_several_workers_are_smaller() {
        let moves = [planned_move(0, 1 << 30, 1 << 30, None)];
        let sizes: Vec<u64> = Windows::by_address(&moves, 64 << 20, 4)
            .map(|window| {
                let bytes = window.range.end - window.range.start;
                assert_eq!(bytes, window.fill.next_multiple_of(pmd_size()));
                bytes >> 20
            })
            .collect();
        assert!(sizes.is_sorted_by(|one, next| one >= next), "{sizes:?}");
        assert_eq!((sizes[0], sizes[sizes.len() - 4..].to_vec()), (64, vec![16; 4]), "{sizes:?}");
        let whole = |workers| Windows::by_address(&moves, 64 << 20, workers).count();
        assert_eq!(whole(1), 16, "one alone waits for no other");
    }

    #[test]
    fn what_several_processes_use_a_little_comes_before_what_one_uses() {
        let mut moves = [
            planned_move(0, pmd_size(), pmd_size(), None),
            planned_move(pmd_size(), pmd_size(), pmd_size(), None),
        ];
        moves[1].mappings = (0..3).map(|process| Mapping { process, start: pmd_size() }).collect();
        let mut seen = Sightings::new(3);
        seen.add(0, 0..pmd_size(), 5);
        (0..3).for_each(|process| seen.add(process, pmd_size()..2 * pmd_size(), 2));
        let windows = Windows::hottest_first(&moves, pmd_size(), &seen.into());
        assert_eq!(windows.map(|window| window.move_index).collect::<Vec<_>>(), [1, 0]);
    }

    /// Extents one after the other, with remote memory in some of their chunks, and regions of heat.
    fn anything() -> impl Strategy<Value = (Vec<Move>, Heat, u64)> {
        let extents = vec((0..9u64, 1..40u64, 0..40u64, any::<u32>()), 1..6);
        let regions = vec((0..300u64, 1..30u64, 0..20u32), 0..8);
        (extents, regions, 1..6u64).prop_map(|(extents, regions, window)| {
            let (mut moves, mut start) = (Vec::new(), 0);
            for (gap, units, remote, away) in extents {
                start += gap * (pmd_size() / 2);
                let bytes = units * (pmd_size() / 2);
                let mut planned_move = planned_move(
                    start,
                    bytes,
                    (remote * (pmd_size() / 2)).clamp(4096, bytes),
                    None,
                );
                planned_move.away = Chunks::default();
                for unit in (0..units).filter(|unit| away >> (unit % 32) & 1 == 1) {
                    planned_move
                        .away
                        .add(start, unit * (pmd_size() / 2)..unit * (pmd_size() / 2) + 1);
                }
                moves.push(planned_move);
                start += bytes;
            }
            let mut seen = Sightings::new(1);
            for (at, units, score) in regions {
                seen.add(0, at * (pmd_size() / 2)..(at + units) * (pmd_size() / 2), score);
            }
            (moves, seen.into(), window * pmd_size())
        })
    }

    proptest! {
        #[test]
        fn in_any_order_what_has_something_remote_is_visited_once_and_nothing_else((moves, heat, window) in anything()) {
            for windows in [
                Windows::by_address(&moves, window, 1),
                Windows::by_address(&moves, window, 3),
                Windows::hottest_first(&moves, window, &heat),
            ] {
                let mut windows: Vec<Window> = windows.collect();
                windows.sort_by_key(|window| (window.move_index, window.range.start));
                for (index, planned_move) in moves.iter().enumerate() {
                    let start = planned_move.mappings[0].start;
                    let of = windows.iter().filter(|window| window.move_index == index);
                    let mut visited: Vec<Range<u64>> = Vec::new();
                    for Window { range, .. } in of {
                        prop_assert!(!range.is_empty() && range.end <= planned_move.bytes);
                        match visited.last_mut() {
                            Some(last) if last.end == range.start => last.end = range.end,
                            last => {
                                prop_assert!(last.is_none_or(|last| last.end < range.start));
                                visited.push(range.clone());
                            }
                        }
                    }
                    let runs: Vec<_> = planned_move.away.ranges(start, planned_move.bytes).collect();
                    prop_assert_eq!(visited, runs);
                }
            }
        }

        #[test]
        fn the_hottest_come_first_and_equals_by_address((moves, heat, window) in anything()) {
            let windows: Vec<Window> = Windows::hottest_first(&moves, window, &heat).collect();
            let key = |window: &Window| {
                let start = moves[window.move_index].mappings[0].start;
                let mean = heat.mean(0, start + window.range.start..start + window.range.end);
                (mean, window.move_index, window.range.start)
            };
            for pair in windows.windows(2) {
                let (first, next) = (key(&pair[0]), key(&pair[1]));
                prop_assert!(first.0 > next.0 || first.0 == next.0 && (first.1, first.2) < (next.1, next.2));
            }
        }

        #[test]
        fn without_heat_the_order_is_the_plans((moves, _, window) in anything()) {
            let cold = Heat::from(Sightings::new(1));
            let move_indexes = |windows: Windows<'_>| -> Vec<usize> {
                let mut move_indexes: Vec<usize> = windows.map(|window| window.move_index).collect();
                move_indexes.dedup();
                move_indexes
            };
            let sorted = move_indexes(Windows::hottest_first(&moves, window, &cold));
            prop_assert_eq!(sorted, move_indexes(Windows::by_address(&moves, window, 2)));
        }
    }
}

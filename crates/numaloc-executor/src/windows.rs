//! The windows of a plan, and in which order they are handed out.

use numaloc_core::{HUGE, Heat, Move};
use std::{ops::Range, vec};

/// A stretch of an extent that is scanned at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Index of the extent among the plan's moves.
    pub step: usize,
    /// Bytes from the extent's start.
    pub range: Range<u64>,
    /// Bytes that are to be moved as soon as so many have come together.
    pub fill: u64,
}

/// Hands out each window of a plan once.
#[derive(Debug)]
pub enum Windows<'p> {
    /// In the plan's order. They are made as they are handed out.
    ByAddress(Cuts<'p>),
    /// All of them, sorted: 24 bytes each, so for 1 TiB in windows of 16 MiB 1.5 MiB.
    Sorted(vec::IntoIter<Window>),
}

/// Windows have no less than this share of what is to be moved when they are sorted: nobody sees more than so many regions
/// of heat.
const SORTED_MAX: u64 = 1024;

impl<'p> Windows<'p> {
    /// In the plan's order, with about `window_bytes` of remote memory each; the last ones are smaller, so that of several
    /// `workers` none has long to wait for another in the end.
    pub fn by_address(moves: &'p [Move], window_bytes: u64, workers: usize) -> Self {
        Self::ByAddress(Cuts::new(moves, window_bytes, workers))
    }

    /// Those that are used most first, others by address; with at most about `window_bytes` of remote memory each.
    pub fn hottest_first(moves: &'p [Move], window_bytes: u64, heat: &Heat) -> Self {
        let remote_bytes: u64 = moves.iter().map(Move::remote_bytes).sum();
        let fine = (remote_bytes / SORTED_MAX).min(window_bytes);
        let cuts = Cuts::new(moves, fine, 1);
        let mut windows: Vec<Window> =
            cuts.map(|window| Window { fill: window_bytes, ..window }).collect();
        windows.sort_by_cached_key(|window| !score(&moves[window.step], window, heat));
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

/// How much all who map it use a byte of a window: the bits of a number that is not negative are in its order.
fn score(step: &Move, window: &Window, heat: &Heat) -> u64 {
    let mean = |mapping: &numaloc_core::Mapping| {
        let Range { start, end } = window.range;
        heat.mean(mapping.process, mapping.start + start..mapping.start + end)
    };
    step.mappings.iter().map(mean).fold(0.0, |sum: f64, mean| sum + mean).to_bits()
}

/// Cuts extents into windows, one after the other.
#[derive(Debug)]
pub struct Cuts<'p> {
    moves: &'p [Move],
    window_bytes: u64,
    workers: u64,
    step: usize,
    offset: u64,
    /// Remote bytes, by the plan, of what is not cut yet.
    left_bytes: u64,
}

/// Below this, calls get slower by the byte: the last windows are no smaller.
const LAST: u64 = 16 << 20;

/// Largest window: what a worker keeps in mind of it stays under 20 MiB, should it be full of base pages.
const WINDOW_MAX: u64 = 1 << 30;

impl<'p> Cuts<'p> {
    /// Windows that hold about `window_bytes` of remote memory each, by the plan: so the number of windows follows
    /// what is touched of an extent and not what is reserved.
    fn new(moves: &'p [Move], window_bytes: u64, workers: usize) -> Self {
        let left_bytes = moves.iter().map(Move::remote_bytes).sum();
        let (window_bytes, workers) = (window_bytes.max(HUGE), workers as u64);
        Self { moves, window_bytes, workers, step: 0, offset: 0, left_bytes }
    }

    /// Remote bytes of the next window: with several workers half of each one's share of what is left.
    fn fill(&self) -> u64 {
        match self.workers {
            ..=1 => self.window_bytes,
            workers => (self.left_bytes / workers / 2).max(LAST).min(self.window_bytes),
        }
    }
}

impl Iterator for Cuts<'_> {
    type Item = Window;

    /// The next window. It ends at a multiple of the huge page size in the first mapping, so that no folio is in two.
    fn next(&mut self) -> Option<Window> {
        let step = self.moves.get(self.step)?;
        let start = step.mappings[0].start;
        let unit = step.hugetlb_bytes.unwrap_or(HUGE).max(HUGE);
        let sparseness = step.bytes / step.remote_bytes().max(1);
        let fill = self.fill();
        let bytes = fill.saturating_mul(sparseness.max(1)).min(WINDOW_MAX.max(fill));
        let end = (start + self.offset + bytes).next_multiple_of(unit) - start;
        let range = self.offset..end.min(step.bytes);
        let share = u128::from(step.remote_bytes()) * u128::from(range.end - range.start);
        self.left_bytes =
            self.left_bytes.saturating_sub((share / u128::from(step.bytes.max(1))) as u64);
        let window = Window { step: self.step, range, fill };
        self.offset = end;
        if end >= step.bytes {
            (self.step, self.offset) = (self.step + 1, 0);
        }
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Kind, Mapping, NodeId, Pages, Sightings};
    use proptest::{collection::vec, prelude::*};

    fn step(start: u64, bytes: u64, remote_bytes: u64, hugetlb_bytes: Option<u64>) -> Move {
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
            name,
            routes: 0,
            remote,
            shared_bytes: 0,
        }
    }

    #[test]
    fn windows_cover_each_extent_once_and_end_at_huge_pages() {
        let moves = [
            step(HUGE - 4096, 9 * HUGE, 9 * HUGE, None),
            step(0, 4096, 4096, None),
            step(1 << 30, 2 << 30, 2 << 30, Some(1 << 30)),
        ];
        let windows: Vec<Window> = Windows::by_address(&moves, 4 * HUGE, 1).collect();
        let of = |step| {
            windows
                .iter()
                .filter(move |window| window.step == step)
                .map(|window| window.range.clone())
        };
        let first: Vec<_> = of(0).collect();
        assert_eq!(
            first,
            [0..4096 + 4 * HUGE, 4096 + 4 * HUGE..4096 + 8 * HUGE, 4096 + 8 * HUGE..9 * HUGE]
        );
        assert_eq!(of(1).collect::<Vec<_>>(), vec![0..4096]);
        assert_eq!(of(2).collect::<Vec<_>>(), [0..1 << 30, 1 << 30..2 << 30]);
    }

    #[test]
    fn windows_follow_what_is_touched() {
        let count = |bytes, remote| {
            Windows::by_address(&[step(0, bytes, remote, None)], 16 << 20, 2).count()
        };
        assert_eq!(count(1 << 30, 1 << 30), 64);
        assert_eq!(count(1 << 30, 1 << 24), 1);
        assert_eq!(count(100 << 30, 100 << 20), 100);
    }

    #[test]
    fn the_last_windows_of_several_workers_are_smaller() {
        let moves = [step(0, 1 << 30, 1 << 30, None)];
        let sizes: Vec<u64> = Windows::by_address(&moves, 64 << 20, 4)
            .map(|window| {
                let bytes = window.range.end - window.range.start;
                assert_eq!(bytes, window.fill.next_multiple_of(HUGE));
                bytes >> 20
            })
            .collect();
        assert!(sizes.is_sorted_by(|one, next| one >= next), "{sizes:?}");
        assert_eq!((sizes[0], sizes[sizes.len() - 4..].to_vec()), (64, vec![16; 4]), "{sizes:?}");
        let whole = |workers| Windows::by_address(&moves, 64 << 20, workers).count();
        assert_eq!(whole(1), 16, "one alone waits for nobody");
    }

    #[test]
    fn what_several_processes_use_a_little_comes_before_what_one_uses() {
        let mut moves = [step(0, HUGE, HUGE, None), step(HUGE, HUGE, HUGE, None)];
        moves[1].mappings = (0..3).map(|process| Mapping { process, start: HUGE }).collect();
        let mut seen = Sightings::new(3);
        seen.add(0, 0..HUGE, 5);
        (0..3).for_each(|process| seen.add(process, HUGE..2 * HUGE, 2));
        let windows = Windows::hottest_first(&moves, HUGE, &seen.into());
        assert_eq!(windows.map(|window| window.step).collect::<Vec<_>>(), [1, 0]);
    }

    /// Extents one after the other, and regions of heat.
    fn anything() -> impl Strategy<Value = (Vec<Move>, Heat, u64)> {
        let extents = vec((0..9u64, 1..40u64, 0..40u64), 1..6);
        let regions = vec((0..300u64, 1..30u64, 0..20u32), 0..8);
        (extents, regions, 1..6u64).prop_map(|(extents, regions, window)| {
            let (mut moves, mut start) = (Vec::new(), 0);
            for (gap, units, remote) in extents {
                start += gap * (HUGE / 2);
                let bytes = units * (HUGE / 2);
                moves.push(step(start, bytes, (remote * (HUGE / 2)).clamp(4096, bytes), None));
                start += bytes;
            }
            let mut seen = Sightings::new(1);
            for (at, units, score) in regions {
                seen.add(0, at * (HUGE / 2)..(at + units) * (HUGE / 2), score);
            }
            (moves, seen.into(), window * HUGE)
        })
    }

    proptest! {
        #[test]
        fn in_any_order_each_byte_is_visited_once((moves, heat, window) in anything()) {
            for windows in [
                Windows::by_address(&moves, window, 1),
                Windows::by_address(&moves, window, 3),
                Windows::hottest_first(&moves, window, &heat),
            ] {
                let mut windows: Vec<Window> = windows.collect();
                windows.sort_by_key(|window| (window.step, window.range.start));
                for (index, step) in moves.iter().enumerate() {
                    let of = windows.iter().filter(|window| window.step == index);
                    let end = of.fold(0, |end, window| {
                        assert_eq!(window.range.start, end);
                        window.range.end
                    });
                    prop_assert_eq!(end, step.bytes);
                }
            }
        }

        #[test]
        fn the_hottest_come_first_and_equals_by_address((moves, heat, window) in anything()) {
            let windows: Vec<Window> = Windows::hottest_first(&moves, window, &heat).collect();
            let key = |window: &Window| {
                let start = moves[window.step].mappings[0].start;
                let mean = heat.mean(0, start + window.range.start..start + window.range.end);
                (mean, window.step, window.range.start)
            };
            for pair in windows.windows(2) {
                let (first, next) = (key(&pair[0]), key(&pair[1]));
                prop_assert!(first.0 > next.0 || first.0 == next.0 && (first.1, first.2) < (next.1, next.2));
            }
        }

        #[test]
        fn without_heat_the_order_is_the_plans((moves, _, window) in anything()) {
            let cold = Heat::from(Sightings::new(1));
            let steps = |windows: Windows<'_>| -> Vec<usize> {
                let mut steps: Vec<usize> = windows.map(|window| window.step).collect();
                steps.dedup();
                steps
            };
            let sorted = steps(Windows::hottest_first(&moves, window, &cold));
            prop_assert_eq!(sorted, steps(Windows::by_address(&moves, window, 2)));
        }
    }
}

//! In which direction memory was moved between tiers, so that none of it goes up and down all the time.

use crate::{machine::process::Identity, pmd_size};
use std::{collections::BTreeMap, ops::Range, time::Duration};

/// A chunk rests for this many times the time after which memory is cold, once its direction has changed.
const REST: u32 = 10;
/// Most processes that are remembered. If there are more, those are forgotten that were moved longest ago.
const PROCESSES_MAX: usize = 1024;

/// The direction in which a chunk went last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastMove {
    is_up: bool,
    /// When it had another direction than before, if it ever had.
    changed: Option<Duration>,
}

/// The directions in which chunks of processes, each as large as a huge page, went. Times are counted from any one moment.
#[derive(Clone, Debug, Default)]
pub struct Directions {
    by_process: BTreeMap<Identity, SpaceWays>,
}

#[derive(Clone, Debug, Default)]
struct SpaceWays {
    chunks: BTreeMap<u64, LastMove>,
    last: Duration,
}

/// The chunks of processes that are not to be moved up, or not down.
pub type Resting = BTreeMap<Identity, BTreeMap<u64, bool>>;

/// The numbers of the chunks of an address range.
fn chunks(range: &Range<u64>) -> Range<u64> {
    range.start / pmd_size()..range.end.div_ceil(pmd_size())
}

/// Whether a range has a chunk that rests in this direction.
pub(super) fn rests(
    resting: &Resting,
    identity: Identity,
    range: &Range<u64>,
    is_up: bool,
) -> bool {
    let of_process = resting.get(&identity).into_iter();
    of_process.flat_map(|of| of.range(chunks(range))).any(|(_, &resting)| resting == is_up)
}

impl Directions {
    /// Notes that a range of a process went up, or down.
    pub fn note(&mut self, identity: Identity, range: &Range<u64>, is_up: bool, now: Duration) {
        let ways = self.by_process.entry(identity).or_default();
        ways.last = now;
        for chunk in chunks(range) {
            let way = ways.chunks.entry(chunk).or_insert(LastMove { is_up, changed: None });
            if way.is_up != is_up {
                *way = LastMove { is_up, changed: Some(now) };
            }
        }
        if self.by_process.len() > PROCESSES_MAX {
            let oldest = self.by_process.iter().min_by_key(|(_, ways)| ways.last);
            if let Some(oldest) = oldest.map(|(&identity, _)| identity) {
                self.by_process.remove(&oldest);
            }
        }
    }

    /// What rests: chunks whose direction has changed a short time ago would change it again.
    pub fn resting(&self, now: Duration, cold_after: Duration) -> Resting {
        let rest = cold_after.saturating_mul(REST);
        let of_process = |(&identity, ways): (&Identity, &SpaceWays)| {
            let rests =
                |way: &LastMove| way.changed.is_some_and(|at| now.saturating_sub(at) < rest);
            let resting = ways.chunks.iter().filter(|(_, way)| rests(way));
            let resting: BTreeMap<u64, bool> =
                resting.map(|(&chunk, way)| (chunk, !way.is_up)).collect();
            (!resting.is_empty()).then_some((identity, resting))
        };
        self.by_process.iter().filter_map(of_process).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Identity = Identity { pid: 1, start_time: 7 };

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn what_has_changed_its_direction_rests_for_a_while() {
        let (mut all, range) = (Directions::default(), pmd_size()..3 * pmd_size());
        let rests = |all: &Directions, range: Range<u64>, is_up, now| {
            rests(&all.resting(seconds(now), seconds(10)), ONE, &range, is_up)
        };
        all.note(ONE, &range, false, seconds(0));
        assert!(!rests(&all, range.clone(), true, 5), "it may come up again once");
        all.note(ONE, &range, true, seconds(20));
        assert!(rests(&all, 2 * pmd_size()..2 * pmd_size() + 4096, false, 30));
        assert!(!rests(&all, range.clone(), true, 30), "the same direction is no change");
        assert!(!rests(&all, 3 * pmd_size()..4 * pmd_size(), false, 30));
        assert!(!rests(&all, range.clone(), false, 120));
        all.note(ONE, &range, true, seconds(110));
        assert!(!rests(&all, range, false, 121), "a move in the same direction does not count");
    }

    #[test]
    fn the_number_of_processes_is_bounded() {
        let mut all = Directions::default();
        for pid in 0..2000 {
            let identity = Identity { pid, start_time: 1 };
            all.note(identity, &(0..pmd_size()), pid % 2 == 0, seconds(pid as u64));
        }
        assert_eq!(all.by_process.len(), PROCESSES_MAX);
        assert!(all.by_process.keys().all(|identity| identity.pid >= 900));
    }
}

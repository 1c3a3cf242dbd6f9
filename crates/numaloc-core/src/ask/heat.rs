//! The measured use of each part of the processes' memory.

use std::{collections::BTreeMap, fmt, ops::Range, time::Duration};

/// About how long a measurement takes.
pub const MEASURING: Duration = Duration::from_secs(1);

/// The method that finds the most used memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeatSource {
    /// Not measured: extents are visited by address.
    #[default]
    Address,
    /// With DAMON, just before the move.
    Damon,
    /// By the Referenced bits of mappings, just before the move.
    Referenced,
}

impl HeatSource {
    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Damon => "damon",
            Self::Referenced => "referenced",
        }
    }
}

impl fmt::Display for HeatSource {
    /// A phrase for messages to people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "by address",
            Self::Damon => "used most first, as DAMON sees it",
            Self::Referenced => "mappings used most first, by their Referenced bits",
        })
    }
}

/// Scores of memory use, collected range by range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    /// For each process: the addresses where the score changes, and by how much.
    changes: Vec<BTreeMap<u64, i64>>,
}

impl Sightings {
    /// No scores yet, for this number of processes.
    pub fn new(processes: usize) -> Self {
        Self { changes: vec![BTreeMap::new(); processes] }
    }

    /// Adds `score` to each byte of a range; scores of overlapping ranges add up. An empty range adds nothing.
    pub fn add(&mut self, process: usize, range: Range<u64>, score: u32) {
        if range.start < range.end {
            let changes = &mut self.changes[process];
            *changes.entry(range.start).or_default() += i64::from(score);
            *changes.entry(range.end).or_default() -= i64::from(score);
        }
    }
}

/// The scores of all memory; any range can be asked for. Memory that was never looked at has the score 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// By process, in order of address.
    steps: Vec<Vec<ScoreStep>>,
}

/// An address where the score changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScoreStep {
    address: u64,
    /// Sum of the scores of all bytes below `address`.
    sum_below: u128,
    /// Score of each byte from `address` on.
    score: u64,
}

impl From<Sightings> for Heat {
    fn from(sightings: Sightings) -> Self {
        Self { steps: sightings.changes.iter().map(steps).collect() }
    }
}

impl Heat {
    /// The mean score of the bytes of a range; 0 for an empty one.
    pub fn mean(&self, process: usize, range: Range<u64>) -> f64 {
        let bytes = range.end.saturating_sub(range.start);
        let below = |address| sum_below(&self.steps[process], address);
        match bytes {
            0 => 0.0,
            _ => (below(range.end) - below(range.start)) as f64 / bytes as f64,
        }
    }
}

fn steps(changes: &BTreeMap<u64, i64>) -> Vec<ScoreStep> {
    let (mut sum_below, mut score, mut last) = (0, 0, 0);
    let step = |(&address, &change): (&u64, &i64)| {
        sum_below += u128::from(address - last) * u128::from(score);
        // Never negative: each range begins before it ends.
        score = u64::saturating_add_signed(score, change);
        last = address;
        ScoreStep { address, sum_below, score }
    };
    changes.iter().map(step).collect()
}

/// Sum of the scores of all bytes below an address.
fn sum_below(steps: &[ScoreStep], address: u64) -> u128 {
    let below = steps.partition_point(|step| step.address <= address).checked_sub(1);
    below.map_or(0, |at| {
        let step = steps[at];
        step.sum_below + u128::from(address - step.address) * u128::from(step.score)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn a_mean_is_that_of_the_bytes(
            ranges in vec((0..40u64, 0..20u64, 0..9u32), 0..12),
            (start, bytes) in (0..50u64, 0..30u64),
        ) {
            let mut seen = Sightings::new(2);
            for &(start, bytes, score) in &ranges {
                seen.add(1, start..start + bytes, score);
            }
            let heat = Heat::from(seen);
            let score = |at: u64| -> u32 {
                let over = ranges.iter().filter(|range| (range.0..range.0 + range.1).contains(&at));
                over.map(|range| range.2).sum()
            };
            let sum: u32 = (start..start + bytes).map(score).sum();
            let expected = if bytes == 0 { 0.0 } else { f64::from(sum) / bytes as f64 };
            prop_assert!((heat.mean(1, start..start + bytes) - expected).abs() < 1e-9);
            prop_assert_eq!(heat.mean(0, start..start + bytes), 0.0);
        }
    }

    #[test]
    fn the_whole_address_space_does_no_harm() {
        let mut seen = Sightings::new(1);
        for _ in 0..3 {
            seen.add(0, 0..u64::MAX, u32::MAX);
        }
        let mean = Heat::from(seen).mean(0, 0..u64::MAX);
        assert!((mean - 3.0 * f64::from(u32::MAX)).abs() < 1.0, "{mean}");
    }
}

//! Cost of memory of one node on the CPUs of another, and of a file on persistent memory: what is measured, and in which order.

use crate::{machine::ids::NodeId, number};

/// Bytes of a cache line on x86-64: what a load fetches.
pub const LINE: usize = 64;
const WORDS: usize = LINE / size_of::<u64>();

/// Memory of a node as the CPUs of a node see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The node of the CPUs.
    pub cpu_node: NodeId,
    /// The node of the memory.
    pub memory_node: NodeId,
    /// Latency of a load that depends on the one before, in nanoseconds; the median.
    pub latency_ns: f64,
    /// Bandwidth that all CPUs of the node read together, in bytes a second.
    pub read_bandwidth: f64,
    /// Bandwidth that all CPUs of the node write together, in bytes a second.
    pub write_bandwidth: f64,
}

/// Writes a chain into memory: the first word of each line has the index of the first word of the next one, and all lines are a single
/// cycle in an order that no prefetcher knows (Sattolo's algorithm). Lines that are not whole are left out.
pub fn chain(words: &mut [u64], seed: u64) {
    let lines = words.len() / WORDS;
    for line in 0..lines {
        words[line * WORDS] = (line * WORDS) as u64;
    }
    let mut random = seed | 1;
    for line in (1..lines).rev() {
        random = following(random);
        let other = number::index(random % line as u64);
        words.swap(line * WORDS, other * WORDS);
    }
}

/// The number after this one, which is not 0: xorshift64 (Marsaglia 2003). Which order it is does not matter.
fn following(mut random: u64) -> u64 {
    random ^= random << 13;
    random ^= random >> 7;
    random ^ random << 17
}

/// Follows a chain for some steps from an index on. Each load waits for the one before.
pub fn follow(words: &[u64], from: u64, steps: usize) -> u64 {
    (0..steps).fold(from, |at, _| words[number::index(at)])
}

/// The middle of some values; 0 if there are none.
pub fn median(values: Vec<f64>) -> f64 {
    quantile(values, 50)
}

/// The value that this percentage of some values is below; 0 if there are none.
pub fn quantile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = values.len() * percent / 100;
    values.get(place).or(values.last()).copied().unwrap_or_default()
}

/// Bytes of a block of a file that one operation reads or writes.
pub const BLOCK: usize = 4096;

/// What is done to the blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A block is copied from the file.
    Read,
    /// A block is copied to the file, and is persistent before the next one begins.
    Write,
}

/// The order in which blocks of a file are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPattern {
    /// By offset.
    Sequential,
    /// By chance.
    Random,
}

impl Operation {
    /// Each operation.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

impl AccessPattern {
    /// Each pattern.
    pub const ALL: [Self; 2] = [Self::Sequential, Self::Random];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }
}

/// A file on persistent memory as the CPUs of a node see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileSpeed {
    /// The node of the CPUs.
    pub cpu_node: NodeId,
    /// The order of the blocks.
    pub pattern: AccessPattern,
    /// What is done to each.
    pub operation: Operation,
    /// Bandwidth of all CPUs of the node together, in bytes a second.
    pub bandwidth: f64,
    /// Time of one operation on one CPU while the others rest, in nanoseconds; the median.
    pub latency_ns: f64,
    /// The same; the 99th percentile.
    pub latency_p99_ns: f64,
}

/// Indices below a number, without an end.
#[derive(Clone, Debug)]
pub struct Walk {
    pattern: AccessPattern,
    count: usize,
    at: usize,
    random: u64,
}

impl Walk {
    /// The indices of `count` things, at least one, in this order.
    pub fn new(pattern: AccessPattern, count: usize, seed: u64) -> Self {
        Self { pattern, count: count.max(1), at: 0, random: seed | 1 }
    }
}

impl Iterator for Walk {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.at;
        self.random = following(self.random);
        self.at = match self.pattern {
            AccessPattern::Sequential => (at + 1) % self.count,
            AccessPattern::Random => number::index(self.random % self.count as u64),
        };
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_chain_visits_each_line_once(lines in 1usize..300, rest in 0usize..WORDS, seed: u64) {
            let mut words = vec![u64::MAX; lines * WORDS + rest];
            chain(&mut words, seed);
            let mut visited = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                prop_assert!((at as usize).is_multiple_of(WORDS) && !visited[at as usize / WORDS]);
                visited[at as usize / WORDS] = true;
                at = follow(&words, at, 1);
            }
            prop_assert_eq!(at, 0);
            prop_assert_eq!(follow(&words, 0, lines), 0);
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn a_quantile_is_above_its_share_of_the_values() {
        let values: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(quantile(values.clone(), 99), 198.0);
        assert_eq!(quantile(values, 100), 199.0);
        assert_eq!(quantile(vec![3.0], 99), 3.0);
    }

    #[test]
    fn a_walk_takes_blocks_in_order_or_by_chance() {
        let first = |pattern, count| Walk::new(pattern, count, 7).take(6).collect::<Vec<_>>();
        assert_eq!(first(AccessPattern::Sequential, 4), [0, 1, 2, 3, 0, 1]);
        assert_eq!(first(AccessPattern::Random, 0), [0; 6], "there is always one");
        let mut seen = [0; 16];
        Walk::new(AccessPattern::Random, 16, 7).take(1600).for_each(|index| seen[index] += 1);
        assert!(seen.iter().all(|&times| (50..200).contains(&times)), "{seen:?}");
        assert_ne!(first(AccessPattern::Random, 100), first(AccessPattern::Sequential, 100));
    }
}

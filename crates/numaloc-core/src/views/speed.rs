//! Cost of memory of one node on the CPUs of another: how it is measured, and an upper bound of the cost of being
//! remote.

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
    pub bandwidth: f64,
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
        // xorshift64 (Marsaglia 2003); which order it is does not matter.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let other = number::index(random % line as u64);
        words.swap(line * WORDS, other * WORDS);
    }
}

/// Follows a chain for some steps from an index on. Each load waits for the one before.
pub fn follow(words: &[u64], from: u64, steps: usize) -> u64 {
    (0..steps).fold(from, |at, _| words[number::index(at)])
}

/// The middle of some values; 0 if there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
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
}

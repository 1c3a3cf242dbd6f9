//! What a schedule that relieves a node does next, by the node's free memory. Pure.

use numaloc_api::value::MigrationSpec;
use numaloc_core::{NodeId, NodeSet, Relief};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Least amount that comes back, unless all that has left is less: free memory of a node goes up and down all the time.
const RETURN_LEAST: u64 = 64 << 20;
/// Shortest wait after a run that could move nothing.
const FUTILE: Duration = Duration::from_secs(60);

/// Memory that a schedule has moved away from its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relieved {
    /// Bytes by the node that they went to, less those that have come back.
    bytes: BTreeMap<NodeId, u64>,
    /// When a run last moved some of it.
    last: Option<Instant>,
    /// Until when nothing is tried, because the last run could move nothing.
    futile: Option<Instant>,
}

/// Which way memory moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As the schedule says; by a relief, it leaves the node.
    Out,
    /// Back to the node from these, at most this many bytes.
    Back {
        /// Where it went.
        from: NodeSet,
        /// Bytes that have left the node and have not come back.
        bytes: u64,
    },
}

impl Direction {
    /// The migration of a schedule's run.
    pub fn of(self, mut migration: MigrationSpec) -> MigrationSpec {
        let options = &mut migration.policy.options;
        if let (Self::Back { from, bytes }, Some(relief)) = (self, &mut options.relief) {
            relief.returning_bytes = Some(bytes);
            (options.from, options.to) = (Some(from), None);
        }
        migration
    }
}

/// What a look at the node shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReliefStep {
    /// A run moves memory.
    Run(Direction),
    /// Nothing is to be done now.
    Rest,
}

impl Relieved {
    /// The step to take with this much free memory on the node.
    pub fn step(&self, relief: &Relief, free_bytes: u64, now: Instant) -> ReliefStep {
        if relief.is_needed(free_bytes) {
            return match self.futile.is_some_and(|until| now < until) {
                true => ReliefStep::Rest,
                false => ReliefStep::Run(Direction::Out),
            };
        }
        let all: u64 = self.bytes.values().sum();
        let room = free_bytes.saturating_sub(relief.free_until_bytes);
        let is_early = self.last.is_none_or(|last| now < last + relief.return_after);
        if all == 0 || is_early || room < all.min(RETURN_LEAST) {
            return ReliefStep::Rest;
        }
        let from = self.bytes.keys().copied().collect();
        ReliefStep::Run(Direction::Back { from, bytes: all })
    }

    /// Counts what a run has moved.
    pub fn ran(&mut self, relief: &Relief, flows: &BTreeMap<(NodeId, NodeId), u64>, now: Instant) {
        let is_return = relief.returning_bytes.is_some();
        let mut moved_bytes = 0;
        for (&(from, to), &bytes) in flows {
            if is_return && to == relief.node {
                let left = self.bytes.entry(from).or_default();
                *left = left.saturating_sub(bytes);
                moved_bytes += bytes;
            } else if !is_return && from == relief.node {
                *self.bytes.entry(to).or_default() += bytes;
                moved_bytes += bytes;
            }
        }
        match (moved_bytes > 0, is_return) {
            (true, _) => (self.last, self.futile) = (Some(now), None),
            // What had left has been freed, or its process has ended.
            (false, true) => *self = Self::default(),
            (false, false) => self.futile = Some(now + FUTILE),
        }
        self.bytes.retain(|_, bytes| *bytes > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const NODES: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];

    fn relief() -> Relief {
        Relief { free_until_bytes: 3 * GIB, ..Relief::until(NODES[1], 2 * GIB) }
    }

    fn flows(of: &[(usize, usize, u64)]) -> BTreeMap<(NodeId, NodeId), u64> {
        of.iter().map(|&(from, to, bytes)| ((NODES[from], NODES[to]), bytes)).collect()
    }

    fn back(bytes: u64) -> ReliefStep {
        let from = [NODES[0], NODES[2]].into_iter().collect();
        ReliefStep::Run(Direction::Back { from, bytes })
    }

    #[test]
    fn memory_leaves_below_the_bound_and_comes_back_once_there_is_room() {
        let (relief, begin) = (relief(), Instant::now());
        let mut relieved = Relieved::default();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(relieved.step(&relief, 2 * GIB, begin), ReliefStep::Rest);
        assert_eq!(relieved.step(&relief, GIB, begin), ReliefStep::Run(Direction::Out));
        relieved.ran(&relief, &flows(&[(1, 0, GIB), (1, 2, GIB), (0, 2, 7)]), begin);
        assert_eq!(relieved.step(&relief, 9 * GIB, at(899)), ReliefStep::Rest, "too early");
        assert_eq!(relieved.step(&relief, 9 * GIB, at(900)), back(2 * GIB));
        assert_eq!(relieved.step(&relief, 3 * GIB, at(900)), ReliefStep::Rest, "no room");
        assert_eq!(relieved.step(&relief, 3 * GIB + RETURN_LEAST, at(900)), back(2 * GIB));
        let returning = Relief { returning_bytes: Some(2 * GIB), ..relief.clone() };
        relieved.ran(&returning, &flows(&[(0, 1, GIB), (2, 1, GIB - 8)]), at(900));
        assert_eq!(relieved.bytes, [(NODES[2], 8)].into());
        assert_eq!(relieved.step(&relief, 9 * GIB, at(901)), ReliefStep::Rest);
        // Memory leaves again at once if it has to, and then stays away as long.
        assert_eq!(relieved.step(&relief, GIB, at(901)), ReliefStep::Run(Direction::Out));
        relieved.ran(&relief, &flows(&[(1, 0, GIB)]), at(901));
        assert_eq!(relieved.step(&relief, 9 * GIB, at(1800)), ReliefStep::Rest);
        assert_eq!(relieved.step(&relief, 9 * GIB, at(1801)), back(GIB + 8));
    }

    #[test]
    fn what_moves_nothing_is_not_repeated_at_once() {
        let (relief, begin) = (relief(), Instant::now());
        let mut relieved = Relieved::default();
        relieved.ran(&relief, &flows(&[]), begin);
        assert_eq!(relieved.step(&relief, GIB, begin), ReliefStep::Rest);
        assert_eq!(relieved.step(&relief, GIB, begin + FUTILE), ReliefStep::Run(Direction::Out));
        relieved.ran(&relief, &flows(&[(1, 0, GIB)]), begin);
        let returning = Relief { returning_bytes: Some(GIB), ..relief.clone() };
        relieved.ran(&returning, &flows(&[]), begin);
        assert_eq!(relieved, Relieved::default(), "it has been freed");
    }
}

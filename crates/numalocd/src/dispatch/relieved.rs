//! What a schedule that relieves a node does next, by the state of the node. Pure.

use numaloc_api::value::MigrationSpec;
use numaloc_core::{NodeId, NodeSet, NodeUse, Relief};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Least amount that comes back, unless all that has left is less: free memory of a node goes up and down all the time.
const RETURN_LEAST: u64 = 64 << 20;
/// Shortest wait after a run that could move nothing.
const FUTILE: Duration = Duration::from_secs(60);

/// Bytes that are away from a node that is relieved, by the node that they went to.
pub type Away = BTreeMap<NodeId, u64>;

/// When a schedule that relieves a node may move memory again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReliefTimes {
    /// Until when what is away stays there.
    stays: Option<Instant>,
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
        /// Bytes for which there is room, of those that have left the node and have not come back.
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

impl ReliefTimes {
    /// For memory that a run has moved this long ago.
    pub fn of(relief: &Relief, ago: Duration, now: Instant) -> Self {
        Self { stays: Some(now + relief.return_after.saturating_sub(ago)), futile: None }
    }

    /// The step to take with the node in this state, and this much away from it.
    pub fn step(&self, relief: &Relief, node: NodeUse, away: &Away, now: Instant) -> ReliefStep {
        if relief.is_needed(node) {
            return match self.futile.is_some_and(|until| now < until) {
                true => ReliefStep::Rest,
                false => ReliefStep::Run(Direction::Out),
            };
        }
        let all: u64 = away.values().sum();
        let bytes = relief.room_for(node, all);
        let is_early = self.stays.is_some_and(|until| now < until);
        if all == 0 || is_early || bytes < all.min(RETURN_LEAST) {
            return ReliefStep::Rest;
        }
        let from = away.keys().copied().collect();
        ReliefStep::Run(Direction::Back { from, bytes })
    }

    /// Counts a run that has moved memory, or none.
    pub fn ran(&mut self, relief: &Relief, has_moved: bool, now: Instant) {
        *self = match (has_moved, relief.returning_bytes) {
            (true, _) => Self::of(relief, Duration::ZERO, now),
            (false, None) => Self { futile: Some(now + FUTILE), ..*self },
            (false, Some(_)) => Self::default(),
        };
    }
}

/// What a run with these flows has moved away from the node, or back to it, by the other node.
pub fn moved(relief: &Relief, flows: &BTreeMap<(NodeId, NodeId), u64>) -> Away {
    let is_return = relief.returning_bytes.is_some();
    let mut moved = Away::new();
    for (&(from, to), &bytes) in flows {
        let (other, node) = if is_return { (from, to) } else { (to, from) };
        if node == relief.node && bytes > 0 {
            *moved.entry(other).or_default() += bytes;
        }
    }
    moved
}

/// What is away from the node after a run that has moved this. If nothing comes back, it has been freed, or its process has ended.
pub fn after_run(away: &Away, relief: &Relief, moved: &Away) -> Away {
    let mut after = away.clone();
    if relief.returning_bytes.is_none() {
        moved.iter().for_each(|(node, bytes)| *after.entry(*node).or_default() += bytes);
        return after;
    }
    after.retain(|node, bytes| {
        *bytes = bytes.saturating_sub(moved.get(node).copied().unwrap_or_default());
        *bytes > 0 && !moved.is_empty()
    });
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{NodeTraffic, ReliefBound};

    const GIB: u64 = 1 << 30;
    const NODES: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];

    fn relief() -> Relief {
        let bound = ReliefBound::Free { below_bytes: 2 * GIB, until_bytes: 3 * GIB };
        Relief::within(NODES[1], bound)
    }

    fn free(free_bytes: u64) -> NodeUse {
        NodeUse { free_bytes, ..NodeUse::default() }
    }

    fn flows(of: &[(usize, usize, u64)]) -> BTreeMap<(NodeId, NodeId), u64> {
        of.iter().map(|&(from, to, bytes)| ((NODES[from], NODES[to]), bytes)).collect()
    }

    fn back(bytes: u64) -> ReliefStep {
        let from = [NODES[0], NODES[2]].into_iter().collect();
        ReliefStep::Run(Direction::Back { from, bytes })
    }

    /// A schedule with what it has moved away.
    #[derive(Default, Debug, PartialEq)]
    struct Relieved {
        times: ReliefTimes,
        away: Away,
    }

    impl Relieved {
        fn step(&self, relief: &Relief, node: NodeUse, now: Instant) -> ReliefStep {
            self.times.step(relief, node, &self.away, now)
        }

        fn ran(&mut self, relief: &Relief, flows: &BTreeMap<(NodeId, NodeId), u64>, now: Instant) {
            let moved = moved(relief, flows);
            self.times.ran(relief, !moved.is_empty(), now);
            self.away = after_run(&self.away, relief, &moved);
        }
    }

    #[test]
    fn memory_leaves_below_the_bound_and_comes_back_once_there_is_room() {
        let (relief, begin) = (relief(), Instant::now());
        let mut relieved = Relieved::default();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(relieved.step(&relief, free(2 * GIB), begin), ReliefStep::Rest);
        assert_eq!(relieved.step(&relief, free(GIB), begin), ReliefStep::Run(Direction::Out));
        relieved.ran(&relief, &flows(&[(1, 0, GIB), (1, 2, GIB), (0, 2, 7)]), begin);
        assert_eq!(relieved.step(&relief, free(9 * GIB), at(899)), ReliefStep::Rest, "too early");
        assert_eq!(relieved.step(&relief, free(9 * GIB), at(900)), back(2 * GIB));
        assert_eq!(relieved.step(&relief, free(3 * GIB), at(900)), ReliefStep::Rest, "no room");
        let least = free(3 * GIB + RETURN_LEAST);
        assert_eq!(relieved.step(&relief, least, at(900)), back(RETURN_LEAST));
        let returning = Relief { returning_bytes: Some(2 * GIB), ..relief.clone() };
        relieved.ran(&returning, &flows(&[(0, 1, GIB), (2, 1, GIB - 8)]), at(900));
        assert_eq!(relieved.away, [(NODES[2], 8)].into());
        assert_eq!(relieved.step(&relief, free(9 * GIB), at(901)), ReliefStep::Rest);
        // Memory leaves again at once if it has to, and then stays away as long.
        assert_eq!(relieved.step(&relief, free(GIB), at(901)), ReliefStep::Run(Direction::Out));
        relieved.ran(&relief, &flows(&[(1, 0, GIB)]), at(901));
        assert_eq!(relieved.step(&relief, free(9 * GIB), at(1800)), ReliefStep::Rest);
        assert_eq!(relieved.step(&relief, free(9 * GIB), at(1801)), back(GIB + 8));
    }

    #[test]
    fn memory_comes_back_as_far_as_the_node_is_used_less() {
        let bound = ReliefBound::Traffic {
            above_bytes_per_second: 8 * GIB,
            until_bytes_per_second: 4 * GIB,
        };
        let (relief, begin) = (Relief::within(NODES[1], bound), Instant::now());
        let used = |bytes_per_second| {
            let traffic = Some(NodeTraffic { bytes_per_second, is_whole: true });
            NodeUse { traffic, ..NodeUse::default() }
        };
        let mut relieved = Relieved::default();
        let out = ReliefStep::Run(Direction::Out);
        assert_eq!(relieved.step(&relief, used(9 * GIB), begin), out);
        relieved.ran(&relief, &flows(&[(1, 0, GIB), (1, 2, GIB)]), begin);
        assert_eq!(relieved.step(&relief, used(9 * GIB), begin), out, "the next part");
        let later = begin + relief.return_after;
        assert_eq!(relieved.step(&relief, used(6 * GIB), later), ReliefStep::Rest);
        assert_eq!(relieved.step(&relief, used(3 * GIB), later), back(GIB / 2));
        assert_eq!(relieved.step(&relief, NodeUse::default(), later), ReliefStep::Rest);
    }

    #[test]
    fn what_moves_nothing_is_not_repeated_at_once() {
        let (relief, begin) = (relief(), Instant::now());
        let mut relieved = Relieved::default();
        relieved.ran(&relief, &flows(&[]), begin);
        assert_eq!(relieved.step(&relief, free(GIB), begin), ReliefStep::Rest);
        assert_eq!(
            relieved.step(&relief, free(GIB), begin + FUTILE),
            ReliefStep::Run(Direction::Out)
        );
        relieved.ran(&relief, &flows(&[(1, 0, GIB)]), begin);
        let returning = Relief { returning_bytes: Some(GIB), ..relief.clone() };
        relieved.ran(&returning, &flows(&[]), begin);
        assert_eq!(relieved, Relieved::default(), "it has been freed");
    }
}

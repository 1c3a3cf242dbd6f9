//! Relief of a node: memory leaves it while too little of it is free or while it is used too much, and comes back when there is room.

use crate::{
    amount::shown_size,
    machine::{
        ids::{NodeId, NodeSet},
        topology::Topology,
        traffic::NodeTraffic,
    },
    number,
};
use std::time::Duration;

/// How long memory that has left a node stays away at least. A node that fills up and empties again and again moves
/// the same bytes once in this time at most.
pub const RETURN_AFTER: Duration = Duration::from_secs(900);

/// Moves memory from a node while it is over a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relief {
    /// The node that memory leaves.
    pub node: NodeId,
    /// When memory leaves, and how much.
    pub bound: ReliefBound,
    /// How long memory stays away at least before a schedule brings it back.
    pub return_after: Duration,
    /// The opposite way: memory comes back to the node, at most this many bytes, while the node stays within its bound.
    pub returning_bytes: Option<u64>,
    /// Nodes that get nothing if the request names no nodes: others are relieved of memory, too.
    pub spared: NodeSet,
    /// How much the node is used, which was measured just before the plan; `None`: unknown, or no such bound. No part of a request.
    pub traffic: Option<NodeTraffic>,
}

/// What a node must not exceed. Memory leaves from the first bound on, until the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReliefBound {
    /// Least free memory. Page cache does not count as free.
    Free {
        /// Nothing moves while at least this much is free on the node, in bytes.
        below_bytes: u64,
        /// Once less is free, memory leaves until this much is free, in bytes; at least `below_bytes`.
        until_bytes: u64,
    },
    /// Most use of the node's memory by CPUs. How much of it the target causes is unknown, so a run moves the share of the target's
    /// memory on the node by which the node is over its second bound, and the next run measures again.
    Traffic {
        /// Nothing moves while the node is used at most this much, in bytes per second.
        above_bytes_per_second: u64,
        /// What the node is to be used at most then, in bytes per second; at most `above_bytes_per_second`.
        until_bytes_per_second: u64,
    },
}

/// State of a node that is to be relieved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeUse {
    /// Bytes that are free, without page cache.
    pub free_bytes: u64,
    /// How much its memory is used; `None`: not measured, or nothing measures it. Where only a lower bound is known, memory leaves and comes
    /// back by that.
    pub traffic: Option<NodeTraffic>,
}

/// Why a node cannot be relieved as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRelief {
    /// No other node may get memory.
    #[error(
        "cannot relieve node {node}: no other node with memory is left to take its memory{}",
        relieved(spared)
    )]
    NoOther {
        /// The node to be relieved.
        node: NodeId,
        /// Other nodes that are relieved, too.
        spared: NodeSet,
    },
    /// The node is among those that get its memory.
    #[error(
        "cannot relieve node {node} by memory that goes to nodes {to}, which include it: leave it out"
    )]
    ToItself {
        /// The node to be relieved.
        node: NodeId,
        /// The nodes that are to get its memory.
        to: NodeSet,
    },
    /// More is to be free than the node has.
    #[error(
        "cannot relieve node {node}: {} are to be free, and it has {} in all; ask for less",
        shown_size(*wanted_bytes),
        shown_size(*total_bytes)
    )]
    TooMuch {
        /// The node to be relieved.
        node: NodeId,
        /// Bytes that are to be free.
        wanted_bytes: u64,
        /// All memory of the node, in bytes.
        total_bytes: u64,
    },
}

fn relieved(spared: &NodeSet) -> String {
    match spared.is_empty() {
        true => String::new(),
        false => format!(" (nodes {spared} are relieved themselves)"),
    }
}

impl Relief {
    /// Relief of a node until this much is free there.
    pub fn until(node: NodeId, free_bytes: u64) -> Self {
        Self::within(node, ReliefBound::Free { below_bytes: free_bytes, until_bytes: free_bytes })
    }

    /// Relief of a node while it is over this bound.
    pub fn within(node: NodeId, bound: ReliefBound) -> Self {
        Self {
            node,
            bound,
            return_after: RETURN_AFTER,
            returning_bytes: None,
            spared: NodeSet::new(),
            traffic: None,
        }
    }

    /// Why nothing leaves a node that is within the bound.
    pub fn within_bound(&self) -> String {
        let node = self.node;
        match self.bound {
            ReliefBound::Free { below_bytes, .. } => {
                format!("node {node} has at least {} free", shown_size(below_bytes))
            }
            ReliefBound::Traffic { above_bytes_per_second, .. } => {
                let most = shown_size(above_bytes_per_second);
                format!("memory of node {node} is used at {most}/s at most")
            }
        }
    }

    /// Whether the node's use has to be measured.
    pub fn measures_traffic(&self) -> bool {
        matches!(self.bound, ReliefBound::Traffic { .. })
    }

    /// Whether memory has to leave the node. Nothing is concluded from what is not known.
    pub fn is_needed(&self, node: NodeUse) -> bool {
        match self.bound {
            ReliefBound::Free { below_bytes, .. } => node.free_bytes < below_bytes,
            ReliefBound::Traffic { above_bytes_per_second: above, .. } => {
                node.traffic.is_some_and(|traffic| traffic.bytes_per_second > above)
            }
        }
    }

    /// Bytes to move of a target that has `held_bytes` on the node; on the way back, of what is away.
    pub fn wanted_bytes(&self, node: NodeUse, held_bytes: u64) -> u64 {
        match (self.returning_bytes, self.bound) {
            (Some(bytes), _) => self.room_for(node, bytes),
            (None, _) if !self.is_needed(node) => 0,
            (None, ReliefBound::Free { until_bytes, .. }) => until_bytes - node.free_bytes,
            (None, ReliefBound::Traffic { until_bytes_per_second: until, .. }) => {
                let used = node.traffic.map_or(0, |traffic| traffic.bytes_per_second);
                let over = u128::from(used.saturating_sub(until));
                number::amount((u128::from(held_bytes) * over).div_ceil(u128::from(used.max(1))))
            }
        }
    }

    /// How many of the `bytes` that have left the node may come back.
    pub fn room_for(&self, node: NodeUse, bytes: u64) -> u64 {
        match (self.bound, node.traffic) {
            (ReliefBound::Free { until_bytes, .. }, _) => {
                bytes.min(node.free_bytes.saturating_sub(until_bytes))
            }
            (ReliefBound::Traffic { until_bytes_per_second: until, .. }, Some(traffic)) => {
                let room = u128::from(until.saturating_sub(traffic.bytes_per_second));
                number::amount(u128::from(bytes) * room / u128::from(until.max(1)))
            }
            (ReliefBound::Traffic { .. }, None) => 0,
        }
    }

    /// Checks the relief that a request with these target nodes asks for on this machine, on which the node has memory.
    ///
    /// # Errors
    /// [`BadRelief`].
    pub fn check(&self, to: Option<&NodeSet>, topology: &Topology) -> Result<(), BadRelief> {
        let Self { node, ref spared, .. } = *self;
        if self.returning_bytes.is_some() {
            return Ok(());
        }
        if let Some(to) = to.filter(|to| to.contains(node)) {
            return Err(BadRelief::ToItself { node, to: to.clone() });
        }
        let own: NodeSet = [node].into_iter().collect();
        if to.is_none() && topology.with_memory().minus(&own).minus(spared).is_empty() {
            return Err(BadRelief::NoOther { node, spared: spared.clone() });
        }
        let total_bytes = topology.node(node).map_or(0, |node| node.memory.total_bytes);
        match self.bound {
            ReliefBound::Free { until_bytes: wanted_bytes, .. } if wanted_bytes > total_bytes => {
                Err(BadRelief::TooMuch { node, wanted_bytes, total_bytes })
            }
            ReliefBound::Free { .. } | ReliefBound::Traffic { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuSet, MakeRoom, Node, NodeMemory, Options};
    use std::borrow::Cow;

    const GIB: u64 = 1 << 30;

    fn topology(count: u32) -> Topology {
        let node = |id| {
            let memory = NodeMemory {
                total_bytes: 16 * GIB,
                high_watermark_bytes: GIB,
                ..NodeMemory::default()
            };
            Node { id: NodeId(id), cpus: CpuSet::new(), memory }
        };
        Topology::new((0..count).map(node), [])
    }

    fn nodes(list: &str) -> NodeSet {
        list.parse().expect("a list")
    }

    fn relief() -> Relief {
        let bound = ReliefBound::Free { below_bytes: 2 * GIB, until_bytes: 3 * GIB };
        Relief::within(NodeId(1), bound)
    }

    fn free(free_bytes: u64) -> NodeUse {
        NodeUse { free_bytes, ..NodeUse::default() }
    }

    fn used(bytes_per_second: u64) -> NodeUse {
        let traffic = Some(NodeTraffic { bytes_per_second, is_whole: false });
        NodeUse { traffic, ..NodeUse::default() }
    }

    #[test]
    fn memory_leaves_below_one_bound_and_until_the_other() {
        let relief = relief();
        let wanted = [GIB, 2 * GIB].map(|bytes| relief.wanted_bytes(free(bytes), 9 * GIB));
        assert_eq!(wanted, [2 * GIB, 0]);
        let back = Relief { returning_bytes: Some(4 * GIB), ..relief };
        let wanted = [2, 3, 5, 9].map(|gib| back.wanted_bytes(free(gib * GIB), 0));
        assert_eq!(wanted, [0, 0, 2 * GIB, 4 * GIB]);
    }

    #[test]
    fn memory_leaves_a_node_that_is_used_too_much_in_proportion() {
        let bound = ReliefBound::Traffic { above_bytes_per_second: 80, until_bytes_per_second: 60 };
        let relief = Relief::within(NodeId(1), bound);
        assert!(relief.measures_traffic() && !self::relief().measures_traffic());
        let wanted = [0, 80, 120, u64::MAX].map(|rate| relief.wanted_bytes(used(rate), 1000));
        assert_eq!(wanted, [0, 0, 500, 1000]);
        assert_eq!(relief.wanted_bytes(used(120), 1), 1, "what is over leaves");
        assert!(!relief.is_needed(NodeUse::default()), "not measured");
        let back = Relief { returning_bytes: Some(1000), ..relief };
        let wanted = [0, 30, 60, 70].map(|rate| back.wanted_bytes(used(rate), 0));
        assert_eq!(wanted, [1000, 500, 0, 0]);
        assert_eq!(back.wanted_bytes(NodeUse::default(), 0), 0, "not measured");
        assert_eq!(back.check(None, &topology(2)), Ok(()));
    }

    #[test]
    fn what_cannot_be_relieved_is_refused() {
        let check = |relief: &Relief, to: Option<&str>, count| {
            relief.check(to.map(nodes).as_ref(), &topology(count)).map_err(|bad| bad.to_string())
        };
        let until = |gib| Relief::until(NodeId(1), gib * GIB);
        assert_eq!(check(&until(16), None, 2), Ok(()));
        assert_eq!(check(&until(2), Some("0"), 2), Ok(()));
        let refused = check(&until(17), None, 2).unwrap_err();
        assert_eq!(
            refused,
            "cannot relieve node 1: 17.0 GiB are to be free, and it has 16.0 GiB in all; ask for less"
        );
        let refused = check(&until(2), Some("0-1"), 2).unwrap_err();
        assert!(refused.contains("nodes 0-1, which include it"), "{refused}");
        let spared = Relief { spared: nodes("0"), ..until(2) };
        let refused = check(&spared, None, 2).unwrap_err();
        assert!(refused.ends_with("(nodes 0 are relieved themselves)"), "{refused}");
        assert_eq!(check(&spared, None, 3), Ok(()));
        let only = Relief::until(NodeId(0), GIB);
        assert!(check(&only, None, 1).unwrap_err().contains("no other node"));
    }

    #[test]
    fn it_names_its_nodes() {
        let options = Options { relief: Some(relief()), ..Options::default() };
        let out = options.relieving(&topology(4));
        assert_eq!((out.from.clone(), out.to.clone()), (Some(nodes("1")), Some(nodes("0,2-3"))));
        assert_eq!((out.make_room, out.judged_ratio()), (MakeRoom::None, 0));
        let spared = Some(Relief { spared: nodes("2"), ..relief() });
        let out = Options { relief: spared, ..Options::default() };
        assert_eq!(out.relieving(&topology(4)).to, Some(nodes("0,3")));
        let named = Options { to: Some(nodes("3")), ..options.clone() };
        assert_eq!(named.relieving(&topology(4)).to, Some(nodes("3")));
        let returning = Some(Relief { returning_bytes: Some(1), ..relief() });
        let back = Options { relief: returning, from: Some(nodes("3")), ..Options::default() };
        let back = back.relieving(&topology(4)).into_owned();
        assert_eq!((back.from, back.to), (Some(nodes("3")), Some(nodes("1"))));
        assert_eq!(back.reserve_bytes, Some(2 * GIB), "with the watermark 3 GiB stay free");
        let other = Options::default();
        assert!(matches!(other.relieving(&topology(2)), Cow::Borrowed(_)));
    }
}

//! Relief of a node: memory leaves it until enough of it is free, and comes back when there is room.

use crate::{
    amount::shown_size,
    machine::{
        ids::{NodeId, NodeSet},
        topology::Topology,
    },
};
use std::time::Duration;

/// How long memory that has left a node stays away at least. A node that fills up and empties again and again moves
/// the same bytes once in this time at most.
pub const RETURN_AFTER: Duration = Duration::from_secs(900);

/// Moves memory from a node while less than a bound is free there. Page cache does not count as free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relief {
    /// The node that memory leaves.
    pub node: NodeId,
    /// Nothing moves while at least this much is free on the node, in bytes.
    pub free_below_bytes: u64,
    /// Once less is free, memory leaves until this much is free, in bytes; at least `free_below_bytes`.
    pub free_until_bytes: u64,
    /// How long memory stays away at least before a schedule brings it back.
    pub return_after: Duration,
    /// The opposite way: memory comes back to the node, at most this many bytes, while `free_until_bytes` stay free there.
    pub returning_bytes: Option<u64>,
    /// Nodes that get nothing if the request names no nodes: others are relieved of memory, too.
    pub spared: NodeSet,
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
        Self {
            node,
            free_below_bytes: free_bytes,
            free_until_bytes: free_bytes,
            return_after: RETURN_AFTER,
            returning_bytes: None,
            spared: NodeSet::new(),
        }
    }

    /// Whether memory has to leave the node.
    pub fn is_needed(&self, free_bytes: u64) -> bool {
        free_bytes < self.free_below_bytes
    }

    /// Bytes to move on a node with this much free memory.
    pub fn wanted_bytes(&self, free_bytes: u64) -> u64 {
        match self.returning_bytes {
            Some(bytes) => bytes.min(free_bytes.saturating_sub(self.free_until_bytes)),
            None if self.is_needed(free_bytes) => self.free_until_bytes - free_bytes,
            None => 0,
        }
    }

    /// Checks the relief that a request with these target nodes asks for on this machine, on which the node has memory.
    ///
    /// # Errors
    /// [`BadRelief`].
    pub fn check(&self, to: Option<&NodeSet>, topology: &Topology) -> Result<(), BadRelief> {
        let Self { node, free_until_bytes: wanted_bytes, spared, .. } = self;
        let node = *node;
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
        match *wanted_bytes > total_bytes {
            true => Err(BadRelief::TooMuch { node, wanted_bytes: *wanted_bytes, total_bytes }),
            false => Ok(()),
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
        Relief { free_until_bytes: 3 * GIB, ..Relief::until(NodeId(1), 2 * GIB) }
    }

    #[test]
    fn memory_leaves_below_one_bound_and_until_the_other() {
        let relief = relief();
        assert_eq!([GIB, 2 * GIB].map(|free| relief.wanted_bytes(free)), [2 * GIB, 0]);
        let back = Relief { returning_bytes: Some(4 * GIB), ..relief };
        let wanted = [2, 3, 5, 9].map(|free| back.wanted_bytes(free * GIB));
        assert_eq!(wanted, [0, 0, 2 * GIB, 4 * GIB]);
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

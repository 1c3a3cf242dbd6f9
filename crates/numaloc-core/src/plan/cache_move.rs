//! Page cache that moves from a full target to another node, to make room there: how far ahead, where to, which pages.

use crate::machine::{
    ids::{NodeId, NodeSet},
    topology::Topology,
};
use std::ops::Range;

/// Most bytes of page cache that have left a node while nothing has come in their place yet: as in an exchange.
pub const AHEAD: u64 = crate::plan::exchange::CHUNK;

/// Nodes that page cache may go to: all with memory, but no target of the run, and no memory-only node of another tier, whose memory
/// is slower or a device's.
pub fn others(topology: &Topology, targets: &NodeSet) -> NodeSet {
    topology.with_memory().minus(targets).minus(&topology.other_tiers())
}

/// The nearest of the nodes `among` that has room for `bytes`, and of equally near ones the one with most room. `room` gives the
/// bytes that a node can take.
pub fn destination(
    topology: &Topology,
    node: NodeId,
    among: &NodeSet,
    bytes: u64,
    room: impl Fn(NodeId) -> u64,
) -> Option<NodeId> {
    let with_room = among.iter().filter(|&to| to != node).map(|to| (to, room(to)));
    let with_room = with_room.filter(|&(_, room)| room >= bytes);
    let key =
        |&(to, room): &(NodeId, u64)| (topology.distance(node, to), std::cmp::Reverse(room), to);
    with_room.min_by_key(key).map(|(to, _)| to)
}

/// Ranges of pages that are in memory, each as long as it can be.
pub fn runs(resident: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (page, _) in resident.iter().enumerate().filter(|(_, is_there)| **is_there) {
        match runs.last_mut().filter(|run| run.end == page) {
            Some(run) => run.end += 1,
            None => runs.push(page..page + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::topology::{Node, NodeMemory};

    /// Nodes 0 to 3; node 2 is the nearest to node 0, and 1 and 3 are equally far. Node 4 has memory only.
    fn topology() -> Topology {
        let node = |id| Node {
            id: NodeId(id),
            cpus: if id < 4 { id.to_string().parse().unwrap() } else { Default::default() },
            memory: NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() },
        };
        let distances = [(1, 20), (2, 15), (3, 20), (4, 40)];
        let distances = distances.map(|(to, distance)| ((NodeId(0), NodeId(to)), distance));
        let back = distances.map(|((from, to), distance)| ((to, from), distance));
        Topology::new((0..5).map(node), distances.into_iter().chain(back))
    }

    fn set(list: &str) -> NodeSet {
        list.parse().unwrap()
    }

    #[test]
    fn neither_targets_nor_other_tiers_take_cache() {
        assert_eq!(others(&topology(), &set("0")), set("1-3"));
        assert_eq!(others(&topology(), &set("0,3")), set("1-2"));
        assert!(others(&topology(), &set("0-3")).is_empty());
    }

    #[test]
    fn the_nearest_node_with_room_takes_it() {
        let to = |among: &str, room: [u64; 4]| {
            let room = |node: NodeId| room[node.0 as usize];
            destination(&topology(), NodeId(0), &set(among), 10, room).map(|node| node.0)
        };
        assert_eq!(to("1-3", [99, 50, 10, 60]), Some(2));
        assert_eq!(to("1-3", [99, 50, 9, 60]), Some(3), "the one with most room");
        assert_eq!(to("1-2", [99, 50, 9, 60]), Some(1), "node 3 is not allowed");
        assert_eq!(to("0-3", [99, 9, 9, 9]), None, "never where it is");
    }

    #[test]
    fn runs_have_what_is_in_memory_and_nothing_else() {
        assert!(runs(&[]).is_empty() && runs(&[false; 3]).is_empty());
        assert_eq!(runs(&[true, true, true, false, true]), [0..3, 4..5]);
        assert_eq!(runs(&[false, true, true, false, true]), [1..3, 4..5]);
    }
}

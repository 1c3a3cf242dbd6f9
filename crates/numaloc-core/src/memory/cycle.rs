//! Nodes that take turns.

use crate::machine::ids::{NodeId, NodeSet};
use std::collections::BTreeMap;

/// Nodes in the order of their indexes, each with its weight: how many indexes in a row are its own. After the last node the
/// first one follows again (mm/mempolicy.c, `interleave_nid`, where all weights are 1, and `weighted_interleave_nid`).
///
/// ```
/// use numaloc_core::{Cycle, NodeId};
///
/// let cycle = Cycle::new([(NodeId(0), 3), (NodeId(8), 1)]);
/// let nodes: Vec<u32> = (0..6).map(|index| cycle.node(index).0).collect();
/// assert_eq!(nodes, [0, 0, 0, 8, 0, 0]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cycle {
    /// Nodes, each with the number of indexes of a turn that come before the end of its own.
    ends: Vec<(NodeId, u64)>,
}

impl Cycle {
    /// Nodes with their weights. A weight of 0 counts as 1, as in the kernel.
    ///
    /// # Panics
    /// Without any node.
    pub fn new(weights: impl IntoIterator<Item = (NodeId, u8)>) -> Self {
        let by_node: BTreeMap<NodeId, u8> = weights.into_iter().collect();
        assert!(!by_node.is_empty(), "a cycle has nodes");
        let mut end = 0;
        let ends = by_node.into_iter().map(|(node, weight)| {
            end += u64::from(weight.max(1));
            (node, end)
        });
        Self { ends: ends.collect() }
    }

    /// The node whose turn this index is.
    pub fn node(&self, index: u64) -> NodeId {
        let (last, total) = self.ends[self.ends.len() - 1];
        let at = index % total;
        self.ends.iter().find(|(_, end)| at < *end).map_or(last, |(node, _)| *node)
    }

    /// The position of a node and the number of nodes, if each has one index in a row; `None` also if the node has no turn.
    pub fn plain_turn(&self, node: NodeId) -> Option<(u64, u64)> {
        let nodes = self.ends.len() as u64;
        let is_plain = self.ends.last().is_some_and(|(_, end)| *end == nodes);
        let turn = self.ends.iter().position(|(known, _)| *known == node)?;
        is_plain.then_some((turn as u64, nodes))
    }

    /// The nodes that have a turn.
    pub fn nodes(&self) -> NodeSet {
        self.ends.iter().map(|(node, _)| *node).collect()
    }

    /// A cycle of the nodes of both, each with the larger of its weights.
    pub fn join(&self, other: &Self) -> Self {
        let mut weights: BTreeMap<NodeId, u8> = self.weights().collect();
        for (node, weight) in other.weights() {
            let joined = weights.entry(node).or_default();
            *joined = weight.max(*joined);
        }
        Self::new(weights)
    }

    fn weights(&self) -> impl Iterator<Item = (NodeId, u8)> {
        let mut begin = 0;
        self.ends.iter().map(move |&(node, end)| {
            let weight = end - begin;
            begin = end;
            (node, u8::try_from(weight).unwrap_or(u8::MAX))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::btree_map, prelude::*};

    fn weights() -> impl Strategy<Value = BTreeMap<NodeId, u8>> {
        btree_map((0..64u32).prop_map(NodeId), 1..=u8::MAX, 1..9)
    }

    /// The kernel's loop (mm/mempolicy.c, `weighted_interleave_nid`).
    fn as_the_kernel_does(weights: &BTreeMap<NodeId, u8>, index: u64) -> NodeId {
        let total: u64 = weights.values().map(|&weight| u64::from(weight)).sum();
        let mut target = index % total;
        let mut nodes = weights.iter().cycle();
        loop {
            let (&node, &weight) = nodes.next().expect("it never ends");
            if target < u64::from(weight) {
                return node;
            }
            target -= u64::from(weight);
        }
    }

    proptest! {
        #[test]
        fn nodes_take_turns_as_in_the_kernel(weights in weights(), index in any::<u64>()) {
            let cycle = Cycle::new(weights.clone());
            prop_assert_eq!(cycle.node(index), as_the_kernel_does(&weights, index));
            prop_assert_eq!(cycle.nodes(), weights.keys().copied().collect::<NodeSet>());
        }

        #[test]
        fn interleaved_nodes_follow_each_other(weights in weights(), index in any::<u32>()) {
            let nodes: Vec<NodeId> = weights.into_keys().collect();
            let cycle = Cycle::new(nodes.iter().map(|&node| (node, 1)));
            prop_assert_eq!(cycle.node(index.into()), nodes[index as usize % nodes.len()]);
        }

        #[test]
        fn a_joined_cycle_has_the_nodes_of_both(one in weights(), other in weights()) {
            let [a, b] = [&one, &other].map(|weights| Cycle::new(weights.clone()));
            let joined = a.join(&b);
            prop_assert_eq!(joined.nodes(), a.nodes().or(&b.nodes()));
            prop_assert_eq!(&joined, &b.join(&a));
            prop_assert_eq!(a.join(&a), a);
        }
    }
}

//! Memory on several nodes by shares. Pages stay where they are as long as no node has more than its share; only the surplus moves.

use crate::{
    ask::placement::weighted::Weights,
    machine::{
        ids::{NodeId, NodeSet},
        process::Process,
        topology::Topology,
    },
    number,
};
use std::collections::BTreeMap;

/// The name of this placement.
pub const NAME: &str = "balance";

/// The share of each node in the memory, as parts of the sum of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shares(BTreeMap<NodeId, u64>);

impl Shares {
    /// Shares in proportion to the weights.
    pub fn of_weights(weights: &Weights) -> Self {
        Self(weights.iter().map(|(node, weight)| (node, weight.into())).collect())
    }

    /// By the number of CPUs on each of `nodes` that the process may run on.
    pub fn of_cpus(topology: &Topology, process: &Process, nodes: &NodeSet) -> Self {
        let cpus = |node: NodeId| {
            let of_node = topology.node(node).map(|node| node.cpus.and(&process.cpus).len());
            of_node.unwrap_or(0).max(1) as u64
        };
        Self(nodes.iter().map(|node| (node, cpus(node))).collect())
    }

    /// The shares of memory that processes with these shares map together.
    pub fn join(&self, other: &Self) -> Self {
        let mut sum = self.0.clone();
        other.0.iter().for_each(|(&node, share)| *sum.entry(node).or_default() += share);
        Self(sum)
    }

    /// The node's part of this number of bytes.
    pub fn of(&self, node: NodeId, bytes: u64) -> u64 {
        let all: u64 = self.0.values().sum();
        let share = self.0.get(&node).copied().unwrap_or(0);
        number::amount(u128::from(bytes) * u128::from(share) / u128::from(all.max(1)))
    }

    /// The nodes that have a share.
    pub fn nodes(&self) -> NodeSet {
        self.0.keys().copied().collect()
    }
}

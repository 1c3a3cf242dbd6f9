//! The nodes that are local to CPUs. Each place that decides where memory belongs uses these functions.
//!
//! The model is what the kernel does by default (mm/page_alloc.c, `build_zonelists`, `find_next_best_node`): a thread's memory comes from
//! the node of its CPU, and if that has no memory, from the nearest node that has some, with CPUs or without. So memory is never
//! remote because the kernel has put it where it puts all memory.

use crate::machine::{
    ids::{CpuSet, NodeId, NodeSet},
    topology::{LOCAL_DISTANCE, Node, Topology},
};
use std::collections::BTreeMap;

impl Topology {
    /// The nodes where memory is local to these CPUs: their own nodes, and for CPUs of a node without memory all nodes that are nearest,
    /// with CPUs or without. They are not of another tier than the nodes with CPUs, if one of these has memory. Never empty for a CPU
    /// that is online, if any node has memory.
    pub fn local_nodes(&self, cpus: &CpuSet) -> NodeSet {
        let tiers = self.tiers_of_cpus();
        let candidates = self.nodes().filter(|node| !self.is_distinguished(node, &tiers));
        self.nearest(cpus, &candidates.map(|node| node.id).collect())
    }

    /// The nodes that are near to those where memory is local: other nodes with memory, of no other tier, at a distance of at most `reach`
    /// from one of them.
    pub fn near(&self, local: &NodeSet, reach: u64) -> NodeSet {
        let is_near = |&node: &NodeId| local.iter().any(|id| self.distance(id, node) <= reach);
        self.besides(local).iter().filter(is_near).collect()
    }

    /// The nodes with memory, of no other tier, that are nearer to those where memory is local than `from` is.
    pub fn nearer(&self, local: &NodeSet, from: NodeId) -> NodeSet {
        let farness = |node| local.iter().map(|id| self.distance(id, node)).min();
        let is_nearer = |&node: &NodeId| farness(node) < farness(from);
        self.besides(local).iter().filter(is_nearer).collect()
    }

    fn besides(&self, local: &NodeSet) -> NodeSet {
        self.with_memory().minus(&self.other_tiers()).minus(local)
    }

    /// Where memory on this node belongs, for these CPUs: on their [`local_nodes`](Self::local_nodes), or if the node is one of the
    /// [`other_tiers`](Self::other_tiers), on the nodes of the same tier that are nearest to them.
    pub fn local_in_tier(&self, cpus: &CpuSet, from: NodeId) -> NodeSet {
        let others = self.other_tiers();
        if !others.contains(from) {
            return self.local_nodes(cpus);
        }
        let kind = self.kind(from);
        self.nearest(cpus, &others.iter().filter(|&id| self.kind(id) == kind).collect())
    }

    /// Where memory goes that is on other tiers, for these CPUs: for each node there that is not among the nearest of its tier, these.
    pub fn moves_in_tiers(&self, cpus: &CpuSet) -> BTreeMap<NodeId, NodeSet> {
        let homes = self.other_tiers();
        let homes = homes.iter().map(|from| (from, self.local_in_tier(cpus, from)));
        homes.filter(|(from, home)| !home.is_empty() && !home.contains(*from)).collect()
    }

    /// Memory-only nodes of another memory tier than the nodes with CPUs: CXL, persistent memory, a GPU's memory. The tiers are those that
    /// the operator has set, or else the kernel's. If the kernel gives a node no tier, or knows no tiers besides those of the CPUs (6.1 puts all nodes that no driver
    /// has named into one tier), a memory-only node counts as one if it is farther from all CPUs than a CPU's own node. A node
    /// that has CPUs, all offline, is not memory-only. A node that is local to any CPU is none of them; if no CPU's node has memory,
    /// there is nothing to tell nodes apart by, and there are none.
    pub fn other_tiers(&self) -> NodeSet {
        let with_cpus = || self.nodes().filter(|node| !node.cpus.is_empty());
        if with_cpus().all(|node| !has_memory(node)) {
            return NodeSet::new();
        }
        let tiers = self.tiers_of_cpus();
        let distinguished = self.nodes().any(|node| self.is_distinguished(node, &tiers));
        let is_far = |id| with_cpus().all(|node| self.distance(node.id, id) > LOCAL_DISTANCE);
        let is_other = |node: &&Node| match self.told_tier(node.id) {
            Some(_) if distinguished => self.is_distinguished(node, &tiers),
            _ => self.is_bare(node) && is_far(node.id),
        };
        let others = self.nodes().filter(is_other).map(|node| node.id).collect::<NodeSet>();
        let bare = with_cpus().filter(|node| !has_memory(node));
        bare.fold(others, |others, node| others.minus(&self.local_nodes(&node.cpus)))
    }

    /// The nodes of `candidates` with memory that are local to these CPUs.
    fn nearest(&self, cpus: &CpuSet, candidates: &NodeSet) -> NodeSet {
        let candidates = candidates.and(&self.with_memory());
        let mut local = NodeSet::new();
        for node in self.nodes().filter(|node| node.cpus.intersects(cpus)) {
            if candidates.contains(node.id) {
                local.insert(node.id);
                continue;
            }
            let distance = |id: &NodeId| self.distance(node.id, *id);
            let rank = |id: &NodeId| self.fallback_rank(node.id, *id);
            let (shortest, first) = (
                candidates.iter().map(|id| distance(&id)).min(),
                candidates.iter().map(|id| rank(&id)).min(),
            );
            let is_local = |id: &NodeId| Some(distance(id)) == shortest || Some(rank(id)) == first;
            candidates.iter().filter(is_local).for_each(|id| local.insert(id));
        }
        local
    }

    /// The kernel falls back to the node with the smallest one, and takes turns among equals (mm/page_alloc.c, `find_next_best_node`):
    /// distance, and one more each for a node with a smaller index, and for one with CPUs. So it may prefer a node without CPUs that is
    /// a little farther away.
    fn fallback_rank(&self, from: NodeId, to: NodeId) -> u64 {
        let has_cpus = self.node(to).is_some_and(|node| !node.cpus.is_empty());
        self.distance(from, to) + u64::from(to < from) + u64::from(has_cpus)
    }

    /// The tiers of nodes that have CPUs and memory.
    pub(crate) fn tiers_of_cpus(&self) -> Vec<u32> {
        let with_both = self.nodes().filter(|node| !node.cpus.is_empty() && has_memory(node));
        with_both.filter_map(|node| self.told_tier(node.id)).collect()
    }

    fn is_bare(&self, node: &Node) -> bool {
        node.cpus.is_empty() && has_memory(node) && !self.with_cpus_offline_ids().contains(node.id)
    }

    /// Whether the kernel itself says that a memory-only node is of another tier than those with CPUs, whose tiers these are.
    fn is_distinguished(&self, node: &Node, tiers_of_cpus: &[u32]) -> bool {
        let is_other = |tier: u32| !tiers_of_cpus.is_empty() && !tiers_of_cpus.contains(&tier);
        self.is_bare(node) && self.told_tier(node.id).is_some_and(is_other)
    }

    /// The property that two nodes of one tier share: the number of the tier, or, without tiers from the kernel,
    /// their distance to the nearest CPUs.
    fn kind(&self, id: NodeId) -> (Option<u32>, Option<u64>) {
        let tiers = self.tiers_of_cpus();
        if self.node(id).is_some_and(|node| self.is_distinguished(node, &tiers)) {
            (self.told_tier(id), None)
        } else {
            let with_cpus = self.nodes().filter(|node| !node.cpus.is_empty());
            (None, with_cpus.map(|node| self.distance(node.id, id)).min())
        }
    }
}

fn has_memory(node: &Node) -> bool {
    node.memory.total_bytes > 0
}

#[cfg(test)]
mod tests;

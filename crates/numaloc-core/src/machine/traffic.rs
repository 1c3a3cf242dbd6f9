//! Memory traffic that processors count, and what it says of a node.
//!
//! What is counted belongs to an L3 cache: the bytes that go between it and memory, *local* ones with memory of the cache's own place,
//! and *remote* ones with all other memory (Intel SDM volume 3, "Memory Bandwidth Monitoring"; AMD64 Technology Platform Quality of
//! Service Extensions). Nothing counts by the node of the memory, so what a node's memory is used is concluded:
//!
//! - The local bytes of all caches whose CPUs are on a node went to and from that node.
//! - The remote bytes of other caches went to any other node. If exactly two nodes have memory, there is only one, and the sum of
//!   both is all the traffic of the node's memory that CPUs cause. With more nodes the local bytes are a lower bound.
//! - With memory on nodes without CPUs (CXL, persistent memory, HBM) nothing is concluded: processors count what is attached to their
//!   own package as local, so local bytes may be of such a node.
//! - A cache whose CPUs are on several nodes says nothing of each. With sub-NUMA clusters the kernel counts each node's part of a cache
//!   by itself (`mon_sub_L3_NN`, where NN is the node), and then only the parts count.
//!
//! Traffic of devices (DMA) is counted nowhere.

use super::{
    ids::{NodeId, NodeSet},
    topology::Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// What counts traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrafficDomain {
    /// An L3 cache, by the kernel's number of it.
    Cache(u32),
    /// The part of an L3 cache that belongs to a node: sub-NUMA clusters.
    Part(u32, NodeId),
}

/// Bytes a second between L3 caches and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// With memory of the nodes of these caches.
    pub local_bytes_per_second: u64,
    /// With all other memory.
    pub remote_bytes_per_second: u64,
}

impl Traffic {
    /// Local and remote bytes.
    pub fn bytes_per_second(self) -> u64 {
        self.local_bytes_per_second.saturating_add(self.remote_bytes_per_second)
    }

    /// Adds that of other caches or groups.
    pub fn add(&mut self, other: Self) {
        let sum = |one: &mut u64, more: u64| *one = one.saturating_add(more);
        sum(&mut self.local_bytes_per_second, other.local_bytes_per_second);
        sum(&mut self.remote_bytes_per_second, other.remote_bytes_per_second);
    }
}

/// Traffic of a host over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTraffic {
    /// That of each domain, all groups together. A cache is there as a whole or by its parts.
    pub domains: BTreeMap<TrafficDomain, Traffic>,
    /// Domains of which a part is missing: a counter was not readable, had not been assigned to its group, or began again.
    pub partial: BTreeSet<TrafficDomain>,
}

/// How much the memory of a node is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTraffic {
    /// Bytes a second that CPUs read from and write to memory of the node.
    pub bytes_per_second: u64,
    /// Whether that is all; else it is a lower bound.
    pub is_whole: bool,
}

impl HostTraffic {
    /// Traffic of all domains; `None` if nothing counts.
    pub fn sum(&self) -> Option<Traffic> {
        self.domains.values().copied().reduce(|mut sum, traffic| {
            sum.add(traffic);
            sum
        })
    }

    /// How much the memory of each node is used; without nodes of which that is not known. `caches` has the nodes of each cache's CPUs.
    pub fn by_node(
        &self,
        caches: &BTreeMap<u32, NodeSet>,
        topology: &Topology,
    ) -> BTreeMap<NodeId, NodeTraffic> {
        let memory = topology.with_memory();
        let has_cpus = |node: NodeId| topology.node(node).is_some_and(|node| !node.cpus.is_empty());
        if memory.iter().any(|node| !has_cpus(node)) {
            return BTreeMap::new();
        }
        let node_of = |domain: &TrafficDomain| match *domain {
            TrafficDomain::Part(_, node) => Some(node),
            TrafficDomain::Cache(cache) => {
                let mut nodes = caches.get(&cache)?.iter();
                nodes.next().filter(|_| nodes.next().is_none())
            }
        };
        let mut by_node: BTreeMap<NodeId, Traffic> = BTreeMap::new();
        let mut counted: BTreeMap<u32, NodeSet> = BTreeMap::new();
        for (domain, traffic) in &self.domains {
            let Some(node) = node_of(domain).filter(|node| memory.contains(*node)) else {
                continue;
            };
            by_node.entry(node).or_default().add(*traffic);
            let (TrafficDomain::Cache(cache) | TrafficDomain::Part(cache, _)) = *domain;
            counted.entry(cache).or_default().insert(node);
        }
        let is_all = self.partial.is_empty()
            && memory.len() == 2
            && by_node.len() == 2
            && caches.iter().all(|(cache, nodes)| counted.get(cache) == Some(nodes));
        let of = |(&node, own): (&NodeId, &Traffic)| {
            let others = by_node.iter().filter(|(other, _)| **other != node);
            let from_others: u64 = others.map(|(_, other)| other.remote_bytes_per_second).sum();
            let more = if memory.len() == 2 { from_others } else { 0 };
            let bytes_per_second = own.local_bytes_per_second.saturating_add(more);
            (node, NodeTraffic { bytes_per_second, is_whole: is_all })
        };
        by_node.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, NodeMemory};
    use TrafficDomain::{Cache, Part};

    /// Nodes by their CPUs; those without memory are written with a `-` before them.
    fn topology(cpus: &[&str]) -> Topology {
        let node = |(id, cpus): (u32, &&str)| {
            let total_bytes = if cpus.starts_with('-') { 0 } else { 1 << 30 };
            let memory = NodeMemory { total_bytes, ..NodeMemory::default() };
            let cpus = cpus.trim_start_matches('-').parse().expect("a list");
            Node { id: NodeId(id), cpus, memory }
        };
        Topology::new((0..).zip(cpus).map(node), [])
    }

    fn caches(nodes: &[(u32, &str)]) -> BTreeMap<u32, NodeSet> {
        nodes.iter().map(|(cache, nodes)| (*cache, nodes.parse().expect("a list"))).collect()
    }

    fn host(domains: &[(TrafficDomain, u64, u64)]) -> HostTraffic {
        let traffic = |&(domain, local_bytes_per_second, remote_bytes_per_second)| {
            (domain, Traffic { local_bytes_per_second, remote_bytes_per_second })
        };
        HostTraffic { domains: domains.iter().map(traffic).collect(), ..HostTraffic::default() }
    }

    fn shown(by_node: BTreeMap<NodeId, NodeTraffic>) -> Vec<(u32, u64, bool)> {
        by_node.into_iter().map(|(node, it)| (node.0, it.bytes_per_second, it.is_whole)).collect()
    }

    #[test]
    fn on_two_nodes_the_remote_traffic_of_one_is_with_the_other() {
        let counted =
            host(&[(Cache(0), 100, 7), (Cache(1), 10, 0), (Cache(8), 50, 20), (Cache(9), 5, 1)]);
        let caches = caches(&[(0, "0"), (1, "0"), (8, "1"), (9, "1")]);
        let two = topology(&["0-3", "4-7"]);
        assert_eq!(shown(counted.by_node(&caches, &two)), [(0, 131, true), (1, 62, true)]);
        let sum = Traffic { local_bytes_per_second: 165, remote_bytes_per_second: 28 };
        assert_eq!((counted.sum(), sum.bytes_per_second()), (Some(sum), 193));
        let mut partial = counted.clone();
        partial.partial.insert(Cache(9));
        assert_eq!(shown(partial.by_node(&caches, &two)), [(0, 131, false), (1, 62, false)]);
        partial = counted;
        partial.domains.remove(&Cache(9));
        assert_eq!(shown(partial.by_node(&caches, &two)), [(0, 130, false), (1, 57, false)]);
    }

    #[test]
    fn on_more_nodes_the_local_traffic_is_a_lower_bound() {
        let counted = host(&[(Cache(0), 100, 7), (Cache(1), 10, 3), (Cache(2), 50, 20)]);
        let caches = caches(&[(0, "0"), (1, "1"), (2, "2")]);
        let three = topology(&["0", "1", "2"]);
        let expected = [(0, 100, false), (1, 10, false), (2, 50, false)];
        assert_eq!(shown(counted.by_node(&caches, &three)), expected);
        // CPUs on a node without memory use either of the two others.
        let without = topology(&["0", "1", "-2"]);
        let expected = [(0, 103, false), (1, 17, false)];
        assert_eq!(shown(counted.by_node(&caches, &without)), expected);
    }

    #[test]
    fn parts_of_a_cache_belong_to_their_nodes() {
        let counted = host(&[(Part(0, NodeId(0)), 20, 4), (Part(0, NodeId(1)), 10, 6)]);
        let caches = caches(&[(0, "0-1")]);
        let two = topology(&["0-3", "4-7"]);
        assert_eq!(shown(counted.by_node(&caches, &two)), [(0, 26, true), (1, 14, true)]);
        assert_eq!(counted.sum().map(Traffic::bytes_per_second), Some(40));
    }

    #[test]
    fn where_nothing_measures_nothing_is_known() {
        let two = topology(&["0-3", "4-7"]);
        let none = HostTraffic::default();
        assert_eq!((none.sum(), none.by_node(&BTreeMap::new(), &two).len()), (None, 0));
        // A cache of two nodes, as of kernels that know no sub-NUMA clusters, and one whose place is not known.
        let wide = host(&[(Cache(0), 30, 10), (Cache(7), 30, 10)]);
        assert_eq!(wide.by_node(&caches(&[(0, "0-1")]), &two).len(), 0);
        // What is attached to the package counts as local, also memory of a node without CPUs.
        let counted = host(&[(Cache(0), 100, 7), (Cache(1), 10, 3)]);
        let beside = topology(&["0-3", "4-7", ""]);
        assert_eq!(counted.by_node(&caches(&[(0, "0"), (1, "1")]), &beside).len(), 0);
    }
}

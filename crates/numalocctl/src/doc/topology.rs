//! The machine.

use super::NodeDistance;
use numaloc_core::{Node, Options, Topology};
use serde::Serialize;

/// What `topology` shows.
#[derive(Clone, Debug, Serialize)]
pub struct TopologyDoc {
    /// Online nodes in order of their index.
    pub nodes: Vec<NodeDoc>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeDoc {
    /// OS index.
    pub node: u32,
    /// Online CPUs as a list in the kernel's form.
    pub cpus: String,
    /// The CPUs one by one.
    #[serde(skip)]
    pub cpu_ids: Vec<u32>,
    /// Whether it has memory and no CPUs.
    pub memory_only: bool,
    /// Number of its memory tier in the kernel; null if the kernel has no tiers.
    pub memory_tier: Option<u32>,
    /// MemTotal.
    pub total_bytes: u64,
    /// MemFree.
    pub free_bytes: u64,
    /// Page cache that the kernel drops first.
    pub cache_bytes: u64,
    /// How much of such cache cgroups protect: it is no room.
    pub protected_bytes: u64,
    /// What a migration keeps free above the high watermark, unless it is asked for another amount.
    pub reserve_bytes: u64,
    /// Sum of the zones' high watermarks.
    pub high_watermark_bytes: u64,
    /// hugetlb pools.
    pub huge_pools: Vec<HugePoolDoc>,
    /// SLIT distances to all nodes.
    pub distances: Vec<NodeDistance>,
}

/// A pool of hugetlb pages.
#[derive(Clone, Debug, Serialize)]
pub struct HugePoolDoc {
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total_pages: u64,
    /// Free pages in the pool.
    pub free_pages: u64,
    /// Free pages that are not reserved.
    pub unreserved_pages: u64,
}

impl From<&Topology> for TopologyDoc {
    fn from(topology: &Topology) -> Self {
        Self { nodes: topology.nodes().map(|node| node_doc(topology, node)).collect() }
    }
}

fn node_doc(topology: &Topology, node: &Node) -> NodeDoc {
    let pools = node.memory.huge_pools.iter();
    let others = topology.ids();
    let distance = |to| topology.distance(node.id, to);
    NodeDoc {
        node: node.id.0,
        cpus: node.cpus.to_string(),
        cpu_ids: node.cpus.iter().map(|cpu| cpu.0).collect(),
        memory_only: node.cpus.is_empty() && node.memory.total_bytes > 0,
        memory_tier: topology.tier(node.id),
        total_bytes: node.memory.total_bytes,
        free_bytes: node.memory.free_bytes,
        cache_bytes: node.memory.cache_bytes,
        protected_bytes: node.memory.protected_bytes,
        reserve_bytes: match node.memory.total_bytes {
            0 => 0,
            total_bytes => Options::default().reserve(total_bytes),
        },
        high_watermark_bytes: node.memory.high_watermark_bytes,
        huge_pools: pools
            .map(|pool| HugePoolDoc {
                page_bytes: pool.page_bytes,
                total_pages: pool.total_pages,
                free_pages: pool.free_pages,
                unreserved_pages: pool.unreserved_pages,
            })
            .collect(),
        distances: others
            .iter()
            .map(|to| NodeDistance { node: to.0, distance: distance(to) })
            .collect(),
    }
}

//! The machine: its NUMA nodes, their CPUs, memory and distances.

use crate::{
    machine::{
        ids::{CpuSet, NodeId, NodeSet},
        nature::{NodeNature, StorageDevice},
        room::{MakeRoom, Taken},
        speeds::{LatencySource, Speeds},
        supply::{Reserve, Supply},
    },
    page_size,
};
use std::collections::BTreeMap;

/// A pool of hugetlb pages of one size on one node (`/sys/devices/system/node/nodeN/hugepages`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePool {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Pages in the pool, used ones included (`nr_hugepages`).
    pub total_pages: u64,
    /// Pages that no process has faulted in (`free_hugepages`); some may be reserved.
    pub free_pages: u64,
    /// Free pages that are not reserved for memory that is mapped but not touched yet. The kernel counts reservations
    /// for all nodes together (`resv_hugepages` in /sys/kernel/mm/hugepages). So this is the number of the node's free
    /// pages, but at most the number of unreserved pages in all pools.
    pub unreserved_pages: u64,
}

/// Memory of a node at the moment it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// MemTotal in `nodeN/meminfo`: usable memory, without what the kernel took at boot.
    pub total_bytes: u64,
    /// MemFree in bytes: what can be had without reclaim.
    pub free_bytes: u64,
    /// Page cache in bytes that the kernel drops before all else: on the inactive list, and neither dirty nor being written.
    /// Locked pages and those of tmpfs are on other lists, so they are not in here.
    pub cache_bytes: u64,
    /// The part of the cache on inactive lists that cgroups protect from reclaim ([`Protection`](crate::Protection)).
    /// The kernel drops the rest, so this much is not counted as room.
    pub protected_bytes: u64,
    /// Sum of the zones' min watermarks in bytes; below it an allocation has to reclaim (mm/page_alloc.c,
    /// `__alloc_pages_slowpath`). This and the other watermarks include what the node's lower zones reserve: free memory there that
    /// movable pages do not get (`lowmem_reserve`).
    pub min_watermark_bytes: u64,
    /// Sum of the zones' low watermarks in bytes; an allocation that goes below it wakes the node's kswapd.
    pub low_watermark_bytes: u64,
    /// Sum of the zones' high watermarks in bytes; once awake, kswapd reclaims until as much is free (mm/vmscan.c,
    /// `balance_pgdat`).
    pub high_watermark_bytes: u64,
    /// hugetlb pools, by page size.
    pub huge_pools: Vec<HugePool>,
}

impl NodeMemory {
    /// Bytes that may be put on the node in pages from `supply` while the reserve stays there.
    pub fn room(&self, supply: Supply, reserve: Reserve) -> u64 {
        self.pool_room(supply, reserve) + self.free_room(supply, reserve)
    }

    /// Page cache that is dropped first and that no cgroup protects.
    pub fn droppable_bytes(&self) -> u64 {
        self.cache_bytes.saturating_sub(self.protected_bytes)
    }

    /// Bytes that may be put there besides, if page cache is dropped for them. The reserve is kept in free memory and such cache
    /// together: cache that can be dropped at once is as good as free.
    pub fn room_by_cache(&self, supply: Supply, reserve: Reserve, make_room: MakeRoom) -> u64 {
        if make_room != MakeRoom::Cache || supply != Supply::base() {
            return 0;
        }
        let all_bytes = self.free_bytes + self.droppable_bytes();
        let all_bytes = all_bytes.saturating_sub(self.kept_bytes(reserve));
        all_bytes.saturating_sub(self.free_room(supply, reserve)) / page_size() * page_size()
    }

    /// Takes pages for up to `bytes`, as far as there is room. The pool comes first, as in the kernel (mm/hugetlb.c,
    /// `alloc_hugetlb_folio_nodemask`), then free memory, then page cache that is dropped.
    pub fn take(
        &mut self,
        supply: Supply,
        bytes: u64,
        reserve: Reserve,
        make_room: MakeRoom,
    ) -> Taken {
        let pool_bytes = bytes.min(self.pool_room(supply, reserve));
        let free_bytes = (bytes - pool_bytes).min(self.free_room(supply, reserve));
        let rest = bytes - pool_bytes - free_bytes;
        let cache_bytes = rest.min(self.room_by_cache(supply, reserve, make_room));
        let same = |pool: &&mut HugePool| pool.page_bytes == supply.page_bytes;
        if let Some(pool) = self.huge_pools.iter_mut().find(same).filter(|_| supply.pool) {
            // A plan with a target ratio may want a part of a page.
            let pages = pool_bytes.div_ceil(supply.page_bytes);
            pool.free_pages = pool.free_pages.saturating_sub(pages);
            pool.unreserved_pages -= pages;
        }
        self.free_bytes -= free_bytes;
        self.cache_bytes -= cache_bytes;
        Taken { pool_bytes, free_bytes, cache_bytes, exchange_bytes: 0 }
    }

    /// The pool of pages of this size in bytes.
    pub fn pool(&self, page_bytes: u64) -> Option<&HugePool> {
        self.huge_pools.iter().find(|pool| pool.page_bytes == page_bytes)
    }

    fn pool_room(&self, supply: Supply, reserve: Reserve) -> u64 {
        let pool = self.pool(supply.page_bytes).filter(|_| supply.pool);
        pool.map_or(0, |pool| {
            let kept = (pool.total_pages.saturating_mul(reserve.pool_percent.into())).div_ceil(100);
            pool.unreserved_pages.saturating_sub(kept).saturating_mul(pool.page_bytes)
        })
    }

    fn free_room(&self, supply: Supply, reserve: Reserve) -> u64 {
        if !supply.free_memory {
            return 0;
        }
        let kept_bytes = self.kept_bytes(reserve);
        self.free_bytes.saturating_sub(kept_bytes) / supply.page_bytes * supply.page_bytes
    }

    /// Bytes that have to become free before there is any room in free memory.
    pub fn below_reserve_bytes(&self, reserve: Reserve) -> u64 {
        self.kept_bytes(reserve).saturating_sub(self.free_bytes)
    }

    /// Bytes that stay free. Below its high watermark, a node is reclaimed from.
    fn kept_bytes(&self, reserve: Reserve) -> u64 {
        self.high_watermark_bytes.saturating_add(reserve.free_bytes)
    }
}

/// An online NUMA node, with what the kernel shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number, N in `/sys/devices/system/node/nodeN`.
    pub id: NodeId,
    /// Its online CPUs; empty for a memory-only node.
    pub cpus: CpuSet,
    /// Its memory, as of the last reading.
    pub memory: NodeMemory,
}

/// Memory of a node that the kernel has taken from a DAX device (its driver kmem): persistent memory, or memory that is attached by CXL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaxMemory {
    /// The device, such as `dax0.0`.
    pub name: String,
    /// The size of the device in bytes. The node has at most this much of it: whole memory blocks, as far as they are online.
    pub bytes: u64,
}

/// The online nodes and the distances between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    nodes: BTreeMap<NodeId, Node>,
    distances: BTreeMap<(NodeId, NodeId), u64>,
    tiers: BTreeMap<NodeId, u32>,
    dax: BTreeMap<NodeId, Vec<DaxMemory>>,
    natures: BTreeMap<NodeId, NodeNature>,
    storage: Vec<StorageDevice>,
    configured_tiers: Vec<NodeSet>,
    has_demotion: bool,
    with_cpus_offline: NodeSet,
    speeds: Speeds,
}

/// The distance of a node to itself (ACPI SLIT).
pub const LOCAL_DISTANCE: u64 = 10;
/// The distance between nodes that the kernel assumes when the firmware gives no table (include/linux/topology.h).
pub const REMOTE_DISTANCE: u64 = 20;

impl Topology {
    /// Builds a topology; `distances` holds ACPI SLIT values and may leave pairs out.
    pub fn new(
        nodes: impl IntoIterator<Item = Node>,
        distances: impl IntoIterator<Item = ((NodeId, NodeId), u64)>,
    ) -> Self {
        Self {
            nodes: nodes.into_iter().map(|node| (node.id, node)).collect(),
            distances: distances.into_iter().collect(),
            ..Self::default()
        }
    }
    /// Adds the nodes whose CPUs are all offline. Their memory is as that of the nodes with CPUs online.
    pub fn with_cpus_offline(self, nodes: NodeSet) -> Self {
        Self { with_cpus_offline: nodes, ..self }
    }
    /// Adds the kernel's memory tiers, by node.
    pub fn with_tiers(self, tiers: impl IntoIterator<Item = (NodeId, u32)>) -> Self {
        Self { tiers: tiers.into_iter().collect(), ..self }
    }
    /// Adds memory of DAX devices, by node.
    pub fn with_dax(self, dax: BTreeMap<NodeId, Vec<DaxMemory>>) -> Self {
        Self { dax, ..self }
    }
    /// The DAX devices that a node has memory of (`/sys/bus/dax/devices`, driver kmem).
    pub fn dax(&self, id: NodeId) -> &[DaxMemory] {
        self.dax.get(&id).map_or(&[], Vec::as_slice)
    }
    /// Nodes that have memory of DAX devices, and other memory beside it. The kernel does not tell pages of one from those of the other.
    pub fn with_mixed_memory(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| {
            let dax_bytes: u64 = self.dax(node.id).iter().map(|device| device.bytes).sum();
            dax_bytes > 0 && node.memory.total_bytes > dax_bytes
        })
    }
    /// Adds what the kernel shows of the memory of nodes besides its size.
    pub fn with_natures(self, natures: BTreeMap<NodeId, NodeNature>) -> Self {
        Self { natures, ..self }
    }
    /// What the kernel shows of the memory of a node besides its size; `None` if that is nothing.
    pub fn nature(&self, id: NodeId) -> Option<&NodeNature> {
        self.natures.get(&id)
    }
    /// Adds namespaces of persistent memory and DAX devices.
    pub fn with_storage(self, storage: Vec<StorageDevice>) -> Self {
        Self { storage, ..self }
    }
    /// Namespaces of persistent memory, and DAX devices, by name.
    pub fn storage(&self) -> &[StorageDevice] {
        &self.storage
    }
    /// Adds the tiers that the operator has set, the fastest first. They count instead of the kernel's.
    pub fn with_configured_tiers(self, configured_tiers: Vec<NodeSet>) -> Self {
        Self { configured_tiers, ..self }
    }
    /// The number of the operator's tier of each node that is in one.
    pub(crate) fn configured_numbers(&self) -> BTreeMap<NodeId, u32> {
        let tiers = (0..).zip(&self.configured_tiers);
        tiers.flat_map(|(number, nodes)| nodes.iter().map(move |node| (node, number))).collect()
    }
    /// Adds whether the kernel demotes memory to lower tiers (`/sys/kernel/mm/numa/demotion_enabled`).
    pub fn with_demotion(self, has_demotion: bool) -> Self {
        Self { has_demotion, ..self }
    }
    pub(crate) fn has_demotion(&self) -> bool {
        self.has_demotion
    }
    /// Adds what is known of the speed of memory.
    pub fn with_speeds(self, speeds: Speeds) -> Self {
        Self { speeds, ..self }
    }
    /// The known speeds of memory.
    pub fn speeds(&self) -> &Speeds {
        &self.speeds
    }
    /// The latency of memory of one node on the CPUs of another, in the unit of the source; `None` if the source does not have it.
    pub fn latency(&self, source: LatencySource, cpus: NodeId, memory: NodeId) -> Option<f64> {
        let table = match source {
            LatencySource::Bench => &self.speeds.measured,
            LatencySource::Hmat => &self.speeds.firmware,
            LatencySource::Distances => return Some(self.distance(cpus, memory) as f64),
        };
        let latency_ps = table.get(&(cpus, memory))?.latency_ps.filter(|&latency| latency > 0)?;
        Some(latency_ps as f64 / 1000.0)
    }
    /// Replaces what is known of a node's memory; nothing for a node that is not there.
    pub fn set_memory(&mut self, id: NodeId, memory: NodeMemory) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.memory = memory;
        }
    }
    /// The number of a node's memory tier in the kernel (`/sys/devices/virtual/memory_tiering/memory_tierN`). A smaller number means
    /// faster memory.
    pub fn tier(&self, id: NodeId) -> Option<u32> {
        self.tiers.get(&id).copied()
    }
    /// The number of the tier by which nodes are told apart: the operator's, or else the kernel's.
    pub(crate) fn told_tier(&self, id: NodeId) -> Option<u32> {
        match self.configured_tiers.is_empty() {
            true => self.tier(id),
            false => (0..)
                .zip(&self.configured_tiers)
                .find(|(_, nodes)| nodes.contains(id))
                .map(|(number, _)| number),
        }
    }
    /// Nodes whose CPUs are all offline.
    pub(crate) fn with_cpus_offline_ids(&self) -> &NodeSet {
        &self.with_cpus_offline
    }
    /// The nodes in order of their index.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }
    /// The online node with this index; `None` for an offline one.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }
    /// The indexes of all online nodes, those without memory or CPUs included.
    pub fn ids(&self) -> NodeSet {
        self.nodes.keys().copied().collect()
    }
    /// Online nodes that have memory, and so can be targets.
    pub fn with_memory(&self) -> NodeSet {
        self.nodes().filter(|node| node.memory.total_bytes > 0).map(|node| node.id).collect()
    }
    /// SLIT distance from one node to another.
    pub fn distance(&self, from: NodeId, to: NodeId) -> u64 {
        let default = if from == to { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
        self.distances.get(&(from, to)).copied().unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_mixed_where_a_node_has_more_than_its_devices() {
        let node = |id, total_bytes| Node {
            id: NodeId(id),
            cpus: CpuSet::new(),
            memory: NodeMemory { total_bytes, ..NodeMemory::default() },
        };
        let device = |bytes| DaxMemory { name: "dax0.0".into(), bytes };
        // A device loses memory to memory blocks that are not whole.
        let nodes = [node(0, 1000), node(1, 1000), node(2, 120), node(3, 300), node(4, 300)];
        let dax = [(1, vec![device(128)]), (2, vec![device(128)]), (3, vec![device(128); 2])];
        let dax = dax.map(|(id, devices)| (NodeId(id), devices));
        let topology = Topology::new(nodes, []).with_dax(dax.into());
        let mixed: Vec<u32> = topology.with_mixed_memory().map(|node| node.id.0).collect();
        assert_eq!(mixed, [1, 3]);
        assert_eq!((topology.dax(NodeId(3)).len(), topology.dax(NodeId(4)).len()), (2, 0));
    }
}

//! What the memory of nodes is, and in which tier each node is.

use crate::{
    machine::{
        ids::{NodeId, NodeSet},
        nature::MemoryOrigin,
        topology::{LOCAL_DISTANCE, Node, Topology},
    },
    number,
};
use std::collections::{BTreeMap, BTreeSet};

/// What the memory of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// Memory of a node that has CPUs, online or not; or of a machine none of whose nodes with CPUs has memory.
    Dram,
    /// A node without CPUs whose memory is faster than that beside the CPUs.
    Hbm,
    /// Memory that is attached by CXL.
    Cxl,
    /// Persistent memory that the kernel uses as memory (driver kmem).
    Persistent,
    /// Memory of a GPU.
    Gpu,
    /// Memory that the kernel keeps for purposes of drivers: ordinary allocations must not use it.
    Private,
    /// A node without CPUs, of which nothing says what its memory is.
    MemoryOnly,
    /// A node without memory.
    Empty,
}

impl NodeKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 8] = [
        Self::Dram,
        Self::Hbm,
        Self::Cxl,
        Self::Persistent,
        Self::Gpu,
        Self::Private,
        Self::MemoryOnly,
        Self::Empty,
    ];

    /// Stable name for machines and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::Hbm => "hbm",
            Self::Cxl => "cxl",
            Self::Persistent => "persistent",
            Self::Gpu => "gpu",
            Self::Private => "private",
            Self::MemoryOnly => "memory_only",
            Self::Empty => "empty",
        }
    }

    /// The place of kinds by their usual speed, the fastest first; `None`: it says nothing of that.
    fn usual_rank(self) -> Option<u32> {
        match self {
            Self::Hbm => Some(0),
            Self::Dram => Some(1),
            Self::Gpu => Some(2),
            Self::Cxl => Some(3),
            Self::Persistent => Some(4),
            Self::Private | Self::MemoryOnly | Self::Empty => None,
        }
    }
}

/// The source of a tier, the first to win first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TierSource {
    /// The operator's `[tiers]`.
    Configuration,
    /// The kernel: `/sys/devices/virtual/memory_tiering`.
    Kernel,
    /// The firmware's latencies and bandwidths (ACPI HMAT).
    Hmat,
    /// The kinds of nodes.
    Kind,
    /// The distance of nodes without CPUs to the nearest CPUs.
    Distance,
}

impl TierSource {
    /// Every source, in the order of declaration.
    pub const ALL: [Self; 5] =
        [Self::Configuration, Self::Kernel, Self::Hmat, Self::Kind, Self::Distance];

    /// Stable name for machines and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Kernel => "kernel",
            Self::Hmat => "hmat",
            Self::Kind => "kind",
            Self::Distance => "distance",
        }
    }
}

/// The tier of a node among those of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// The smaller, the faster. The kernel's own number if the kernel is the source; else the first is 0.
    pub number: u32,
    /// What says so.
    pub source: TierSource,
}

/// Numbers by node: nodes with the same one are alike, and a smaller one means faster memory.
type Numbers = BTreeMap<NodeId, u32>;

/// A node without CPUs has fast memory if its bandwidth is at least this many times that of the memory beside its best CPUs.
const FAST: u64 = 2;

/// Steps of cost within that of DRAM: half a step more or less is the same tier (mm/memory-tiers.c, `MEMTIER_ADISTANCE_DRAM`,
/// `MEMTIER_CHUNK_SIZE`).
const STEPS: f64 = 4.5;

impl Topology {
    /// What the memory of a node is; `None` for a node that is not there.
    pub fn node_kind(&self, id: NodeId) -> Option<NodeKind> {
        let node = self.node(id)?;
        if node.memory.total_bytes == 0 {
            return Some(NodeKind::Empty);
        }
        let has_cpus = !node.cpus.is_empty() || self.with_cpus_offline_ids().contains(id);
        let origin = self.nature(id).and_then(|nature| nature.origin);
        // Memory that a driver has added to the DRAM of a node is what `with_mixed_memory` has.
        let is_mixed = self.with_mixed_memory().any(|mixed| mixed.id == id);
        let with_cpus = |node: &&Node| !node.cpus.is_empty();
        Some(match origin {
            Some(MemoryOrigin::Private) => NodeKind::Private,
            Some(MemoryOrigin::Gpu) if !has_cpus => NodeKind::Gpu,
            Some(MemoryOrigin::Persistent) if !has_cpus && !is_mixed => NodeKind::Persistent,
            Some(MemoryOrigin::Cxl) if !has_cpus && !is_mixed => NodeKind::Cxl,
            _ if has_cpus => NodeKind::Dram,
            _ if self.is_fast(id) => NodeKind::Hbm,
            _ if self.nodes().filter(with_cpus).all(|node| node.memory.total_bytes == 0) => {
                NodeKind::Dram
            }
            _ => NodeKind::MemoryOnly,
        })
    }

    /// Whether kernel or firmware say that the memory of a node without CPUs is faster than that beside CPUs.
    fn is_fast(&self, id: NodeId) -> bool {
        let of_cpus = self.tiers_of_cpus();
        let is_below = |tier: u32| of_cpus.iter().all(|&other| tier < other);
        if !of_cpus.is_empty() && self.told_tier(id).is_some_and(is_below) {
            return true;
        }
        let firmware = &self.speeds().firmware;
        let bandwidth = |cpus, memory| firmware.get(&(cpus, memory))?.bandwidth();
        let is_faster = |cpus: NodeId| {
            let both = bandwidth(cpus, id).zip(bandwidth(cpus, cpus));
            both.is_some_and(|(own, beside)| own >= beside.saturating_mul(FAST))
        };
        self.nodes().filter(|node| !node.cpus.is_empty()).any(|node| is_faster(node.id))
    }

    /// The tiers of the nodes with memory, but for nodes of which the source of the others says nothing.
    pub fn tiers(&self) -> BTreeMap<NodeId, Tier> {
        let (source, numbers) = self.all_tiers();
        numbers.into_iter().map(|(id, number)| (id, Tier { number, source })).collect()
    }

    /// The nodes of [`other_tiers`](Self::other_tiers) with slower memory than all other nodes: memory there is demoted, not remote.
    pub fn lower_tiers(&self) -> NodeSet {
        let others = self.other_tiers();
        let (_, numbers) = self.all_tiers();
        let number = |id: &NodeId| numbers.get(id).copied();
        let slowest = numbers.keys().filter(|id| !others.contains(**id)).filter_map(number).max();
        others.iter().filter(|id| number(id) > slowest).collect()
    }

    /// The nodes whose memory the kernel demotes instead of dropping it: those with a node of a lower tier of the kernel
    /// (mm/memory-tiers.c, `establish_demotion_targets`), where demotion is on.
    pub fn demoting(&self) -> NodeSet {
        let tier = |id: &NodeId| self.tier(*id);
        let with_memory = self.with_memory();
        let lowest = with_memory.iter().filter_map(|id| tier(&id)).max();
        let demotes = |id: &NodeId| self.has_demotion() && tier(id).is_some() && tier(id) < lowest;
        with_memory.iter().filter(demotes).collect()
    }

    /// The tiers of the nodes with memory, by the first source that knows of different ones; if there is none, by the kernel or by distance.
    fn all_tiers(&self) -> (TierSource, Numbers) {
        let with_memory = self.with_memory();
        let kernel: Numbers =
            with_memory.iter().filter_map(|id| Some((id, self.tier(id)?))).collect();
        let differ = |numbers: &Numbers| numbers.values().collect::<BTreeSet<_>>().len() > 1;
        let configured = self.configured_numbers();
        if !configured.is_empty() {
            return (TierSource::Configuration, configured);
        }
        if differ(&kernel) {
            return (TierSource::Kernel, kernel);
        }
        let found = [
            (TierSource::Hmat, self.numbers_by_cost(&with_memory)),
            (TierSource::Kind, self.numbers_by_kind(&with_memory)),
            (TierSource::Distance, Some(self.numbers_by_distance(&with_memory))),
        ];
        let found = found.into_iter().filter_map(|(source, numbers)| Some((source, numbers?)));
        match found.into_iter().find(|(_, numbers)| differ(numbers)) {
            Some((source, numbers)) => (source, ordinals(&numbers)),
            None if kernel.is_empty() => {
                (TierSource::Distance, with_memory.iter().map(|id| (id, 0)).collect())
            }
            None => (TierSource::Kernel, kernel),
        }
    }

    /// By what the firmware says of latency and bandwidth, as later kernels compute it (mm/memory-tiers.c, `mt_perf_to_adistance`): the
    /// cost of memory for its best CPUs, compared with that of the memory beside CPUs. `None` if it leaves a node out.
    fn numbers_by_cost(&self, nodes: &NodeSet) -> Option<Numbers> {
        let firmware = &self.speeds().firmware;
        let cost = |memory: NodeId| {
            let costs = self.nodes().filter_map(|node| {
                let speed = firmware.get(&(node.id, memory))?;
                Some(speed.latency_ps? as f64 / speed.bandwidth()?.max(1) as f64)
            });
            costs.min_by(f64::total_cmp)
        };
        let with_cpus = self.nodes().filter(|node| !node.cpus.is_empty());
        let dram = with_cpus.filter_map(|node| cost(node.id)).min_by(f64::total_cmp)?;
        let steps = |id| Some(number::whole(cost(id)? / dram.max(f64::MIN_POSITIVE) * STEPS));
        let number = |id| Some((id, number::small(steps(id)?)));
        nodes.iter().map(number).collect()
    }

    /// By kinds; `None` if it is not known what a node is.
    fn numbers_by_kind(&self, nodes: &NodeSet) -> Option<Numbers> {
        nodes.iter().map(|id| Some((id, self.node_kind(id)?.usual_rank()?))).collect()
    }

    /// By distance: nodes of other tiers come after all others.
    fn numbers_by_distance(&self, nodes: &NodeSet) -> Numbers {
        let others = self.other_tiers();
        let farness = |id| {
            let with_cpus = self.nodes().filter(|node| !node.cpus.is_empty());
            let shortest = with_cpus.map(|node| self.distance(node.id, id)).min();
            u32::try_from(shortest.unwrap_or(LOCAL_DISTANCE)).unwrap_or(u32::MAX)
        };
        let number = |id| if others.contains(id) { farness(id) } else { 0 };
        nodes.iter().map(|id| (id, number(id))).collect()
    }

    /// Bytes of DRAM of a node that hold the descriptors of the pages of storage.
    pub fn descriptor_bytes(&self, id: NodeId) -> u64 {
        let of_node = self.storage().iter().filter(|device| device.node == Some(id));
        of_node.map(|device| device.descriptor_bytes).sum()
    }
}

/// Counts from 0.
fn ordinals(numbers: &Numbers) -> Numbers {
    let order: BTreeSet<u32> = numbers.values().copied().collect();
    let place = |number: &u32| number::small(order.range(..number).count());
    numbers.iter().map(|(&id, number)| (id, place(number))).collect()
}

#[cfg(test)]
mod tests;

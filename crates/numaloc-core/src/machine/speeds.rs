//! The speed of a node's memory for the CPUs of a node, as far as it is known: measured, or as the firmware declares
//! it.

use crate::machine::ids::NodeId;
use std::collections::BTreeMap;

/// Memory of a node on the CPUs of a node; `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    /// Latency of a load, in picoseconds.
    pub latency_ps: Option<u64>,
    /// Latency of a store by the firmware, in picoseconds. It cannot be measured: a CPU does not wait for its stores.
    pub write_latency_ps: Option<u64>,
    /// Bandwidth with which the CPUs read, in bytes a second.
    pub read_bandwidth: Option<u64>,
    /// Bandwidth with which the CPUs write, in bytes a second.
    pub write_bandwidth: Option<u64>,
}

impl Speed {
    /// The smaller of both bandwidths, as far as they are known. The kernel's weights are made of it (mm/mempolicy.c,
    /// `mempolicy_set_node_perf`).
    pub fn bandwidth(&self) -> Option<u64> {
        self.read_bandwidth.into_iter().chain(self.write_bandwidth).min()
    }
}

/// Speeds by the node of the CPUs and that of the memory.
pub type SpeedTable = BTreeMap<(NodeId, NodeId), Speed>;

/// The known speeds of a machine's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speeds {
    /// By `numalocctl bench` on this host.
    pub measured: SpeedTable,
    /// By the firmware (ACPI HMAT, CDAT). The kernel shows the best initiators of a node alone, so most pairs are not known.
    pub firmware: SpeedTable,
    /// The kernel's weights for MPOL_WEIGHTED_INTERLEAVE (`/sys/kernel/mm/mempolicy/weighted_interleave`); empty before 6.9.
    pub kernel_weights: BTreeMap<NodeId, u8>,
    /// Whether the kernel computes these weights itself (since 6.16, where the directory has a file `auto`).
    pub kernel_computes_weights: bool,
}

impl Speeds {
    /// Whether the kernel's weights mean something: it has computed them, or one was written. Else all of them are 1.
    pub fn are_weights_set(&self) -> bool {
        self.kernel_computes_weights || self.kernel_weights.values().any(|&weight| weight != 1)
    }
}

/// The source of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencySource {
    /// Measured by `numalocctl bench`, in nanoseconds.
    Bench,
    /// The firmware's table ACPI HMAT, in nanoseconds.
    Hmat,
    /// The firmware's table ACPI SLIT, as a ratio: 10 is local.
    Distances,
}

impl LatencySource {
    /// Every source, the most exact first.
    pub const ALL: [Self; 3] = [Self::Bench, Self::Hmat, Self::Distances];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Hmat => "hmat",
            Self::Distances => "distances",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bandwidth_is_the_smaller_one_that_is_known() {
        let bandwidth = |read_bandwidth, write_bandwidth| {
            Speed { read_bandwidth, write_bandwidth, ..Speed::default() }.bandwidth()
        };
        assert_eq!(bandwidth(Some(3), Some(1)), Some(1));
        assert_eq!(bandwidth(Some(3), None), Some(3));
        assert_eq!(bandwidth(None, Some(2)), Some(2));
        assert_eq!(bandwidth(None, None), None);
    }
}

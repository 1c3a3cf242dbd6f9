//! What memory of each node costs on the CPUs of each node.

use serde::{Deserialize, Serialize};

/// The document of `bench`, which `-o json` prints and which is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchDoc {
    /// The name of the host.
    pub host: String,
    /// When it was measured.
    pub time: String,
    /// How much memory was read for each pair.
    pub memory_bytes: u64,
    /// Whether huge pages were asked for.
    pub huge_pages: bool,
    /// How long each pair was measured, once for each figure.
    pub seconds: f64,
    pub pairs: Vec<PairDoc>,
    /// Nodes that are not measured.
    pub left_out: Vec<LeftOutDoc>,
}

/// Memory of a node as the CPUs of a node see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairDoc {
    pub cpu_node: u32,
    pub memory_node: u32,
    /// By the firmware's table (ACPI SLIT); 10 is local.
    pub distance: u64,
    /// How long a load waits that depends on the one before: the median.
    pub latency_ns: f64,
    /// What all CPUs of the node read together.
    pub bandwidth_bytes_per_second: u64,
    /// The same by the firmware's table (ACPI HMAT); null where it has no value.
    pub firmware_latency_ns: Option<u64>,
    pub firmware_bandwidth_bytes_per_second: Option<u64>,
}

impl PairDoc {
    /// Whether the firmware has a value.
    pub fn has_firmware(&self) -> bool {
        self.firmware_latency_ns.is_some() || self.firmware_bandwidth_bytes_per_second.is_some()
    }
}

/// A node that is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutDoc {
    pub node: u32,
    pub reason: String,
}

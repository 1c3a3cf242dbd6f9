//! Latency and bandwidth of each node's memory on the CPUs of each node.

use serde::{Deserialize, Serialize};

/// The document of `bench`, which `-o json` prints and which is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchDoc {
    pub host: String,
    /// When it was measured.
    pub time: String,
    /// Memory that was read for each pair.
    pub memory_bytes: u64,
    /// Whether huge pages were asked for.
    pub huge_pages: bool,
    /// Time for which each pair was measured, once for each figure.
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
    /// Time that a load waits that depends on the one before: the median.
    pub latency_ns: f64,
    /// Bytes that all CPUs of the node read together.
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

/// The document of `bench placement`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementBenchDoc {
    pub host: String,
    /// When it was measured.
    pub time: String,
    /// The nodes that the memory is on.
    pub nodes: Vec<u32>,
    /// Threads that have written it, each on a CPU of its own.
    pub threads: u64,
    pub memory_bytes: u64,
    /// Least time for which it was written in each run.
    pub seconds: f64,
    /// kernel.numa_balancing before and after the measurement; null if the kernel has none.
    pub numa_balancing: Option<u32>,
    pub runs: Vec<PlacementRunDoc>,
}

/// A run with one placement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementRunDoc {
    /// `interleave` or `block`.
    pub placement: String,
    /// kernel.numa_balancing in this run.
    pub numa_balancing: Option<u32>,
    /// The number of times all of the memory was written.
    pub passes: u64,
    pub elapsed_seconds: f64,
    /// CPU time of all threads outside of the kernel, and in it.
    pub user_seconds: f64,
    pub system_seconds: f64,
    pub pages: u64,
    /// Pages that began on another node than the threads that write them.
    pub remote_pages: u64,
    /// Pages that ended on another node than they began on.
    pub moved_pages: u64,
    /// Pages that balancing has moved on the whole host meanwhile (numa_pages_migrated); null if the kernel does not
    /// count them.
    pub host_moved_pages: Option<u64>,
}

/// A node that is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutDoc {
    pub node: u32,
    pub reason: String,
}

//! Latency and bandwidth of each node's memory, and of files on persistent memory, on the CPUs of each node.

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
    /// Bytes that they write.
    pub write_bandwidth_bytes_per_second: u64,
    /// The same by the firmware's table (ACPI HMAT); null where it has no value. Latency of a load, and of a store.
    pub firmware_latency_ns: Option<u64>,
    pub firmware_write_latency_ns: Option<u64>,
    /// The smaller of the bandwidths of reads and writes.
    pub firmware_bandwidth_bytes_per_second: Option<u64>,
    pub firmware_read_bandwidth_bytes_per_second: Option<u64>,
    pub firmware_write_bandwidth_bytes_per_second: Option<u64>,
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

/// The document of `bench storage`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StorageBenchDoc {
    pub host: String,
    /// When it was measured.
    pub time: String,
    /// Where the file was.
    pub directory: String,
    /// Type of the file system, for example `ext4`.
    pub file_system: String,
    /// The node that the storage is attached to; null if it is not known.
    pub storage_node: Option<u32>,
    /// Whether writes were persistent without a system call (MAP_SYNC); else each took an msync(2).
    pub map_sync: bool,
    pub file_bytes: u64,
    /// Bytes of an operation.
    pub block_bytes: u64,
    /// Time for which each run was measured, once for latency and once for bandwidth.
    pub seconds: f64,
    pub runs: Vec<StorageRunDoc>,
}

/// One operation in one order on the CPUs of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StorageRunDoc {
    pub cpu_node: u32,
    /// `sequential` or `random`.
    pub pattern: String,
    /// `read` or `write`.
    pub operation: String,
    /// Of all CPUs of the node together.
    pub bandwidth_bytes_per_second: u64,
    pub operations_per_second: u64,
    /// Time of an operation on one CPU: the median.
    pub latency_ns: f64,
    pub latency_p99_ns: f64,
}

/// A node that is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutDoc {
    pub node: u32,
    pub reason: String,
}

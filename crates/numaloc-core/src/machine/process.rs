//! Processes: one per address space, however many threads.

pub use crate::machine::threads::{Thread, Threads};

use crate::machine::{
    guest::Guest,
    ids::{CpuSet, NodeSet},
};
use std::sync::Arc;

/// Identifies a process, also against a later one with the same pid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Thread group id in the reader's pid namespace.
    pub pid: i32,
    /// Start time in clock ticks after boot: field 22 of /proc/PID/stat (proc(5)).
    pub start_time: u64,
}

/// A process, with the facts that decide where its memory belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its pid with its start time, so that a later process with the pid is a different one.
    pub identity: Identity,
    /// Command name as in /proc/PID/comm.
    pub comm: String,
    /// CPUs that at least one of its threads may run on, offline ones left out.
    pub cpus: CpuSet,
    /// Its threads by groups, if threads have different CPUs and the process's CPUs are on several nodes, or if their cpusets
    /// allow different nodes. Otherwise empty, because the threads then decide nothing that `cpus` and `mems_allowed` do not.
    pub threads: Vec<Threads>,
    /// Nodes that the cpuset of at least one of its threads allows (Mems_allowed_list in /proc/PID/status). Threads of a process
    /// can be in different cpusets: cpuset is a threaded controller (cgroup v2), and v1 takes single threads (`tasks`).
    pub mems_allowed: NodeSet,
    /// Nodes of the devices that it has open, for [`HomeRule::Devices`](crate::HomeRule::Devices) alone: reading them costs a link for each of
    /// its open files. Empty otherwise.
    pub device_nodes: NodeSet,
    /// Its anonymous memory that is in swap, in bytes (VmSwap in /proc/PID/status, which shared memory is not part of). It is on no node, and
    /// comes in on that of the thread that touches it (mm/swap_state.c, `swapin_readahead`).
    pub swap_bytes: u64,
    /// Its page tables, in bytes (VmPTE in /proc/PID/status; fs/proc/task_mmu.c, `task_mem`). The kernel reports no nodes of them, and moves none.
    pub page_table_bytes: u64,
    /// The guest that it runs, if that has NUMA nodes of its own. Only of processes that have [`Self::threads`]: otherwise all vCPUs have
    /// the same nodes.
    pub guest: Option<Arc<Guest>>,
}

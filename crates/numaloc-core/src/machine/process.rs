//! Processes: one per address space, however many threads.

use crate::machine::ids::{CpuSet, NodeSet};
use std::time::Duration;

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
}

/// Threads of a process that may run on the same CPUs and allocate on the same nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Their CPUs, offline ones left out.
    pub cpus: CpuSet,
    /// Nodes that their cpuset allows, if the threads of the process differ in that; `None`: those of the process.
    pub mems_allowed: Option<NodeSet>,
    /// How many of its threads have exactly these CPUs and nodes.
    pub count: usize,
    /// CPU time that they have used together since they started.
    pub cpu_time: Duration,
    /// The busiest of them, busiest first.
    pub busiest: Vec<Thread>,
}

/// One of the busiest threads of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id in the reader's pid namespace.
    pub tid: i32,
    /// Its name as in /proc/PID/task/TID/comm.
    pub comm: String,
    /// CPU time that it has used since it started.
    pub cpu_time: Duration,
}

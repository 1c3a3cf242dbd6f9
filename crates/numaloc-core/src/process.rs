//! Processes: one per address space, however many threads.

use crate::ids::{CpuSet, NodeSet};

/// What tells a process from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Thread group id in the reader's pid namespace.
    pub pid: i32,
    /// Start time in clock ticks after boot: field 22 of /proc/PID/stat (proc(5)).
    pub start_time: u64,
}

/// A process with what decides where its memory belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Who it is.
    pub identity: Identity,
    /// Command name as in /proc/PID/comm.
    pub comm: String,
    /// CPUs that at least one of its threads may run on, offline ones left out.
    pub cpus: CpuSet,
    /// Nodes that its cpuset allows (Mems_allowed_list in /proc/PID/status).
    pub mems_allowed: NodeSet,
}

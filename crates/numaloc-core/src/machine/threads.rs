//! The threads of a process, in groups.

use crate::machine::ids::{CpuSet, NodeSet};
use std::time::Duration;

/// Threads of a process that may run on the same CPUs and allocate on the same nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Their CPUs, offline ones left out.
    pub cpus: CpuSet,
    /// Nodes that their cpuset allows, if the threads of the process differ in that; `None`: those of the process.
    pub mems_allowed: Option<NodeSet>,
    /// Number of its threads that have exactly these CPUs and nodes.
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

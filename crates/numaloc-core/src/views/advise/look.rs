//! The state of a host at one look.

use crate::{
    machine::{
        ids::{CpuSet, NodeId, NodeSet},
        process::{Identity, Threads},
        topology::Topology,
    },
    memory::mempolicy::Mempolicy,
};
use std::{collections::BTreeMap, time::Duration};

/// A host at the time of a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLook {
    /// Nodes with memory, CPUs online, distances and tiers.
    pub topology: Topology,
    /// CPUs in use by node, of all processes together: 1.5 means one CPU and half of another.
    pub busy: BTreeMap<NodeId, f64>,
    /// kernel.numa_balancing; `None` if the kernel has none or does not show it.
    pub numa_balancing: Option<u32>,
    /// The chosen word of transparent_hugepage/enabled.
    pub thp_enabled: Option<String>,
    /// Whether every process was looked at. If not, settings of the whole host are not judged.
    pub is_whole: bool,
    /// The processes and cgroups that advice may be about.
    pub subjects: Vec<Subject>,
}

/// The owner of the memory that a finding or a step is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// The processes of a cgroup, by its path below the mount point.
    Cgroup(String),
    /// A process by itself, apart from its cgroup.
    Process(Identity),
}

/// By what the CPUs of a subject can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuControl {
    /// The properties AllowedCPUs and AllowedMemoryNodes of a systemd unit (systemd.resource-control(5)).
    Unit(String),
    /// The files cpuset.cpus and cpuset.mems in this directory.
    Cpuset(String),
    /// The affinity of the threads of all processes of a cgroup, which is this directory (taskset(1)).
    Members(String),
    /// The affinity of the threads of the process.
    Threads,
    /// Another program, such as the kubelet, sets them again and again. No advice changes them.
    Foreign,
}

/// The method by which the nodes of memory were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// The kernel's count for a cgroup (memory.numa_stat): anonymous and shared memory that is charged to it.
    Counted,
    /// All pages of the page map.
    Scanned,
    /// Sampled: this number of pages of the page map, scaled to the resident bytes.
    Sampled(u64),
}

/// A process, or the processes of a cgroup that may all run on the same CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Its cgroup, or its pid with the start time.
    pub who: Who,
    /// Its name for people: of the process, of the container, pod or machine that the cgroup is of, or the path of the cgroup.
    pub name: String,
    /// CPUs that its threads may run on, offline ones left out.
    pub cpus: CpuSet,
    /// CPUs that those above it let it have, offline ones left out.
    pub cpus_above: CpuSet,
    /// Nodes that its cpuset allows.
    pub mems: NodeSet,
    /// Nodes that the cpusets above allow.
    pub mems_above: NodeSet,
    /// The directory of the cgroup whose cpuset.mems may be written for it; `None` if there is none.
    pub mems_directory: Option<String>,
    /// By what its CPUs are set.
    pub handle: CpuControl,
    /// Nodes of the devices that its processes have open: GPUs, VFIO, InfiniBand. Empty if its CPUs are on one node: then they decide nothing.
    pub device_nodes: NodeSet,
    /// Storage that its processes map without page cache (DAX), in bytes by the node that it is attached to. It cannot move.
    pub storage: BTreeMap<NodeId, u64>,
    /// CPUs that it uses, by node.
    pub cpu_use: BTreeMap<NodeId, f64>,
    /// Its memory by node, without hugetlb memory.
    pub resident: BTreeMap<NodeId, u64>,
    /// Its hugetlb memory, by size of a page and by node.
    pub hugetlb: BTreeMap<u64, BTreeMap<NodeId, u64>>,
    /// The memory policy of its first thread.
    pub policy: Mempolicy,
    /// Its threads by groups, as of a [`Process`](crate::Process). Empty for a cgroup, or if they decide nothing.
    pub threads: Vec<Threads>,
    /// The method by which the nodes of its memory were found.
    pub exactness: Exactness,
    /// Time between that reading and the end of the look.
    pub age: Duration,
}

impl Subject {
    /// All of its memory, without hugetlb memory.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.values().sum()
    }

    /// All CPUs that it uses.
    pub fn used_cpus(&self) -> f64 {
        self.cpu_use.values().fold(0.0, |sum, cpus| sum + cpus)
    }

    /// Its memory on these nodes.
    pub fn bytes_on(&self, nodes: &NodeSet) -> u64 {
        let on = self.resident.iter().filter(|(node, _)| nodes.contains(**node));
        on.map(|(_, bytes)| bytes).sum()
    }

    /// The nodes where its memory is local: those of its CPUs.
    pub fn home(&self, topology: &Topology) -> NodeSet {
        topology.local_nodes(&self.cpus)
    }

    /// Whether it may not run on all CPUs of the machine. Called for every subject again and again, so sets are not
    /// compared: all of its CPUs are online.
    pub fn is_pinned(&self, topology: &Topology) -> bool {
        self.cpus.len() < topology.nodes().map(|node| node.cpus.len()).sum::<usize>()
    }

    /// Whether its CPUs may be set at all.
    pub fn can_be_pinned(&self) -> bool {
        self.handle != CpuControl::Foreign
    }

    /// Whether it has asked for its memory to be spread, or for something that is not known.
    pub fn is_spread(&self) -> bool {
        matches!(self.policy, Mempolicy::Interleave(_) | Mempolicy::Other(_))
    }
}

//! The values of a live view at one moment.

mod workloads;

pub use workloads::{LiveShares, WorkloadNow};

use crate::{Identity, Kind, NodeId, NodeKind, NodeMemory, NodeSet, NodeTraffic, Traffic, number};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The host and its processes as of the last look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The online nodes, in order of their index.
    pub nodes: Vec<NodeNow>,
    /// Memory traffic of its CPUs between the last two looks; `None` at the first look, and where nothing counts it.
    pub traffic: Option<Traffic>,
    /// Processes with memory, in order of their pid.
    pub processes: Vec<ProcessNow>,
    /// The cgroups that have them, by path.
    pub groups: BTreeMap<String, GroupNow>,
    /// The threads and mappings of the processes that are watched closely, as far as these have not ended.
    pub details: Vec<Detail>,
    /// Processes with memory that have not been looked at yet.
    pub unseen: usize,
    /// Processes whose page map this process may not read.
    pub hidden: usize,
    /// Time that was used for looking, since the beginning.
    pub used: Duration,
}

/// An online node with its load.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeNow {
    /// The kernel's number of the node.
    pub id: NodeId,
    /// Sizes in bytes as of this look.
    pub memory: NodeMemory,
    /// Use of its CPUs, in percent of all of them. `None` for a node without CPUs and at the first look.
    pub cpu_percent: Option<f64>,
    /// Pages a second that were meant for this node and went to another one (numa_foreign in nodeN/numastat). `None` at the first
    /// look, and where the kernel does not count.
    pub foreign_per_second: Option<f64>,
    /// How much its memory is used; `None` at the first look, and where nothing says it ([`HostTraffic::by_node`](crate::HostTraffic)).
    pub traffic: Option<NodeTraffic>,
    /// Its memory tier (`/sys/devices/virtual/memory_tiering`), lower is faster. `None` where the kernel has no tiers.
    pub tier: Option<u32>,
    /// What its memory is; `None` if that is not known.
    pub kind: Option<NodeKind>,
    /// Whether memory there counts as demoted ([`Topology::lower_tiers`](crate::Topology::lower_tiers)).
    pub is_lower_tier: bool,
}

/// A process with where its memory is.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessNow {
    /// Pid and start time: two looks show the same process if these agree.
    pub identity: Identity,
    /// Command name (`comm`), at most 15 bytes.
    pub comm: String,
    /// Its cgroup, where that can be told.
    pub cgroup: Option<String>,
    /// The nodes of its CPUs.
    pub home: NodeSet,
    /// Other nodes that are near to these ([`Topology::near`](crate::Topology::near)).
    pub near: NodeSet,
    /// Its resident memory in bytes, as of its last stat (RssAnon, RssFile and RssShmem together).
    pub resident_bytes: u64,
    /// CPU time that it uses, in percent of one CPU; `None` before its second look.
    pub cpu_percent: Option<f64>,
    /// Number of its threads at this look.
    pub threads: u64,
    /// Where its pages were when its page map was last read, which may be some looks ago.
    pub seen: Seen,
}

/// The known pages of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seen {
    /// Its page map has not been read yet.
    #[default]
    Never,
    /// Nothing, because its page map may not be read.
    Hidden,
    /// The page map was read.
    Pages {
        /// Resident bytes on each node; nodes without any are left out.
        nodes: BTreeMap<NodeId, u64>,
        /// Resident bytes whose node could not be told.
        unplaced_bytes: u64,
        /// Base pages that the kernel's own balancing has moved of its living threads (numa_pages_migrated in
        /// /proc/PID/task/TID/sched); `None` where it does not count, and for a process of very many threads.
        kernel_migrated_pages: Option<u64>,
        /// Time since the look ended.
        age: Duration,
    },
}

/// Memory of a cgroup in bytes by node, as the kernel counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedMemory {
    /// Memory of processes: anonymous and shared memory, and mapped files.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Other page cache. No process has it in its page map.
    pub cache: BTreeMap<NodeId, u64>,
    /// The part of `nodes` that is shared memory which no process maps at this moment, where the kernel tells it (cgroup v2).
    pub unmapped: BTreeMap<NodeId, u64>,
}

impl CountedMemory {
    /// Adds the memory of another cgroup.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.nodes, &other.nodes),
            (&mut self.cache, &other.cache),
            (&mut self.unmapped, &other.unmapped),
        ] {
            more.iter().for_each(|(node, bytes)| *sum.entry(*node).or_default() += bytes);
        }
    }

    /// The bytes beyond those of another one.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let beyond = |all: &BTreeMap<NodeId, u64>, part: &BTreeMap<NodeId, u64>| {
            // The counts are of different moments.
            let rest = |(node, bytes): (&NodeId, &u64)| {
                (*node, bytes.saturating_sub(part.get(node).copied().unwrap_or(0)))
            };
            all.iter().map(rest).filter(|(_, bytes)| *bytes > 0).collect()
        };
        Self {
            nodes: beyond(&self.nodes, &other.nodes),
            cache: beyond(&self.cache, &other.cache),
            unmapped: beyond(&self.unmapped, &other.unmapped),
        }
    }

    /// The same, where the processes have attached shared memory of this length: unmapped bytes beyond that are files
    /// in memory that no process has attached, and count as cache. Its nodes are not known, so each node has its
    /// share.
    #[must_use]
    pub fn with_attached(mut self, attached_bytes: u64) -> Self {
        let all: u64 = self.unmapped.values().sum();
        if attached_bytes >= all {
            return self;
        }
        for (node, bytes) in &mut self.unmapped {
            let kept =
                number::amount(u128::from(*bytes) * u128::from(attached_bytes) / u128::from(all));
            let others = std::mem::replace(bytes, kept) - kept;
            let processes = self.nodes.entry(*node).or_default();
            *processes = processes.saturating_sub(others);
            *self.cache.entry(*node).or_default() += others;
        }
        self
    }
}

/// What the kernel itself has done with the memory of a cgroup since that was made, as memory.stat counts it (mm/memcontrol.c,
/// `memory_stats`: from Linux 6.12 on, with cgroup v2); `None` where it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelEvents {
    /// Faults that its balancing has caused to learn who uses a page (numa_hint_faults). Each interrupts a thread.
    pub hint_faults: Option<u64>,
    /// Pages that its balancing has moved (numa_pages_migrated).
    pub migrated_pages: Option<u64>,
    /// Pages that it has demoted to a lower tier (pgdemote_*).
    pub demoted_pages: Option<u64>,
    /// Pages that its balancing has promoted from a lower tier (pgpromote_success).
    pub promoted_pages: Option<u64>,
}

impl KernelEvents {
    /// The same with those of another cgroup.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Self {
            hint_faults: sum(self.hint_faults, other.hint_faults),
            migrated_pages: sum(self.migrated_pages, other.migrated_pages),
            demoted_pages: sum(self.demoted_pages, other.demoted_pages),
            promoted_pages: sum(self.promoted_pages, other.promoted_pages),
        }
    }
}

/// A cgroup with all below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupNow {
    /// The name of the container, pod or machine that it is of, with what is below it in the path; `None`: none is known.
    pub name: Option<String>,
    /// Its memory as memory.numa_stat counts it; `None` before the first look, and where the kernel does not count.
    pub memory: Option<CountedMemory>,
    /// What the kernel itself has done with its memory.
    pub kernel: KernelEvents,
    /// Memory traffic of its processes between its last two looks, where a monitoring group of resctrl has them and no others.
    pub traffic: Option<Traffic>,
    /// Time since that was read.
    pub age: Option<Duration>,
}

/// A process that is watched closely.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// Pid and start time of the process.
    pub identity: Identity,
    /// Its threads; none before they have been read.
    pub threads: Vec<ThreadNow>,
    /// Its mappings that have pages, in order of their addresses, as of its last look; none before the first.
    pub mappings: Vec<MappingNow>,
}

/// A thread of the process that is watched closely.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadNow {
    /// Thread id, in the pid namespace of the reader.
    pub tid: i32,
    /// Command name of the thread, which pthread_setname_np(3) changes.
    pub comm: String,
    /// The nodes of the CPUs that it may run on.
    pub home: NodeSet,
    /// The node of the CPU that it ran on last.
    pub node: Option<NodeId>,
    /// CPU time that it uses, in percent of one CPU; `None` at the first look.
    pub cpu_percent: Option<f64>,
}

/// A mapping with where its pages are.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingNow {
    /// Its first address in the process.
    pub start: u64,
    /// Length in bytes, resident or not.
    pub bytes: u64,
    /// Kind of memory that backs its pages.
    pub kind: Kind,
    /// Its name; empty for plain anonymous memory.
    pub name: Arc<str>,
    /// Whether it is mapped shared.
    pub shared: bool,
    /// Resident bytes on each node; nodes without any are left out.
    pub nodes: BTreeMap<NodeId, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_process_has_attached_is_cache() {
        let on = |pairs: [u64; 2]| -> BTreeMap<NodeId, u64> {
            pairs
                .into_iter()
                .enumerate()
                .map(|(node, bytes)| (NodeId(node as u32), bytes))
                .collect()
        };
        let counted =
            CountedMemory { nodes: on([100, 80]), cache: on([5, 0]), unmapped: on([60, 20]) };
        assert_eq!(counted.clone().with_attached(80), counted);
        let half = counted.clone().with_attached(40);
        let expected =
            CountedMemory { nodes: on([70, 70]), cache: on([35, 10]), unmapped: on([30, 10]) };
        assert_eq!(half, expected);
        assert_eq!(counted.with_attached(0).nodes, on([40, 60]));
    }
}

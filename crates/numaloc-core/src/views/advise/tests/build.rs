//! Hosts, put together by hand.

use crate::{
    HugePool, Identity, Node, NodeId, NodeMemory, Thread, Threads, Topology,
    memory::mempolicy::Mempolicy,
    views::advise::look::{CpuControl, Exactness, HostLook, Subject, Who},
};
use std::{collections::BTreeMap, time::Duration};

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
/// Smallest memory that is worth a finding, in bytes.
pub const MIN: u64 = 64 * MIB;

/// A node: its number, its CPUs, its memory and its free memory, in GiB.
pub fn node(id: u32, cpus: &str, total: u64, free: u64) -> Node {
    let memory = NodeMemory {
        total_bytes: total * GIB,
        free_bytes: free * GIB,
        high_watermark_bytes: 64 * MIB,
        ..NodeMemory::default()
    };
    Node { id: NodeId(id), cpus: cpus.parse().expect("a list"), memory }
}

/// A host with `count` nodes of 8 CPUs and 64 GiB, half of it free. All are equally far from each other.
pub fn sockets(count: u32) -> HostLook {
    let cpus = |id: u32| format!("{}-{}", 8 * id, 8 * id + 7);
    of((0..count).map(|id| node(id, &cpus(id), 64, 32)), &[])
}

/// A host with these nodes, and these distances besides the distances that the kernel assumes.
pub fn of(nodes: impl IntoIterator<Item = Node>, distances: &[(u32, u32, u64)]) -> HostLook {
    let both = distances.iter().flat_map(|&(a, b, distance)| {
        [((NodeId(a), NodeId(b)), distance), ((NodeId(b), NodeId(a)), distance)]
    });
    let topology = Topology::new(nodes, both);
    HostLook { topology, numa_balancing: Some(0), is_whole: true, ..HostLook::default() }
}

/// Two sockets with two clusters of 8 CPUs each.
pub fn clusters() -> HostLook {
    let near = [(0, 1, 12), (2, 3, 12)];
    let far = [(0, 2), (0, 3), (1, 2), (1, 3)].map(|(a, b)| (a, b, 21));
    let nodes = (0..4).map(|id| node(id, &format!("{}-{}", 8 * id, 8 * id + 7), 64, 40));
    of(nodes, &[&near[..], &far[..]].concat())
}

impl HostLook {
    /// Adds a subject, whose work is seen on the nodes as well.
    pub fn with(mut self, subject: Subject) -> Self {
        for (&node, cpus) in &subject.cpu_use {
            *self.busy.entry(node).or_default() += cpus;
        }
        let bound = |set: &mut crate::NodeSet| {
            if set.is_empty() {
                *set = self.topology.with_memory();
            }
        };
        let mut subject = subject;
        bound(&mut subject.mems);
        bound(&mut subject.mems_above);
        let online = self.topology.nodes().fold(crate::CpuSet::new(), |all, n| all.or(&n.cpus));
        if subject.cpus.is_empty() {
            subject.cpus = online.clone();
        }
        if subject.cpus_above.is_empty() {
            subject.cpus_above = online;
        }
        self.subjects.push(subject);
        self
    }
    pub(crate) fn busy(mut self, node: u32, cpus: f64) -> Self {
        *self.busy.entry(NodeId(node)).or_default() += cpus;
        self
    }
    pub(crate) fn memory(mut self, node: u32, set: impl FnOnce(&mut NodeMemory)) -> Self {
        let mut memory = self.topology.node(NodeId(node)).expect("a node").memory.clone();
        set(&mut memory);
        self.topology.set_memory(NodeId(node), memory);
        self
    }
    /// Adds a pool of 2 MiB pages to a node.
    pub fn pool(self, node: u32, total_pages: u64, free_pages: u64) -> Self {
        let unreserved_pages = free_pages;
        let pool = HugePool { page_bytes: 2 * MIB, total_pages, free_pages, unreserved_pages };
        self.memory(node, |memory| memory.huge_pools.push(pool))
    }
}

/// A process on these CPUs (all, if the list is empty) that uses CPUs of these nodes, and has memory there, in MiB.
pub fn process(pid: i32, cpus: &str, used: &[(u32, f64)], resident: &[(u32, u64)]) -> Subject {
    Subject {
        who: Who::Process(Identity { pid, start_time: 1 }),
        name: format!("process {pid}"),
        cpus: cpus.parse().expect("a list"),
        cpus_above: Default::default(),
        mems: Default::default(),
        mems_above: Default::default(),
        mems_directory: None,
        handle: CpuControl::Threads,
        cpu_use: used.iter().map(|&(node, cpus)| (NodeId(node), cpus)).collect(),
        resident: resident.iter().map(|&(node, mib)| (NodeId(node), mib * MIB)).collect(),
        hugetlb: BTreeMap::new(),
        policy: Mempolicy::Default,
        threads: Vec::new(),
        exactness: Exactness::Scanned,
        device_nodes: crate::NodeSet::new(),
        storage: BTreeMap::new(),
        age: Duration::ZERO,
    }
}

impl Subject {
    /// The same as a cgroup with a cpuset of its own.
    pub fn cpuset(self, path: &str) -> Self {
        let directory = format!("/sys/fs/cgroup{path}");
        let (name, mems_directory) = (path.to_owned(), Some(directory.clone()));
        let who = Who::Cgroup(path.to_owned());
        Self { who, name, mems_directory, handle: CpuControl::Cpuset(directory), ..self }
    }
    /// The same as a unit of systemd.
    pub fn unit(self, unit: &str) -> Self {
        let subject = self.cpuset(&format!("/system.slice/{unit}"));
        Self { handle: CpuControl::Unit(unit.into()), ..subject }
    }
    /// The same as a container whose CPUs the kubelet sets.
    pub fn of_kubelet(self, path: &str) -> Self {
        Self { handle: CpuControl::Foreign, ..self.cpuset(path) }
    }
    /// With devices of these nodes open.
    pub fn devices(self, nodes: &str) -> Self {
        Self { device_nodes: nodes.parse().expect("a list"), ..self }
    }
    /// Maps storage, by node in MiB.
    pub fn storage(self, mapped: &[(u32, u64)]) -> Self {
        let storage = mapped.iter().map(|&(node, mib)| (NodeId(node), mib * MIB)).collect();
        Self { storage, ..self }
    }
    pub(crate) fn mems(self, mems: &str) -> Self {
        Self { mems: mems.parse().expect("a list"), ..self }
    }
    /// Bounds the CPUs that it may be given.
    pub fn cpus_above(self, cpus: &str) -> Self {
        Self { cpus_above: cpus.parse().expect("a list"), ..self }
    }
    pub(crate) fn policy(self, policy: &str) -> Self {
        Self { policy: policy.parse().expect("a policy"), ..self }
    }
    /// Has hugetlb pages of 2 MiB, by node in MiB.
    pub fn hugetlb(self, resident: &[(u32, u64)]) -> Self {
        let resident = resident.iter().map(|&(node, mib)| (NodeId(node), mib * MIB)).collect();
        Self { hugetlb: [(2 * MIB, resident)].into(), ..self }
    }
    /// Has groups of threads: their CPUs, how many, and their CPU time in seconds.
    pub fn threads(self, groups: &[(&str, usize, u64)]) -> Self {
        let mut tid = 100;
        let mut group = |&(cpus, count, seconds): &(&str, usize, u64)| {
            let cpu_time = Duration::from_secs(seconds);
            let threads = (0..count.min(8)).map(|_| {
                tid += 1;
                Thread { tid, comm: "thread".into(), cpu_time: cpu_time / count as u32 }
            });
            let busiest = threads.collect();
            Threads {
                cpus: cpus.parse().expect("a list"),
                mems_allowed: None,
                count,
                cpu_time,
                busiest,
            }
        };
        Self { threads: groups.iter().map(&mut group).collect(), ..self }
    }
}

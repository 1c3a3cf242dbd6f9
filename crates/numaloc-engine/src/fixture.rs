//! Fixtures of the engine's tests: two nodes, processes, their memory and plans over it.
#![allow(missing_docs, clippy::new_without_default, reason = "for tests alone")]

use numaloc_core::{
    Extent, Identity, Kind, Mapping, Mempolicy, Node, NodeId, NodeMemory, NodeResidency, Options,
    Pages, Plan, Process, Residency, Topology,
    planner::{self, Scene},
};
use std::process::{Child, Command, Stdio};

pub const MIB: u64 = 1 << 20;

/// Node 0 with CPUs 0-3 and node 1 with CPUs 4-7.
pub fn topology() -> Topology {
    let memory = NodeMemory { total_bytes: 1 << 30, free_bytes: 1 << 30, ..NodeMemory::default() };
    let node = |id, cpus: &str| Node {
        id: NodeId(id),
        cpus: cpus.parse().expect("a list"),
        memory: memory.clone(),
    };
    Topology::new([node(0, "0-3"), node(1, "4-7")], [])
}

pub fn process(pid: i32, cpus: &str) -> Process {
    Process {
        identity: Identity { pid, start_time: 1 },
        comm: "a".to_owned(),
        cpus: cpus.parse().expect("a list"),
        threads: Vec::new(),
        mems_allowed: topology().ids(),
        device_nodes: Default::default(),
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    }
}

/// Memory with these pages on node 0 and node 1. `process` is the index of its process.
pub fn extent(process: usize, on: [NodeResidency; 2]) -> Extent {
    let resident = |(_, on): &(NodeId, NodeResidency)| on.total_bytes() > 0;
    let nodes = (0..).map(NodeId).zip(on).filter(resident).collect();
    Extent {
        mappings: vec![Mapping { process, start: 1 << 30 }],
        pages: Pages::All,
        bytes: 64 * MIB,
        kind: Kind::Anonymous,
        policy: Mempolicy::Default,
        hugetlb_bytes: None,
        mappers: Default::default(),
        stripe: None,
        rule: None,
        name: "".into(),
        residency: Residency { nodes, ..Residency::default() },
    }
}

pub fn plan(processes: &[Process], extents: Vec<Extent>, options: &Options) -> Plan {
    let topology = topology();
    let scene = Scene { topology: &topology, processes, caller_mems: &topology.ids() };
    planner::plan(scene, extents, options)
}

/// A sleeping process of the test. Dropping this value ends it.
pub struct Asleep(Child);

impl Asleep {
    pub fn new() -> Self {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn();
        Self(child.expect("there is sleep"))
    }

    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Ends the process and does not wait for it, so it stays a zombie.
    pub fn kill(&mut self) {
        self.0.kill().expect("it is ours");
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

//! The simulated host. It is the same each time: what looks random comes from fixed seeds.

use super::record::{self, Recording};
use anyhow::Result;
use fastrand::Rng;
use numaloc_core::{
    CpuId, Extent, Identity, Kind, Mapping, Mempolicy, Node, NodeId, NodeMemory, NodeResidency,
    Pages, Process, Residency, Topology, page_size,
};
use std::collections::BTreeMap;

pub const PROCESSES: usize = 10_000;
/// Number of nodes, all of the same size.
pub const NODES: u32 = 8;
/// Memory of all nodes, in bytes.
const TOTAL: u64 = 6 << 40;
/// Resident memory of the processes, in bytes.
const RESIDENT: u64 = TOTAL / 4 * 3;
const CPUS_PER_NODE: u32 = 64;

/// Where page maps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Maps {
    /// Made up: 60 VMAs for each process, and one more for each 8 MiB.
    Synthetic,
    /// Page maps of real processes in benches/data, stretched to the size of the simulated processes.
    Recorded,
}

#[derive(Debug)]
pub struct Host {
    /// Its nodes. A quarter of each is free.
    pub topology: Topology,
    /// Empty for synthetic maps.
    recordings: Vec<Recording>,
    /// Bytes for a share of 1. With it, the shares of all processes add up to the resident memory.
    whole: f64,
}

impl Host {
    /// A host with page maps of this kind.
    pub fn new(maps: Maps) -> Result<Self> {
        let recordings = match maps {
            Maps::Synthetic => Vec::new(),
            Maps::Recorded => record::recordings()?,
        };
        let free_bytes = (TOTAL - RESIDENT) / u64::from(NODES);
        let total_bytes = TOTAL / u64::from(NODES);
        let memory = NodeMemory { total_bytes, free_bytes, ..Default::default() };
        let node = |id| {
            let cpus = (id * CPUS_PER_NODE..(id + 1) * CPUS_PER_NODE).map(CpuId).collect();
            Node { id: NodeId(id), cpus, memory: memory.clone() }
        };
        let topology = Topology::new((0..NODES).map(node), []);
        let whole = RESIDENT as f64 / (0..PROCESSES).map(share).sum::<f64>();
        Ok(Self { topology, recordings, whole })
    }

    /// A process. One in ten runs on two nodes, the others run on one.
    pub fn process(&self, index: usize) -> Process {
        let width = if index.is_multiple_of(10) { 2 } else { 1 };
        let nodes = (0..width).map(|other| (home(index) + other) % NODES);
        let cpus = nodes.flat_map(|node| (0..16).map(move |cpu| CpuId(node * CPUS_PER_NODE + cpu)));
        Process {
            identity: Identity { pid: index as i32 + 1, start_time: 1 },
            comm: format!("process-{index}"),
            cpus: cpus.collect(),
            threads: Vec::new(),
            mems_allowed: self.topology.with_memory(),
            device_nodes: Default::default(),
            swap_bytes: 0,
            page_table_bytes: 0,
            guest: None,
        }
    }

    /// Resident bytes of a process.
    pub fn bytes(&self, index: usize) -> u64 {
        (self.whole * share(index)) as u64
    }

    /// The extents of a process that is the `at`th of its target.
    pub fn extents(&self, index: usize, at: usize) -> Vec<Extent> {
        match self.recordings.get(index % self.recordings.len().max(1)) {
            None => self.made_up(index, at),
            Some(recording) => self.stretched(recording, index, at),
        }
    }

    /// Three of four extents are at home. The others have half of their pages elsewhere: one in eight of these on all other
    /// nodes, the rest on the next node.
    fn made_up(&self, index: usize, at: usize) -> Vec<Extent> {
        let mut random = Rng::with_seed(index as u64);
        let (home, bytes) = (home(index), self.bytes(index));
        let count = 60 + bytes / (8 << 20);
        let each = (bytes / count).next_multiple_of(page_size());
        let huge = random.bool();
        let extents = (0..count).map(|number| {
            let kind = match number {
                0 => Kind::Heap,
                1 => Kind::Stack,
                2..40 => Kind::File,
                _ => Kind::Anonymous,
            };
            let away: &[u32] = match random.u8(..32) {
                0..24 => &[],
                24..31 => &[1],
                _ => &[1, 2, 3, 4, 5, 6, 7],
            };
            let half = if away.is_empty() { each } else { each / 2 };
            let on = |node: u32, bytes| {
                let shared = kind == Kind::File && number % 2 == 0;
                let resident = NodeResidency {
                    owned_bytes: if shared { 0 } else { bytes },
                    shared_bytes: if shared { bytes } else { 0 },
                    huge_bytes: if huge && kind == Kind::Anonymous { bytes } else { 0 },
                };
                (NodeId(node % NODES), resident)
            };
            let others =
                away.iter().map(|other| on(home + other, (each - half) / away.len() as u64));
            let nodes = others.chain([on(home, half)]).collect();
            // One process in fifty has a memory policy of its own.
            let policy = match index % 50 {
                0 => Mempolicy::Bind([NodeId((home + 1) % NODES)].into_iter().collect()),
                _ => Mempolicy::Default,
            };
            extent(at, number * 2 * each, each, kind, policy, nodes)
        });
        extents.collect()
    }

    fn stretched(&self, recording: &Recording, index: usize, at: usize) -> Vec<Extent> {
        let factor = (self.bytes(index) / recording.bytes().max(1)).max(1);
        let home = home(index);
        let mut start = 0;
        let extents = recording.extents().map(|recorded| {
            let nodes =
                (0..).zip(recorded.nodes).filter(|(_, pages)| pages.iter().any(|&it| it > 0));
            let nodes = nodes.map(|(node, pages)| {
                let [owned_bytes, shared_bytes, huge_bytes] =
                    pages.map(|pages| pages * page_size() * factor);
                let resident = NodeResidency { owned_bytes, shared_bytes, huge_bytes };
                (NodeId((home + node) % NODES), resident)
            });
            let bytes = recorded.pages * page_size() * factor;
            start += bytes;
            extent(at, start, bytes, recorded.kind, Mempolicy::Default, nodes.collect())
        });
        extents.collect()
    }
}

fn extent(
    process: usize,
    start: u64,
    bytes: u64,
    kind: Kind,
    policy: Mempolicy,
    nodes: BTreeMap<NodeId, NodeResidency>,
) -> Extent {
    Extent {
        mappings: vec![Mapping { process, start }],
        pages: Pages::All,
        bytes,
        kind,
        policy,
        hugetlb_bytes: None,
        mappers: Default::default(),
        stripe: None,
        rule: None,
        name: "".into(),
        residency: Residency { nodes, ..Residency::default() },
    }
}

fn home(index: usize) -> u32 {
    index as u32 % NODES
}

/// A few are large and most are small: by Zipf's law with the exponent 0.8, in no particular order.
fn share(index: usize) -> f64 {
    let rank = index * 7919 % PROCESSES; // a prime, so that each process has another rank
    ((rank + 1) as f64).powf(-0.8)
}

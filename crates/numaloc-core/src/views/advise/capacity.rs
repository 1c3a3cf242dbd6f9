//! Free CPUs and memory of nodes, and the distances between nodes.

use super::look::{HostLook, Subject};
use crate::{
    ask::options::Options,
    machine::{
        ids::{CpuSet, NodeId, NodeSet},
        room::MakeRoom,
        supply::Supply,
        topology::{LOCAL_DISTANCE, NodeMemory, Topology},
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// The share of a node's CPUs that advice fills. The rest is for peaks, and so that a node that was filled does not
/// look crowded later.
pub const FILL: f64 = 0.8;
/// The same for who is pinned already, to several nodes. Lower, so that noise does not narrow again what was placed just below [`FILL`].
pub const FILL_AGAIN: f64 = 0.7;
/// Below this use of CPUs no process is advised to run elsewhere.
pub const WORKING_CPUS: f64 = 0.1;

/// A host as it is by now, with what judges ask again and again.
#[derive(Debug)]
pub struct HostState {
    pub look: HostLook,
    /// Sets of near nodes, the smallest first.
    pub sets: Vec<NodeSet>,
    /// Nodes that pages may leave: all but those of other tiers.
    sources: NodeSet,
    /// The largest distance between nodes with CPUs.
    farthest: u64,
    /// CPUs in use by subjects that may run everywhere. They make way for pinned ones.
    floating: BTreeMap<NodeId, f64>,
}

impl HostState {
    /// A host as it was seen.
    pub fn new(look: HostLook) -> Self {
        let topology = &look.topology;
        let with_cpus: Vec<NodeId> =
            topology.nodes().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect();
        let pairs = with_cpus.iter().flat_map(|&a| with_cpus.iter().map(move |&b| (a, b)));
        let farthest = pairs.map(|(a, b)| topology.distance(a, b)).max().unwrap_or(0);
        let (sets, sources) = (neighbourhoods(topology), Options::default().sources(topology));
        let floating = floating(&look);
        Self { sets, sources, farthest, floating, look }
    }

    /// Computes again what depends on the CPUs of subjects. To be called after any of these has changed.
    pub fn refresh(&mut self) {
        self.floating = floating(&self.look);
    }

    /// Nodes of other tiers, whose memory stays where it is.
    pub fn other_tiers(&self) -> NodeSet {
        self.look.topology.ids().minus(&self.sources)
    }

    /// CPUs in use on a node by subjects that do not make way.
    pub fn fixed(&self, node: NodeId) -> f64 {
        let on = |cpus: &BTreeMap<NodeId, f64>| cpus.get(&node).copied().unwrap_or(0.0);
        (on(&self.look.busy) - on(&self.floating)).max(0.0)
    }

    /// The distance of memory on `to` from CPUs on `from`: 0 on the same node, 1 between the nodes with CPUs that are
    /// farthest from each other.
    pub fn far(&self, from: NodeId, to: NodeId) -> f64 {
        let over = |distance: u64| distance.saturating_sub(LOCAL_DISTANCE) as f64;
        match from == to {
            true => 0.0,
            false if over(self.farthest) == 0.0 => 1.0,
            false => {
                let distance = self.look.topology.distance(from, to);
                (over(distance) / over(self.farthest)).min(1.0)
            }
        }
    }

    /// Bytes that work on these nodes reaches from afar, if each part of the memory is used alike.
    pub fn exposed(&self, resident: &BTreeMap<NodeId, u64>, shares: &BTreeMap<NodeId, f64>) -> f64 {
        let pairs = resident.iter().flat_map(|on| shares.iter().map(move |work| (on, work)));
        let bytes =
            pairs.map(|((&on, &bytes), (&at, share))| bytes as f64 * share * self.far(at, on));
        bytes.fold(0.0, |sum, bytes| sum + bytes)
    }

    /// Memory that may leave the node it is on.
    pub fn movable(&self, subject: &Subject) -> BTreeMap<NodeId, u64> {
        let resident = subject.resident.iter().map(|(&node, &bytes)| (node, bytes));
        resident.filter(|&(node, bytes)| self.sources.contains(node) && bytes > 0).collect()
    }

    /// CPUs that a subject may use on a node, if `fill` of the node is used: of these CPUs there, and of the CPUs
    /// that others leave.
    pub fn cpus_left(&self, subject: &Subject, cpus: &CpuSet, node: NodeId, fill: f64) -> f64 {
        let topology = &self.look.topology;
        let all = topology.node(node).map_or(0, |node| node.cpus.len());
        let own = subject.cpu_use.get(&node).copied().unwrap_or(0.0);
        // A subject that floats is not counted in `fixed`.
        let own = if floats(topology, subject) { 0.0 } else { own };
        let others = (self.fixed(node) - own).max(0.0);
        let mine = cpus_on(topology, cpus, node).len();
        (fill * all as f64 - others).min(fill * mine as f64)
    }

    /// Whether all of its work fits on these nodes, and memory of which `bytes` are elsewhere.
    pub fn fits(
        &self,
        subject: &Subject,
        cpus: &CpuSet,
        nodes: &NodeSet,
        fill: f64,
        bytes: u64,
    ) -> bool {
        let (used, topology) = (subject.used_cpus(), &self.look.topology);
        let shares = even_shares(topology, cpus);
        let cpus_fit = nodes.iter().all(|node| {
            let share = shares.get(&node).copied().unwrap_or(0.0);
            share > 0.0 && used * share <= self.cpus_left(subject, cpus, node, fill)
        });
        cpus_fit && bytes <= rooms(topology, nodes)
    }
}

/// Whether it may run on all CPUs.
pub fn floats(topology: &Topology, subject: &Subject) -> bool {
    !subject.is_pinned(topology)
}

fn floating(look: &HostLook) -> BTreeMap<NodeId, f64> {
    let mut floating = BTreeMap::new();
    for subject in look.subjects.iter().filter(|subject| floats(&look.topology, subject)) {
        for (&node, cpus) in &subject.cpu_use {
            *floating.entry(node).or_default() += cpus;
        }
    }
    floating
}

/// Bytes that make a finding: a tenth of the memory that may move, and not less than what was asked for.
pub fn worth(movable: &BTreeMap<NodeId, u64>, min_bytes: u64) -> u64 {
    min_bytes.max(movable.values().sum::<u64>() / 10).max(1)
}

/// Bytes that a migration with default options finds room for.
pub fn room(topology: &Topology, node: NodeId) -> u64 {
    let options = Options::default();
    topology.node(node).map_or(0, |node| {
        let reserve = options.reserve(node.memory.total_bytes);
        node.memory.room(Supply::base(), reserve)
            + node.memory.room_by_cache(Supply::base(), reserve, MakeRoom::Cache)
    })
}

/// The room of these nodes together.
pub fn rooms(topology: &Topology, nodes: &NodeSet) -> u64 {
    nodes.iter().fold(0, |sum: u64, node| sum.saturating_add(room(topology, node)))
}

/// The way of a subject's memory to some nodes, if it can move and that is worth it.
#[derive(Debug)]
pub struct Way {
    /// The memory elsewhere, by node, in bytes.
    pub from: BTreeMap<NodeId, u64>,
    /// The sum of it, all of which finds room.
    pub bytes: u64,
    /// Bytes from node to node.
    pub flows: BTreeMap<(NodeId, NodeId), u64>,
}

/// The way of all memory of a subject to these nodes. `None`: it is spread on purpose, less than `min_bytes` is elsewhere, or there is
/// no room for all of it on the nodes that its policy and its cpuset allow.
pub fn way(host: &HostState, subject: &Subject, to: &NodeSet, min_bytes: u64) -> Option<Way> {
    if subject.is_spread() {
        return None;
    }
    let topology = &host.look.topology;
    let movable = host.movable(subject);
    let from = outside(&movable, to);
    let targets = subject.policy.permits(&to.and(&subject.mems));
    let bytes: u64 = from.values().sum();
    if bytes < worth(&movable, min_bytes) || rooms(topology, &targets) < bytes {
        return None;
    }
    let flows = route(topology, &from, &targets);
    Some(Way { from, bytes, flows })
}

/// A node's memory once this much more of it is taken.
pub fn taken(mut memory: NodeMemory, bytes: u64) -> NodeMemory {
    let options = Options::default();
    let reserve = options.reserve(memory.total_bytes);
    memory.take(Supply::base(), bytes, reserve, MakeRoom::Cache);
    memory
}

/// CPUs of a node that belong to these.
pub fn cpus_on(topology: &Topology, cpus: &CpuSet, node: NodeId) -> CpuSet {
    topology.node(node).map_or(CpuSet::new(), |node| node.cpus.and(cpus))
}

/// The share of its work that a subject does on each node if it may run on these CPUs: even over them.
pub fn even_shares(topology: &Topology, cpus: &CpuSet) -> BTreeMap<NodeId, f64> {
    let on = |node: NodeId| cpus_on(topology, cpus, node).len() as f64;
    let all: f64 = topology.nodes().map(|node| on(node.id)).sum();
    let nodes = topology.nodes().map(|node| (node.id, on(node.id) / all.max(1.0)));
    nodes.filter(|&(_, share)| share > 0.0).collect()
}

/// The share of its work that a subject does on each node.
pub fn shares(topology: &Topology, subject: &Subject) -> BTreeMap<NodeId, f64> {
    let used = subject.used_cpus();
    if used < WORKING_CPUS {
        return even_shares(topology, &subject.cpus);
    }
    subject.cpu_use.iter().map(|(&node, cpus)| (node, cpus / used)).collect()
}

/// The part that is not on these nodes.
pub fn outside(resident: &BTreeMap<NodeId, u64>, nodes: &NodeSet) -> BTreeMap<NodeId, u64> {
    let resident = resident.iter().map(|(&node, &bytes)| (node, bytes));
    resident.filter(|&(node, _)| !nodes.contains(node)).collect()
}

/// Flows that bring memory to these nodes, as far as there is room: to the nearest, and between equally near ones to that with
/// most room.
pub fn route(
    topology: &Topology,
    from: &BTreeMap<NodeId, u64>,
    targets: &NodeSet,
) -> BTreeMap<(NodeId, NodeId), u64> {
    let mut rooms: BTreeMap<NodeId, u64> =
        targets.iter().map(|node| (node, room(topology, node))).collect();
    let mut flows = BTreeMap::new();
    for (&source, &bytes) in from {
        let mut order: Vec<NodeId> = targets.iter().collect();
        order.sort_by_key(|&to| (topology.distance(source, to), u64::MAX - rooms[&to], to));
        let mut rest = bytes;
        for to in order {
            let room = rooms.get_mut(&to).expect("each target has one");
            let part = rest.min(*room);
            *room -= part;
            rest -= part;
            if part > 0 {
                flows.insert((source, to), part);
            }
        }
    }
    flows
}

/// Memory by node once these flows are done.
pub fn after(
    resident: &BTreeMap<NodeId, u64>,
    flows: &BTreeMap<(NodeId, NodeId), u64>,
) -> BTreeMap<NodeId, u64> {
    let mut resident = resident.clone();
    for (&(from, to), &bytes) in flows {
        let left = resident.entry(from).or_default();
        *left = left.saturating_sub(bytes);
        *resident.entry(to).or_default() += bytes;
    }
    resident.retain(|_, bytes| *bytes > 0);
    resident
}

/// Sets of near nodes: for each node the sets of nodes up to each distance from it, the smallest sets first. Nodes
/// without CPUs or without memory are in none.
fn neighbourhoods(topology: &Topology) -> Vec<NodeSet> {
    let is_whole = |id: &NodeId| {
        topology.node(*id).is_some_and(|node| !node.cpus.is_empty() && node.memory.total_bytes > 0)
    };
    let nodes: Vec<NodeId> = topology.ids().iter().filter(is_whole).collect();
    let mut sets = BTreeSet::new();
    for &centre in &nodes {
        let distances: BTreeSet<u64> =
            nodes.iter().map(|&node| topology.distance(centre, node)).collect();
        for reach in distances {
            let near = nodes.iter().copied();
            let near = near.filter(|&node| topology.distance(centre, node) <= reach);
            sets.insert(near.collect::<NodeSet>());
        }
    }
    let mut sets: Vec<NodeSet> = sets.into_iter().collect();
    sets.sort_by_key(NodeSet::len);
    sets
}

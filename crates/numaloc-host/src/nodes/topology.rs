//! Nodes, their CPUs and distances, as the kernel lists them and as hwloc sees them; and checks of the nodes that a
//! request names.
//!
//! Both give the same result (`tests/suite/topology.rs`). hwloc reads about twenty files for each CPU, three quarters
//! of all that a command on a small process reads. So it is used only for the machine itself, and where the kernel
//! has no lists.

use crate::{
    Error, Roots,
    files::read,
    nodes::{
        dax_memory, hmat, measured, nature,
        node_memory::{self, NodeMemoryReader},
        pmem, tiers, weights,
    },
};
use hwlocality::{
    object::{TopologyObject, attributes::ObjectAttributes, types::ObjectType},
    topology::{
        Topology as Hwloc,
        builder::{BuildFlags, TypeFilter},
    },
};
use numaloc_core::{
    CpuId, CpuSet, IdSet, Node, NodeId, NodeMemory, NodeSet, Options, Placement, Speeds, Topology,
    ids::{INDEX_MAX, Index},
};
use std::{collections::BTreeMap, io};

/// hwloc's name for the firmware's table (ACPI SLIT) as the kernel shows it in nodeN/distance.
const SLIT: &str = "NUMALatency";

/// The machine, with the memory of its nodes as of now: as the kernel lists it, or, without CONFIG_NUMA, as hwloc sees it.
///
/// # Errors
/// [`Error::Read`] and [`Error::Parse`] when the kernel's lists cannot be read; as [`by_hwloc`].
pub fn topology(roots: &Roots) -> Result<Topology, Error> {
    read_by(roots, &NodeMemoryReader::new(roots)?)
}

/// As [`topology`], with a reader that continues to be used.
///
/// # Errors
/// As of [`topology`].
pub fn read_by(roots: &Roots, reader: &NodeMemoryReader) -> Result<Topology, Error> {
    let Some(online) = list::<NodeId>(roots, "online")? else { return by_hwloc(roots) };
    let node = |id| Node { id, cpus: CpuSet::new(), memory: NodeMemory::default() };
    let mut nodes: Vec<Node> = online.iter().map(node).collect();
    fill(roots, reader, &mut nodes)?;
    let offline = with_cpus_offline(roots, &nodes);
    let topology = Topology::new(nodes, listed_distances(roots, &online)?);
    Ok(completed(roots, reader, topology).with_cpus_offline(offline))
}

/// Adds what is in files of its own: tiers, DAX devices, persistent memory, and the nature and speed of memory.
fn completed(roots: &Roots, reader: &NodeMemoryReader, topology: Topology) -> Topology {
    let (measured, firmware) = (measured::read(roots), hmat::read(roots));
    let speeds = weights::read(roots, Speeds { measured, firmware, ..Speeds::default() });
    let topology = topology.with_tiers(tiers::read(roots)).with_dax(dax_memory::read(roots));
    let natures = nature::read(roots, reader.movable_bytes());
    let topology = topology.with_natures(natures).with_storage(pmem::read(roots));
    let topology = topology.with_configured_tiers(roots.tiers.clone()).with_speeds(speeds);
    topology.with_demotion(tiers::has_demotion(roots))
}

/// The same as far as it says where memory belongs: the online nodes with their CPUs and distances, and the size of
/// the memory that each has. Free memory, watermarks, pools and tiers are not read, which are most of the files of
/// [`topology`].
///
/// # Errors
/// As of [`topology`].
pub fn places(roots: &Roots) -> Result<Topology, Error> {
    let Some(online) = list::<NodeId>(roots, "online")? else { return by_hwloc(roots) };
    let mut nodes = Vec::new();
    for id in online.iter() {
        let cpus = list(roots, &format!("node{id}/cpulist"))?.unwrap_or_default();
        let total_bytes = node_memory::total_bytes(roots, id)?;
        nodes.push(Node { id, cpus, memory: NodeMemory { total_bytes, ..NodeMemory::default() } });
    }
    Ok(Topology::new(nodes, listed_distances(roots, &online)?))
}

/// The distances of nodeN/distance: a row for each node, with one number for each node that is online, in their order
/// (drivers/base/node.c, `node_read_distance`).
fn listed_distances(
    roots: &Roots,
    online: &NodeSet,
) -> Result<BTreeMap<(NodeId, NodeId), u64>, Error> {
    let mut distances = BTreeMap::new();
    for from in online.iter() {
        let path = roots.sys.join(format!("devices/system/node/node{from}/distance"));
        let text = read::text(&path)?;
        let row: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        // If a node has come online or gone offline meanwhile, the row has another length, and it is not known which
        // distance is to which node.
        let row = row.ok().filter(|row| row.len() == online.len());
        let reason = || format!("'{}' are not distances to nodes {online}", text.trim());
        let row = row.ok_or_else(|| Error::Parse { path, reason: reason() })?;
        distances.extend(online.iter().zip(row).map(|(to, distance)| ((from, to), distance)));
    }
    Ok(distances)
}

/// The machine as hwloc sees it, with the memory of its nodes as of now.
///
/// # Errors
/// [`Error::Hwloc`] when hwloc fails, or describes another machine because of `HWLOC_*` in the environment.
pub fn by_hwloc(roots: &Roots) -> Result<Topology, Error> {
    let hwloc = discover()?;
    check_this_system(roots, &hwloc)?;
    let reader = NodeMemoryReader::new(roots)?;
    let mut nodes = nodes(&hwloc);
    fill(roots, &reader, &mut nodes)?;
    let offline = with_cpus_offline(roots, &nodes);
    let topology = Topology::new(nodes, distances(&hwloc));
    Ok(completed(roots, &reader, topology).with_cpus_offline(offline))
}

/// The nodes that have CPUs, all offline. A node's directory links to each CPU that is present
/// (drivers/base/node.c, `register_cpu_under_node`), its cpulist names the online ones.
fn with_cpus_offline(roots: &Roots, nodes: &[Node]) -> NodeSet {
    let cpu = |name: &str| name.strip_prefix("cpu")?.parse::<u32>().ok();
    let has_cpus = |node: &&Node| {
        let directory = roots.sys.join(format!("devices/system/node/node{}", node.id));
        !read::entries(&directory, cpu).is_empty()
    };
    nodes.iter().filter(|node| node.cpus.is_empty()).filter(has_cpus).map(|node| node.id).collect()
}

/// Fills in what the kernel knows better than hwloc: which node each CPU is on, and the memory as of now.
fn fill(roots: &Roots, reader: &NodeMemoryReader, nodes: &mut [Node]) -> Result<(), Error> {
    for node in nodes {
        if let Some(cpus) = list(roots, &format!("node{}/cpulist", node.id))? {
            node.cpus = cpus;
        }
        match reader.read(node.id) {
            Ok(memory) => node.memory = memory,
            // A kernel without CONFIG_NUMA has no nodeN; hwloc's own figure for the single node stays.
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// hwloc's topology as core values. Only the total of the memory is set, because hwloc has nothing else.
pub fn from_hwloc(hwloc: &Hwloc) -> Topology {
    Topology::new(nodes(hwloc), distances(hwloc))
}

/// Checks that each node that the options name is online and has memory.
///
/// # Errors
/// [`Error::BadNode`] with the first that is not; [`Error::BadRelief`].
pub fn check_options(roots: &Roots, topology: &Topology, options: &Options) -> Result<(), Error> {
    let placed = options.named_nodes();
    let relieved = options.relief.as_ref().map(|relief| [relief.node].into_iter().collect());
    let mut named = placed.iter().chain(&options.from).chain(&relieved);
    named.try_for_each(|nodes| check_nodes(roots, topology, nodes))?;
    if let Some(relief) = &options.relief {
        relief.check(options.to.as_ref(), topology)?;
    }
    match &options.placement {
        Placement::Tiers(tiers) => Ok(tiers.check(topology)?),
        _ => Ok(()),
    }
}

/// Checks that each of these nodes is online and has memory.
///
/// # Errors
/// As [`check_options`].
pub fn check_nodes(roots: &Roots, topology: &Topology, nodes: &NodeSet) -> Result<(), Error> {
    let with_memory = topology.with_memory();
    let Some(node) = nodes.minus(&with_memory).iter().next() else { return Ok(()) };
    let reason = if topology.node(node).is_some() {
        "has no memory"
    } else if list::<NodeId>(roots, "possible")?.is_some_and(|possible| possible.contains(node)) {
        "is offline"
    } else {
        "does not exist"
    };
    Err(Error::BadNode { node: node.0, reason, available: with_memory.to_string() })
}

/// Checks that there is more than one node with memory.
///
/// # Errors
/// [`Error::OneNode`] if there is not.
pub fn check_several(topology: &Topology) -> Result<(), Error> {
    let with_memory = topology.with_memory();
    if with_memory.len() > 1 {
        return Ok(());
    }
    Err(Error::OneNode { node: with_memory.to_string() })
}

/// Lets hwloc look at this machine.
fn discover() -> Result<Hwloc, Error> {
    let failed = |reason: String| Error::Hwloc { reason };
    // INCLUDE_DISALLOWED: what our own cpuset forbids is still part of the machine, and the target may use it.
    // DONT_CHANGE_BINDING: by default hwloc's x86 backend binds the calling thread to each CPU in turn.
    let flags = BuildFlags::INCLUDE_DISALLOWED | BuildFlags::DONT_CHANGE_BINDING;
    let builder = Hwloc::builder().with_flags(flags).map_err(|error| failed(error.to_string()))?;
    // Nodes and CPUs cannot be left out; caches, of which hwloc reads ten files for each CPU, can.
    let builder = builder
        .with_common_type_filter(TypeFilter::KeepNone)
        .map_err(|error| failed(error.to_string()))?;
    builder.build().map_err(|error| failed(error.to_string()))
}

/// Refuses a topology that is not this machine's. The environment cannot be cleared safely in a process with threads,
/// so its effect is detected: hwloc reports that of a foreign source. A source that claims to be this system
/// (HWLOC_THISSYSTEM=1) may have only nodes that the kernel has online.
fn check_this_system(roots: &Roots, hwloc: &Hwloc) -> Result<(), Error> {
    let refuse = |what: &str| {
        let reason = format!("{what}; unset HWLOC_* in the environment");
        Err(Error::Hwloc { reason })
    };
    if !hwloc.is_this_system() {
        return refuse("it describes another machine than this one");
    }
    let Some(online) = list::<NodeId>(roots, "online")? else { return Ok(()) };
    let found: NodeSet = numa_nodes(hwloc).map(|(id, _)| id).collect();
    if !found.is_subset(&online) {
        return refuse(&format!("it found nodes {found}, the kernel has {online} online"));
    }
    Ok(())
}

/// One of the lists in /sys/devices/system/node; none without CONFIG_NUMA.
fn list<I: Index>(roots: &Roots, name: &str) -> Result<Option<IdSet<I>>, Error> {
    let path = roots.sys.join("devices/system/node").join(name);
    let text = match read::text(&path) {
        Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        text => text?,
    };
    text.parse().map(Some).map_err(|error| Error::Parse { path, reason: format!("{error}") })
}

fn node_id(object: &TopologyObject) -> Option<NodeId> {
    let os_index = u32::try_from(object.os_index()?).ok()?;
    (os_index <= INDEX_MAX).then_some(NodeId(os_index))
}

fn numa_nodes(hwloc: &Hwloc) -> impl Iterator<Item = (NodeId, &TopologyObject)> {
    hwloc.objects_with_type(ObjectType::NUMANode).filter_map(|node| Some((node_id(node)?, node)))
}

/// The nodes in order of their index. hwloc gives a memory-only node the CPUs it is nearest to, which already
/// belong to another node; the kernel numbers nodes with CPUs first, so the lowest index is taken as the owner.
fn nodes(hwloc: &Hwloc) -> Vec<Node> {
    let objects: BTreeMap<NodeId, &TopologyObject> = numa_nodes(hwloc).collect();
    let mut taken = CpuSet::new();
    let mut own = |object| {
        let cpus = cpuset(object).minus(&taken);
        taken = taken.or(&cpus);
        cpus
    };
    let node = |(id, object)| {
        let memory = NodeMemory { total_bytes: total_bytes(object), ..NodeMemory::default() };
        Node { id, cpus: own(object), memory }
    };
    objects.into_iter().map(node).collect()
}

/// CPUs that are online; the offline ones are in hwloc's complete_cpuset alone.
fn cpuset(object: &TopologyObject) -> CpuSet {
    let Some(set) = object.cpuset() else { return CpuSet::new() };
    let cpus = set.iter_set().filter_map(|cpu| u32::try_from(usize::from(cpu)).ok());
    cpus.take_while(|&cpu| cpu <= INDEX_MAX).map(CpuId).collect()
}

fn total_bytes(object: &TopologyObject) -> u64 {
    match object.attributes() {
        Some(ObjectAttributes::NUMANode(node)) => node.local_memory().map_or(0, u64::from),
        _ => 0,
    }
}

fn distances(hwloc: &Hwloc) -> BTreeMap<(NodeId, NodeId), u64> {
    let tables = hwloc.distances_with_name(SLIT).unwrap_or_default();
    let pairs = tables.iter().flat_map(|table| {
        // Row by row. A row is one nodeN/distance: the distances from node N to each node.
        table
            .object_distances()
            .filter_map(|((from, to), distance)| Some(((node_id(from?)?, node_id(to?)?), distance)))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests;

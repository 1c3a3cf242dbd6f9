//! Where a process's memory belongs: on the nodes of its CPUs, of which all threads count or only the busy ones, or on those of its devices.

mod allowed;
mod cells;
pub mod claim;

pub use allowed::allowed;
pub(crate) use cells::alone;
pub use cells::{by_cells, cells, of_cell};

use crate::{
    ask::{
        home_rule::{HomeRule, IDLE_PERCENT},
        options::Options,
        placement::Placement,
    },
    machine::{
        ids::{NodeId, NodeSet},
        process::{Process, Threads},
        topology::Topology,
    },
};
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// The nodes where a process's memory belongs: the nodes that the request names, else the nodes of its CPUs. A
/// placement on several nodes uses only those of them that the cpuset of the process allows. If it asks for
/// placements of single mappings, these are the nodes of all of them together.
pub fn home(topology: &Topology, process: &Process, options: &Options) -> NodeSet {
    let homes = options.placements().map(|placement| placed(topology, process, options, placement));
    homes.fold(NodeSet::new(), |all, home| all.or(&home))
}

/// The nodes where memory of one of these processes belongs.
pub fn of_all(topology: &Topology, processes: &[Process], options: &Options) -> NodeSet {
    let homes = processes.iter().map(|process| home(topology, process, options));
    homes.fold(NodeSet::new(), |all, home| all.or(&home))
}

/// As [`home`], of memory with this placement.
pub fn placed(
    topology: &Topology,
    process: &Process,
    options: &Options,
    placement: &Placement,
) -> NodeSet {
    if let Some(tiers) = placement.by_use() {
        let fast = tiers.fast_of(topology.local_nodes(&process.cpus));
        let slow = tiers.slow.clone().unwrap_or_default();
        return fast.or(&slow).and(&process.mems_allowed);
    }
    if let Some(nodes) = placement.nodes().or_else(|| options.to.clone()) {
        return nodes;
    }
    let nodes = match options.home {
        HomeRule::Cpus => topology.local_nodes(&process.cpus),
        HomeRule::Busy => busy(topology, process),
        HomeRule::Devices => by_devices(topology, process),
        HomeRule::Near => {
            let local = topology.local_nodes(&process.cpus);
            local.or(&topology.near(&local, options.near_distance))
        }
    };
    if placement.is_wide() { nodes.and(&process.mems_allowed) } else { nodes }
}

/// Where memory of a process goes that is on nodes of other tiers: it stays within its tier, on the nodes there that are nearest to the
/// CPUs. Nodes that it stays on are not in here. None, if the request names nodes, or places memory on several.
pub fn in_tiers(
    topology: &Topology,
    process: &Process,
    options: &Options,
) -> BTreeMap<NodeId, NodeSet> {
    if options.from.is_none() && goes_home(options) {
        topology.moves_in_tiers(&process.cpus)
    } else {
        BTreeMap::new()
    }
}

/// Whether all memory is to go where its processes are, and neither where the request says nor in parts to several nodes.
pub fn goes_home(options: &Options) -> bool {
    options.to.is_none() && options.maps.is_empty() && options.placement == Placement::Home
}

/// The nodes that the request names for all memory of a process and that are local to none of its CPUs: what goes there is remote to it
/// afterwards.
pub fn away(topology: &Topology, process: &Process, options: &Options) -> NodeSet {
    let named = options.to.clone().unwrap_or_default();
    named.minus(&topology.local_nodes(&process.cpus))
}

/// The nodes of the devices, as far as they have memory.
fn by_devices(topology: &Topology, process: &Process) -> NodeSet {
    let nodes = process.device_nodes.and(&topology.with_memory());
    if nodes.is_empty() { topology.local_nodes(&process.cpus) } else { nodes }
}

/// The nodes of the busy threads.
fn busy(topology: &Topology, process: &Process) -> NodeSet {
    let times = by_nodes(topology, &process.threads);
    let all: Duration = times.values().sum();
    if all.is_zero() {
        return topology.local_nodes(&process.cpus);
    }
    let mut spare = all * IDLE_PERCENT / 100;
    let (may_go, stay): (Vec<_>, Vec<_>) = times.into_iter().partition(|(_, time)| *time <= spare);
    let mut home = stay.into_iter().fold(NodeSet::new(), |home, (nodes, _)| home.or(&nodes));
    let mut may_go = may_go;
    may_go.sort_by_key(|(nodes, time)| (Reverse(nodes.minus(&home).len()), *time));
    for (nodes, time) in may_go {
        match spare.checked_sub(time) {
            _ if nodes.is_subset(&home) => {}
            Some(rest) => spare = rest,
            None => home = home.or(&nodes),
        }
    }
    home
}

/// CPU time of the threads, by the set of nodes that they may run on.
fn by_nodes(topology: &Topology, threads: &[Threads]) -> BTreeMap<NodeSet, Duration> {
    let mut times = BTreeMap::new();
    for threads in threads {
        *times.entry(topology.local_nodes(&threads.cpus)).or_default() += threads.cpu_time;
    }
    times
}

/// The threads of a process that may run on nodes where its busiest threads may not. If threads have different CPUs,
/// these threads are the reason why the home has several nodes. "Busiest" are the threads whose set of nodes has used
/// most CPU time.
pub fn wide_threads(topology: &Topology, process: &Process) -> Vec<Threads> {
    let times = by_nodes(topology, &process.threads);
    let most = times.iter().max_by_key(|&(nodes, time)| (*time, Reverse(nodes.len())));
    let Some((core, _)) = most else { return Vec::new() };
    let wide = |threads: &&Threads| !topology.local_nodes(&threads.cpus).is_subset(core);
    process.threads.iter().filter(wide).cloned().collect()
}

#[cfg(test)]
mod tests;

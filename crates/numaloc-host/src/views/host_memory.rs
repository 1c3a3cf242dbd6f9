//! The memory of all processes of the host in few numbers, for metrics: local and remote bytes by node, systemd unit, container and
//! program.
//!
//! It is the look of the live view ([`Live`]) with a longer period and a smaller budget. Only memory of pinned processes is local or
//! remote. For a process that may run on all nodes every node is home, so its memory is counted apart.

mod kernel_events;

use super::live::Live;
use crate::{
    Error, Roots,
    processes::{containers::container_of, unit::unit_of},
};
use numaloc_core::{
    NodeId, NodeKind, NodeSet, Tier, Topology,
    live::{CountedMemory, KernelEvents, ProcessNow, Seen, Snapshot},
};
use std::{collections::BTreeMap, time::Duration};

/// The name for all units, containers or programs that are not among the largest.
pub const OTHERS: &str = "other";

/// Where memory is, as seen from the process that maps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// On a home node of a pinned process.
    Local,
    /// On another node than those of a pinned process, of no lower tier.
    Remote,
    /// On a node of a lower tier than those of a pinned process.
    Demoted,
    /// In a process that may run on all nodes with memory.
    Unpinned,
}

impl Nearness {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Local, Self::Remote, Self::Demoted, Self::Unpinned];
}

/// Memory of pinned processes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedBytes {
    /// Bytes on home nodes.
    pub local: u64,
    /// Bytes on other nodes, of no lower tier.
    pub remote: u64,
    /// Bytes on nodes of lower tiers.
    pub demoted: u64,
}

impl PinnedBytes {
    fn add(&mut self, other: Self) {
        self.local += other.local;
        self.remote += other.remote;
        self.demoted += other.demoted;
    }
}

/// Numbers of processes with memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Processes that may not run on all nodes.
    pub pinned: usize,
    /// Processes that may run on all nodes.
    pub unpinned: usize,
    /// Processes whose page map is not readable.
    pub hidden: usize,
    /// Processes that have not been looked at yet.
    pub unseen: usize,
}

/// The memory of a node, used or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSize {
    /// MemTotal in bytes.
    pub total_bytes: u64,
    /// What it is.
    pub kind: NodeKind,
    /// Its tier among the nodes of the host, if that is known.
    pub tier: Option<Tier>,
}

/// The memory of the host's processes. A page that several processes map counts for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// Bytes by the node that they are on: every node with every place, but demoted only for nodes of lower tiers.
    pub nodes: BTreeMap<(NodeId, Nearness), u64>,
    /// The nodes of lower tiers.
    pub lower: NodeSet,
    /// The nodes themselves.
    pub sizes: BTreeMap<NodeId, NodeSize>,
    /// The part of the remote bytes on each node that belongs to processes to whose home it is near.
    pub near: BTreeMap<NodeId, u64>,
    /// Bytes of pinned processes by systemd unit.
    pub units: BTreeMap<String, PinnedBytes>,
    /// Bytes of pinned processes by the full id of their container.
    pub containers: BTreeMap<String, PinnedBytes>,
    /// Bytes of pinned processes by command name.
    pub programs: BTreeMap<String, PinnedBytes>,
    /// What the kernel has done with the memory of systemd units, pinned or not; units without any event are left out.
    pub kernel_by_unit: BTreeMap<String, KernelEvents>,
    /// The same by the full id of containers.
    pub kernel_by_container: BTreeMap<String, KernelEvents>,
    /// Numbers of the processes that were counted, and of the others.
    pub processes: ProcessCounts,
    /// Age of the oldest look at a process.
    pub oldest_look: Duration,
    /// Time that was used for looking since the beginning.
    pub used: Duration,
}

impl HostMemory {
    /// Sums up a host. The `most` units, containers and programs with most remote memory are named, and the others
    /// are [`OTHERS`].
    fn of(snapshot: &Snapshot, topology: &Topology, most: usize) -> Self {
        let everywhere = topology.nodes().fold(NodeSet::new(), |mut all, node| {
            topology.local_nodes(&node.cpus).iter().for_each(|home| all.insert(home));
            all
        });
        let lower = topology.lower_tiers();
        let is_there = |node, place| place != Nearness::Demoted || lower.contains(node);
        let nodes =
            topology.nodes().flat_map(|node| Nearness::ALL.map(|place| ((node.id, place), 0)));
        let nodes = nodes.filter(|&((node, place), _)| is_there(node, place)).collect();
        let processes = ProcessCounts {
            hidden: snapshot.hidden,
            unseen: snapshot.unseen,
            ..ProcessCounts::default()
        };
        let tiers = topology.tiers();
        let sizes = topology.nodes().filter_map(|node| {
            let (kind, tier) = (topology.node_kind(node.id)?, tiers.get(&node.id).copied());
            Some((node.id, NodeSize { total_bytes: node.memory.total_bytes, kind, tier }))
        });
        let (sizes, used) = (sizes.collect(), snapshot.used);
        let mut memory = Self { nodes, lower, sizes, processes, used, ..Self::default() };
        snapshot.processes.iter().for_each(|process| memory.add(process, &everywhere));
        memory.add_unmapped(snapshot, &everywhere);
        for named in [&mut memory.units, &mut memory.containers, &mut memory.programs] {
            bound(named, most, |bytes| (bytes.remote, bytes.local), PinnedBytes::add);
        }
        memory.kernel_by_unit = kernel_events::by_name(&snapshot.groups, unit_of, most);
        memory.kernel_by_container = kernel_events::by_name(&snapshot.groups, container_of, most);
        memory
    }

    /// Counts bytes by node. `None` if they may be on all nodes.
    fn place(
        &mut self,
        nodes: &BTreeMap<NodeId, u64>,
        place: &LocalNodes,
        everywhere: &NodeSet,
    ) -> Option<PinnedBytes> {
        let LocalNodes { home, near } = place;
        let is_pinned = !everywhere.iter().all(|node| home.contains(node));
        let mut bytes = PinnedBytes::default();
        for (&node, &here) in nodes {
            let nearness = match (is_pinned, home.contains(node)) {
                (false, _) => Nearness::Unpinned,
                (true, true) => Nearness::Local,
                (true, false) if self.lower.contains(node) => Nearness::Demoted,
                (true, false) => Nearness::Remote,
            };
            *self.nodes.entry((node, nearness)).or_default() += here;
            match nearness {
                Nearness::Local => bytes.local += here,
                Nearness::Remote => {
                    bytes.remote += here;
                    let near = if near.contains(node) { here } else { 0 };
                    *self.near.entry(node).or_default() += near;
                }
                Nearness::Demoted => bytes.demoted += here,
                Nearness::Unpinned => {}
            }
        }
        is_pinned.then_some(bytes)
    }

    /// Adds shared memory that processes of a cgroup have attached and no process maps: it belongs where any of them
    /// runs, and to no program more than to another one.
    fn add_unmapped(&mut self, snapshot: &Snapshot, everywhere: &NodeSet) {
        let mut places: BTreeMap<&str, LocalNodes> = BTreeMap::new();
        for process in &snapshot.processes {
            let Some(cgroup) = process.cgroup.as_deref() else { continue };
            let place = places.entry(cgroup).or_default();
            let (home, near) = (place.home.or(&process.home), place.near.or(&process.near));
            *place = LocalNodes { near: near.minus(&home), home };
        }
        for (cgroup, place) in places {
            let Some(nodes) = own_unmapped(snapshot, cgroup) else { continue };
            let Some(bytes) = self.place(&nodes, &place, everywhere) else { continue };
            for (named, name) in [&mut self.units, &mut self.containers]
                .into_iter()
                .zip([unit_of(cgroup), container_of(cgroup)])
            {
                let Some(name) = name else { continue };
                named.entry(name.to_owned()).or_default().add(bytes);
            }
        }
    }

    fn add(&mut self, process: &ProcessNow, everywhere: &NodeSet) {
        let Seen::Pages { nodes, age, .. } = &process.seen else { return };
        self.oldest_look = self.oldest_look.max(*age);
        let Some(bytes) = self.place(nodes, &LocalNodes::of(process), everywhere) else {
            self.processes.unpinned += 1;
            return;
        };
        self.processes.pinned += 1;
        let cgroup = process.cgroup.as_deref().unwrap_or_default();
        let names = [unit_of(cgroup), container_of(cgroup), Some(process.comm.as_str())];
        let all = [&mut self.units, &mut self.containers, &mut self.programs];
        for (named, name) in all.into_iter().zip(names) {
            let Some(name) = name else { continue };
            named.entry(name.to_owned()).or_default().add(bytes);
        }
    }
}

/// Shared memory of a cgroup that no process maps, without that of the cgroups below it that are counted themselves.
fn own_unmapped(snapshot: &Snapshot, cgroup: &str) -> Option<BTreeMap<NodeId, u64>> {
    let memory = snapshot.groups.get(cgroup)?.memory.as_ref()?;
    let mut below = CountedMemory::default();
    let prefix = format!("{}/", cgroup.trim_end_matches('/'));
    // The counts of one that was added have those of the cgroups below it.
    let mut added: Vec<&str> = Vec::new();
    for (path, group) in snapshot.groups.range(prefix.clone()..) {
        if !path.starts_with(&prefix) {
            break;
        }
        if path != cgroup && !is_below(path, &added) {
            group.memory.iter().for_each(|memory| below.add(memory));
            added.push(path);
        }
    }
    let own = memory.without(&below).unmapped;
    (!own.is_empty()).then_some(own)
}

/// The home of a process, and the nodes near to it.
#[derive(Clone, Default)]
struct LocalNodes {
    home: NodeSet,
    near: NodeSet,
}

impl LocalNodes {
    fn of(process: &ProcessNow) -> Self {
        Self { home: process.home.clone(), near: process.near.clone() }
    }
}

/// Whether a cgroup is below any of these.
fn is_below(path: &str, above: &[&str]) -> bool {
    let has = |above: &&str| path.strip_prefix(*above).is_some_and(|rest| rest.starts_with('/'));
    above.iter().any(has)
}

/// Keeps the `most` names with the largest size, and sums up the others.
fn bound<T: Default, S: Ord>(
    named: &mut BTreeMap<String, T>,
    most: usize,
    size: impl Fn(&T) -> S,
    add: impl Fn(&mut T, T),
) {
    if named.len() <= most {
        return;
    }
    let mut all: Vec<(String, T)> = std::mem::take(named).into_iter().collect();
    // Stable: equal ones stay in the order of their names.
    all.sort_by_key(|(_, value)| std::cmp::Reverse(size(value)));
    for (number, (name, value)) in all.into_iter().enumerate() {
        let name = if number < most { name } else { OTHERS.to_owned() };
        add(named.entry(name).or_default(), value);
    }
}

/// The period of looks, and the budget for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostMemoryLimits {
    /// Time between two rounds. A round that takes longer is shown as far as it has come, and continues.
    pub period: Duration,
    /// Share of one CPU in percent that looking may use.
    pub cpu_percent: f64,
    /// Most units, containers and programs, each, that are named.
    pub series: usize,
}

/// Looks at the host's memory in rounds. Times are counted from any one moment, by the caller's clock.
#[derive(Debug)]
pub struct HostMemoryLook {
    live: Live,
    limits: HostMemoryLimits,
    /// When the next round begins.
    due: Duration,
    /// Whether the round under way has not been shown.
    is_open: bool,
}

impl HostMemoryLook {
    /// A look that begins with its first turn.
    ///
    /// # Errors
    /// As [`Live::new`].
    pub fn new(
        roots: &Roots,
        topology: Topology,
        limits: HostMemoryLimits,
        now: Duration,
    ) -> Result<Self, Error> {
        // A process that was looked at late in a round is due again in the next one.
        let pause = limits.period / 2;
        let live = Live::new(roots, topology, limits.cpu_percent, pause, now)?;
        Ok(Self { live, limits, due: now, is_open: false })
    }

    /// Continues as far as the budget goes. To be called every second or so. Gives back what is known when a round has ended.
    pub fn turn(&mut self, clock: &dyn Fn() -> Duration) -> Option<HostMemory> {
        let now = clock();
        let mut shown = None;
        if now >= self.due {
            shown = self.is_open.then(|| self.memory(now));
            self.live.refresh(clock);
            (self.due, self.is_open) = (now + self.limits.period, true);
        }
        self.live.work(clock);
        if self.is_open && self.live.is_idle() {
            self.is_open = false;
            shown = Some(self.memory(clock()));
        }
        shown
    }

    fn memory(&self, now: Duration) -> HostMemory {
        HostMemory::of(&self.live.snapshot(now), self.live.topology(), self.limits.series)
    }
}

#[cfg(test)]
mod tests;

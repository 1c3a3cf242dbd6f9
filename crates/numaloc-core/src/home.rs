//! Where a process's memory belongs: on the nodes of its CPUs, of all of its threads or of those that work.

use crate::{
    ids::NodeSet,
    options::Options,
    process::{Process, Threads},
    topology::Topology,
};
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// Whose CPUs make the home of a process.
///
/// The CPUs that its threads may use are what was decided about it, so they come first: a thread that sleeps now may work
/// tomorrow. But one thread that nobody has pinned (a runtime's helper, a signal handler) makes all nodes home. For such
/// processes threads can be weighed by the CPU time that they have used since they started. That is known at once, for
/// all of them, and steady from one look to the next; samples would take the time of sampling, and differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HomeRule {
    /// All threads'.
    #[default]
    Cpus,
    /// Those of the threads that work: some that together have used at most [`IDLE_PERCENT`] of the process's CPU time are
    /// left out, those first that add most nodes. Of a process that has used none, all threads'.
    Busy,
}

/// Share of a process's CPU time whose threads [`HomeRule::Busy`] may leave out, in percent.
pub const IDLE_PERCENT: u32 = 5;

impl HomeRule {
    /// All of them, the default first.
    pub const ALL: [HomeRule; 2] = [Self::Cpus, Self::Busy];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Busy => "busy",
        }
    }
}

/// The nodes where a process's memory belongs: those asked for, else those of its CPUs.
pub fn home(topology: &Topology, process: &Process, options: &Options) -> NodeSet {
    match (&options.to, options.home) {
        (Some(nodes), _) => nodes.clone(),
        (None, HomeRule::Cpus) => topology.local_nodes(&process.cpus),
        (None, HomeRule::Busy) => busy(topology, process),
    }
}

/// The nodes of the threads that work.
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

/// CPU time by the nodes that threads may run on.
fn by_nodes(topology: &Topology, threads: &[Threads]) -> BTreeMap<NodeSet, Duration> {
    let mut times = BTreeMap::new();
    for threads in threads {
        *times.entry(topology.local_nodes(&threads.cpus)).or_default() += threads.cpu_time;
    }
    times
}

/// The threads of a process that may run on other nodes than those that have used most CPU time: what makes a home of
/// several nodes so large, where not all threads have the same.
pub fn wide_threads(topology: &Topology, process: &Process) -> Vec<Threads> {
    let times = by_nodes(topology, &process.threads);
    let most = times.iter().max_by_key(|&(nodes, time)| (*time, Reverse(nodes.len())));
    let Some((core, _)) = most else { return Vec::new() };
    let wide = |threads: &&Threads| !topology.local_nodes(&threads.cpus).is_subset(core);
    process.threads.iter().filter(wide).cloned().collect()
}

#[cfg(test)]
mod tests;

//! The nodes where the memory of a process may be put, if its threads are in different cpusets.

use crate::{
    ask::options::Options,
    machine::{ids::NodeSet, process::Process, topology::Topology},
};

/// The nodes that the cpusets of those threads allow that make the home of the process. The kernel compares the target node of a call
/// with the cpuset of the thread that the call names (mm/migrate.c, `find_mm_struct`), and any of them can be named.
///
/// If the request names the nodes, or the home is not that of the busy threads, all threads of the process count.
pub fn allowed(topology: &Topology, process: &Process, options: &Options) -> NodeSet {
    let all = || process.mems_allowed.clone();
    if options.to.is_some() || process.threads.iter().all(|group| group.mems_allowed.is_none()) {
        return all();
    }
    let home = super::home(topology, process, options);
    let makes_home = process.threads.iter().filter(|threads| {
        let nodes = topology.local_nodes(&threads.cpus);
        !nodes.is_empty() && nodes.is_subset(&home)
    });
    let mems = makes_home.filter_map(|threads| threads.mems_allowed.as_ref());
    let mems = mems.fold(NodeSet::new(), |allowed, mems| allowed.or(mems));
    if mems.is_empty() { all() } else { mems }
}

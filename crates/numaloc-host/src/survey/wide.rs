//! Checks before memory is surveyed for a placement on several nodes.

use crate::{Error, survey::page_access::Source};
use numaloc_core::{NodeSet, Options, Process, Skip, Topology, planner};

/// Checks that pages can be found as the placement has to know them, that the processes may have memory on all nodes that it names,
/// and that at least one process has several nodes.
///
/// # Errors
/// [`Error::FramesHidden`], [`Error::NodesForbidden`], [`Error::NarrowPlacement`].
pub(super) fn check(
    topology: &Topology,
    source: Source,
    options: &Options,
    processes: &[Process],
) -> Result<(), Error> {
    let placement = &options.placement;
    if !placement.is_wide() {
        return Ok(());
    }
    if source == Source::Query {
        return Err(Error::FramesHidden { placement: placement.name() });
    }
    let named = placement.nodes().unwrap_or_default();
    for process in processes {
        let forbidden = named.minus(&process.mems_allowed);
        if !forbidden.is_empty() {
            return Err(Error::NodesForbidden {
                pid: process.identity.pid,
                comm: process.comm.clone(),
                nodes: forbidden.to_string(),
                allowed: process.mems_allowed.to_string(),
            });
        }
    }
    let homes = processes.iter().map(|process| planner::home(topology, process, options));
    let homes: Vec<NodeSet> = homes.collect();
    let is_narrow =
        |home: &NodeSet| planner::skip(topology, home, placement) == Some(Skip::OneNode);
    match homes.first() {
        Some(home) if homes.iter().all(is_narrow) => {
            Err(Error::NarrowPlacement { placement: placement.name(), nodes: home.to_string() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Identity, Node, NodeId, NodeMemory, Placement};

    fn topology() -> Topology {
        let memory = NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() };
        let node = |(id, cpus): (u32, &str)| Node {
            id: NodeId(id),
            cpus: cpus.parse().expect("a list"),
            memory: memory.clone(),
        };
        Topology::new([(0, "0-1"), (2, "2-3"), (5, "4-5")].map(node), [])
    }

    fn process(cpus: &str, mems: &str) -> Process {
        Process {
            identity: Identity { pid: 7, start_time: 1 },
            comm: "db".into(),
            cpus: cpus.parse().expect("a list"),
            threads: Vec::new(),
            mems_allowed: mems.parse().expect("a list"),
        }
    }

    fn refused(placement: &Placement, source: Source, processes: &[Process]) -> Option<String> {
        let options = Options { placement: placement.clone(), ..Options::default() };
        check(&topology(), source, &options, processes).err().map(|error| error.to_string())
    }

    fn told(placement: &Placement, processes: &[Process]) -> Option<String> {
        refused(placement, Source::Pagemap, processes)
    }

    #[test]
    fn what_a_wide_placement_cannot_do_is_refused_before_anything_is_looked_at() {
        let by_cpus = Placement::Interleave(None);
        let (wide, narrow) = (process("0-5", "0-5"), process("0", "0-5"));
        assert_eq!(told(&by_cpus, std::slice::from_ref(&wide)), None);
        assert_eq!(told(&by_cpus, &[narrow.clone(), wide.clone()]), None, "one has several");
        let one = told(&by_cpus, std::slice::from_ref(&narrow)).expect("one node");
        assert!(one.contains("interleave") && one.contains("node 0"), "{one}");
        // Of the nodes of its CPUs the cpuset leaves one.
        assert!(told(&by_cpus, &[process("0-5", "2")]).is_some_and(|why| why.contains("node 2")));
        let named = Placement::Interleave("0,5".parse().ok());
        assert_eq!(told(&named, &[narrow]), None);
        let forbidden = told(&named, &[process("0", "0-2")]).expect("not node 5");
        assert!(forbidden.contains("node 5") && forbidden.contains("7 (db)"), "{forbidden}");
        let hidden = refused(&named, Source::Query, &[wide]).expect("no frames");
        assert!(hidden.contains("CAP_SYS_ADMIN"), "{hidden}");
        assert_eq!(refused(&Placement::Home, Source::Query, &[process("0", "0")]), None);
    }
}

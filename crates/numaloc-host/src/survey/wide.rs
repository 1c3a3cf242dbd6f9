//! Checks before memory is surveyed for a placement on several nodes.

use crate::{Error, survey::page_access::Source};
use numaloc_core::{Options, Placement, Process, Skip, Topology, home, planner};
use std::collections::BTreeSet;

/// Checks that pages can be found as the placements have to know them, that the processes may have memory on all nodes that they name,
/// and that for each placement at least one process has several nodes. `users`: for each placement of single mappings, the processes
/// that have such mappings.
///
/// # Errors
/// [`Error::FramesHidden`], [`Error::NodesForbidden`], [`Error::NarrowPlacement`].
pub(super) fn check(
    topology: &Topology,
    source: Source,
    options: &Options,
    processes: &[Process],
    users: &[BTreeSet<usize>],
) -> Result<(), Error> {
    let all: Vec<&Process> = processes.iter().collect();
    let of = |number: usize| match users.get(number) {
        Some(users) => users.iter().map(|&process| &processes[process]).collect(),
        None => all.clone(),
    };
    let wide = options.placements().enumerate().filter(|(_, placement)| placement.is_wide());
    for (number, placement) in wide {
        if placement.needs_folios() && source == Source::Query {
            return Err(Error::FramesHidden { placement: placement.name() });
        }
        check_nodes(topology, options, placement, &of(number))?;
    }
    Ok(())
}

/// Checks the nodes of one placement for these processes.
fn check_nodes(
    topology: &Topology,
    options: &Options,
    placement: &Placement,
    processes: &[&Process],
) -> Result<(), Error> {
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
    let is_narrow = |process: &&Process| {
        planner::skip_placed(topology, process, options, placement) == Some(Skip::OneNode)
    };
    match processes.first() {
        Some(first) if processes.iter().all(is_narrow) => {
            let nodes = home::placed(topology, first, options, placement).to_string();
            Err(Error::NarrowPlacement { placement: placement.name(), nodes })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Identity, Node, NodeId, NodeMemory};

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
            device_nodes: Default::default(),
            swap_bytes: 0,
            page_table_bytes: 0,
            guest: None,
        }
    }

    fn refused(placement: &Placement, source: Source, processes: &[Process]) -> Option<String> {
        let options = Options { placement: placement.clone(), ..Options::default() };
        check(&topology(), source, &options, processes, &[]).err().map(|error| error.to_string())
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
        // The cpuset leaves one of the nodes of its CPUs.
        assert!(told(&by_cpus, &[process("0-5", "2")]).is_some_and(|why| why.contains("node 2")));
        let named = Placement::Interleave("0,5".parse().ok());
        assert_eq!(told(&named, &[narrow]), None);
        let forbidden = told(&named, &[process("0", "0-2")]).expect("not node 5");
        assert!(forbidden.contains("node 5") && forbidden.contains("7 (db)"), "{forbidden}");
        let hidden = refused(&named, Source::Query, &[wide]).expect("no frames");
        assert!(hidden.contains("CAP_SYS_ADMIN"), "{hidden}");
        assert_eq!(refused(&Placement::Home, Source::Query, &[process("0", "0")]), None);
    }

    #[test]
    fn placements_of_mappings_are_checked_for_the_processes_that_have_these() {
        let told = |rules: &[&str], users: &[&[usize]]| {
            let maps = rules.iter().map(|rule| rule.parse().expect("valid")).collect();
            let options = Options { maps, ..Options::default() };
            let users: Vec<BTreeSet<usize>> =
                users.iter().map(|users| users.iter().copied().collect()).collect();
            let processes = [process("0", "0-2"), process("0-5", "0-5")];
            let checked = check(&topology(), Source::Pagemap, &options, &processes, &users);
            checked.err().map(|error| error.to_string())
        };
        assert_eq!(told(&["a=home", "b=interleave"], &[&[0], &[0, 1]]), None);
        let narrow = told(&["a=home", "b=interleave"], &[&[1], &[0]]).expect("the one on node 0");
        assert!(narrow.contains("node 0 alone"), "{narrow}");
        assert_eq!(told(&["a=interleave:0,5"], &[&[1]]), None, "the other one has no such memory");
        let forbidden = told(&["a=interleave:0,5"], &[&[0, 1]]).expect("not node 5");
        assert!(forbidden.contains("node 5"), "{forbidden}");
    }
}

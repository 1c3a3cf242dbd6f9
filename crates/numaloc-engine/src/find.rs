//! Checks whether anything can be done for a target, without looking at its memory.

use crate::{Aim, Authority, Error, FoundTarget, Local, files, members::Members};
use numaloc_core::{NodeSet, NodeUse, Options, Process, Relief, Skip, Topology, planner};
use numaloc_executor::{Migration, Party, identities};
use numaloc_host::{node_free_bytes, traffic};
use std::sync::Arc;

impl Local {
    /// As [`Self::find`], for a schedule. If it relieves a node, only the node is looked at while it is within its bound.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn probe(
        &self,
        aim: &Aim,
        options: &Options,
        authority: &Authority,
        stop: &dyn Fn() -> bool,
    ) -> Result<FoundTarget, Error> {
        let Some(relief) = &options.relief else { return self.find(aim, options, authority, stop) };
        let node = self.use_of(relief, stop)?;
        let found = match relief.is_needed(node) {
            true => self.find(aim, options, authority, stop)?,
            false => FoundTarget::default(),
        };
        Ok(FoundTarget { relieved_node: Some(node), ..found })
    }

    /// The state of a node as far as its relief depends on it.
    fn use_of(&self, relief: &Relief, stop: &dyn Fn() -> bool) -> Result<NodeUse, Error> {
        let free_bytes = node_free_bytes(&self.roots, relief.node)?;
        let traffic = match relief.measures_traffic() {
            true => {
                let migration = Migration::without_memory(&self.roots)?;
                let nodes = traffic::measure_nodes(&self.roots, migration.topology(), stop);
                nodes.get(&relief.node).copied()
            }
            false => None,
        };
        Ok(NodeUse { free_bytes, traffic })
    }

    /// The processes of a target: whether they exist, `authority` extends to them, and they have a node to go to. Does
    /// not look at memory.
    ///
    /// # Errors
    /// Target not found, empty, without target node; not permitted; rights are missing.
    pub fn find(
        &self,
        aim: &Aim,
        options: &Options,
        authority: &Authority,
        stop: &dyn Fn() -> bool,
    ) -> Result<FoundTarget, Error> {
        if !aim.files.is_empty() {
            return files::find(self, aim, options, authority, stop);
        }
        let migration = Migration::without_memory(&self.roots)?;
        let topology = migration.topology();
        let members = Members::look(self, aim, topology, authority, stop)?;
        migration.check(options)?;
        let options = &*options.relieving(topology);
        let nodes = homes(topology, members.processes(), options)?;
        let (processes, members) =
            (Arc::new(identities(&members)), members.found(topology, options));
        Ok(FoundTarget { processes, nodes, members, ..FoundTarget::default() })
    }
}

/// The nodes that the memory of `processes` may be brought to.
fn homes<'a>(
    topology: &Topology,
    processes: impl IntoIterator<Item = &'a Process>,
    options: &Options,
) -> Result<NodeSet, Error> {
    let (mut nodes, mut skipped) = (NodeSet::new(), None);
    for process in processes {
        match planner::skip(topology, process, options) {
            None => nodes = nodes.or(&planner::home(topology, process, options)),
            Some(skip) => skipped = skipped.or(Some((process, skip))),
        }
    }
    match skipped.filter(|_| nodes.is_empty()) {
        Some((process, skip)) => Err(Error::NoTargetNode { message: explain(process, skip) }),
        None => Ok(nodes),
    }
}

fn explain(process: &Process, skip: Skip) -> String {
    let (pid, comm, cpus) = (process.identity.pid, &process.comm, &process.cpus);
    let what = match skip {
        Skip::NoTargetNode => "every node with memory is local to it",
        Skip::NoLocalMemory => "none of its CPUs is online",
        Skip::OneNode => "its placement needs several nodes, and its CPUs are on one",
    };
    let skip = skip.message();
    format!(
        "{skip} for process {pid} ({comm}) on CPUs {cpus}: {what}; pin it to the CPUs of some nodes, or name the \
         nodes to bring its memory to"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{process as on, topology};

    fn nodes(processes: &[Process], options: &Options) -> Result<String, String> {
        let homes = homes(&topology(), processes, options);
        homes.map(|nodes| nodes.to_string()).map_err(|refusal| {
            assert!(matches!(refusal, Error::NoTargetNode { .. }), "{refusal:?}");
            refusal.to_string()
        })
    }

    #[test]
    fn one_process_that_can_move_is_enough() {
        let options = Options::default();
        assert_eq!(nodes(&[on(1, "0-7"), on(2, "5")], &options).as_deref(), Ok("1"));
        assert_eq!(nodes(&[on(1, "0"), on(2, "5")], &options).as_deref(), Ok("0-1"));
    }

    #[test]
    fn where_none_can_move_the_first_is_named() {
        let everywhere = nodes(&[on(1, "0-7"), on(2, "3-4")], &Options::default()).unwrap_err();
        let begin = "no target node for process 1 (a) on CPUs 0-7: every node";
        assert!(everywhere.starts_with(begin), "{everywhere}");
        let adrift = nodes(&[on(1, "100")], &Options::default()).unwrap_err();
        assert!(adrift.starts_with("no local node has memory for process 1"), "{adrift}");
    }

    #[test]
    fn named_nodes_count_and_not_those_of_the_cpus() {
        let to = |list: &str| Options { to: list.parse().ok(), ..Options::default() };
        assert_eq!(nodes(&[on(1, "0-7")], &to("1")).as_deref(), Ok("1"));
        assert!(nodes(&[on(1, "0")], &to("0-1")).is_err());
    }
}

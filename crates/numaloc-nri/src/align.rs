//! Memory nodes for new containers that are pinned to CPUs.

use numaloc_core::{CpuSet, NodeId, NodeSet};
use parking_lot::Mutex;
use std::sync::Arc;

/// The machine's nodes that have memory, with their CPUs, once numalocd has reported them. A container that is created
/// before that stays unchanged: creation does not wait for numalocd.
#[derive(Clone, Debug, Default)]
pub struct MachineNodes(Arc<Mutex<Vec<(NodeId, CpuSet)>>>);

impl MachineNodes {
    pub fn set(&self, nodes: Vec<(NodeId, CpuSet)>) {
        *self.0.lock() = nodes;
    }

    /// All of them, as a list.
    pub fn all(&self) -> String {
        let nodes = self.0.lock();
        nodes.iter().map(|(id, _)| *id).collect::<NodeSet>().to_string()
    }

    pub fn with_cpus(&self) -> NodeSet {
        let nodes = self.0.lock();
        nodes.iter().filter(|(_, cpus)| !cpus.is_empty()).map(|(id, _)| *id).collect()
    }

    /// The nodes of a container with these `cpuset.cpus`; `None` if they are not on some of the nodes alone.
    pub fn of(&self, cpus: &str) -> Option<NodeSet> {
        local(cpus, &self.0.lock())
    }

    /// `cpuset.mems` for a container with these `cpuset.cpus`; `None` if it is not to be bound.
    pub fn mems(&self, cpus: &str) -> Option<String> {
        self.of(cpus).map(|nodes| nodes.to_string())
    }
}

/// The nodes of these CPUs. `None` if there are no CPUs, if they are on all nodes that have CPUs, or if a CPU is on
/// none of the nodes with memory: it would be bound to memory that is not its own.
fn local(cpus: &str, nodes: &[(NodeId, CpuSet)]) -> Option<NodeSet> {
    let cpus: CpuSet = cpus.parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())?;
    let covered = nodes.iter().fold(CpuSet::new(), |all, (_, cpus)| all.or(cpus));
    let local: NodeSet =
        nodes.iter().filter(|(_, of)| of.intersects(&cpus)).map(|(id, _)| *id).collect();
    let with_cpus = nodes.iter().filter(|(_, cpus)| !cpus.is_empty()).count();
    (cpus.is_subset(&covered) && local.len() < with_cpus).then_some(local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_bound_to_the_nodes_of_its_cpus() {
        let node = |id, cpus: &str| {
            (
                NodeId(id),
                if cpus.is_empty() { CpuSet::new() } else { cpus.parse().expect("a list") },
            )
        };
        let nodes = [node(0, "0-3"), node(1, "4-7"), node(2, "8-11"), node(3, "")];
        for (cpus, expected) in [
            ("1-2", Some("0")),
            ("4", Some("1")),
            ("3-4", Some("0-1")),
            ("0,8", Some("0,2")),
            ("0-11", None),
            ("0-3,8-11,4", None),
            ("12", None),
            ("3,12", None),
            ("", None),
            ("x", None),
        ] {
            let local = local(cpus, &nodes).map(|nodes| nodes.to_string());
            assert_eq!(local.as_deref(), expected, "{cpus}");
        }
        assert_eq!(local("0", &[]), None);
    }
}

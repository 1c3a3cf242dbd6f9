//! Decides on which CPUs the movers run. Pure, except for [`enter`].

use crate::{Scheduling, affinity};
use numaloc_core::{CpuSet, NodeSet, Topology};

/// CPUs for the movers on which the target's processes (`used`) cannot run: CPUs of the target nodes, or else of other nodes. At
/// least as many CPUs as `movers`. `own`: CPUs on which the caller may run. `None`: there are not enough such CPUs.
pub fn quiet_cpus(
    topology: &Topology,
    targets: &NodeSet,
    used: &CpuSet,
    own: &CpuSet,
    movers: usize,
) -> Option<CpuSet> {
    let near = topology
        .nodes()
        .filter(|node| targets.contains(node.id))
        .fold(CpuSet::new(), |cpus, node| cpus.or(&node.cpus));
    let free = own.minus(used);
    [free.and(&near), free.minus(&near)].into_iter().find(|cpus| cpus.len() >= movers)
}

/// Makes the calling thread a mover: sets its CPUs and scheduling until the thread ends.
pub fn enter(scheduling: Scheduling, cpus: Option<&CpuSet>) {
    cpus.into_iter().for_each(affinity::set);
    let batch = if scheduling.batch { numaloc_sys::sched_batch() } else { Ok(()) };
    let nice = scheduling.nice.map_or(Ok(()), numaloc_sys::set_nice);
    // A failure is only logged: the thread can move pages all the same.
    if let Err(error) = batch.and(nice) {
        tracing::warn!(%error, ?scheduling, "a mover is not scheduled as it should be");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Node, NodeId};

    fn topology() -> Topology {
        let node = |id, cpus: &str| {
            let cpus = cpus.parse().expect("CPUs");
            Node { id: NodeId(id), cpus, memory: Default::default() }
        };
        Topology::new([node(0, "0-3"), node(1, "4-7"), node(2, "")], [])
    }

    fn chosen(targets: &str, used: &str, own: &str, movers: usize) -> Option<String> {
        let [used, own] = [used, own].map(|cpus| cpus.parse().expect("CPUs"));
        let targets = targets.parse().expect("nodes");
        quiet_cpus(&topology(), &targets, &used, &own, movers).map(|cpus| cpus.to_string())
    }

    #[test]
    fn unused_cpus_of_the_target_node_come_first() {
        assert_eq!(chosen("0", "0-1", "0-7", 2).as_deref(), Some("2-3"));
        assert_eq!(chosen("0", "0-2", "0-7", 2).as_deref(), Some("4-7"), "too few there");
        assert_eq!(chosen("0", "0-3", "0-7", 1).as_deref(), Some("4-7"));
        assert_eq!(chosen("0,1", "0-3", "0-7", 1).as_deref(), Some("4-7"));
        assert_eq!(chosen("2", "0-5", "0-7", 1).as_deref(), Some("6-7"));
    }

    #[test]
    fn where_there_are_none_movers_stay() {
        assert_eq!(chosen("0", "0-7", "0-7", 1), None);
        assert_eq!(chosen("0", "0-3", "0-3", 1), None, "the caller may not go elsewhere");
        assert_eq!(chosen("0", "0-6", "0-7", 2), None, "no two on one");
    }
}

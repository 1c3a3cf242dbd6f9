//! Decides on which CPUs the movers run. Pure, except for [`enter`].

use crate::{Scheduling, threads::affinity};
use numaloc_core::{CpuSet, NodeSet, Topology};

/// CPUs for the movers, at least as many as `movers`: of the target nodes if there are enough, or else of other nodes. `free`: CPUs on
/// which the caller may run, and the target's processes may not. CPUs that others have for themselves (`exclusive`) come last.
/// `None`: the host has too few such CPUs.
pub fn quiet_cpus(
    topology: &Topology,
    targets: &NodeSet,
    free: &CpuSet,
    exclusive: &CpuSet,
    movers: usize,
) -> Option<CpuSet> {
    let near = topology
        .nodes()
        .filter(|node| targets.contains(node.id))
        .fold(CpuSet::new(), |cpus, node| cpus.or(&node.cpus));
    let nobodys = free.minus(exclusive);
    let choices = [nobodys.and(&near), nobodys.minus(&near), free.and(&near), free.minus(&near)];
    choices.into_iter().find(|cpus| cpus.len() >= movers)
}

/// Makes the calling thread a mover: sets its CPUs and scheduling until the thread ends.
pub fn enter(scheduling: Scheduling, cpus: Option<&CpuSet>) {
    cpus.into_iter().for_each(affinity::set);
    let batch = if scheduling.batch { numaloc_sys::sched_batch() } else { Ok(()) };
    let nice = scheduling.nice.map_or(Ok(()), numaloc_sys::set_nice);
    // A failure is only logged: the thread can still move pages.
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
        chosen_beside(targets, used, own, "", movers)
    }

    fn chosen_beside(
        targets: &str,
        used: &str,
        own: &str,
        exclusive: &str,
        movers: usize,
    ) -> Option<String> {
        let [used, own, exclusive] =
            [used, own, exclusive].map(|cpus| cpus.parse::<CpuSet>().expect("CPUs"));
        let (targets, free) = (targets.parse().expect("nodes"), own.minus(&used));
        quiet_cpus(&topology(), &targets, &free, &exclusive, movers).map(|cpus| cpus.to_string())
    }

    #[test]
    fn cpus_that_others_have_for_themselves_come_last() {
        let chosen = |exclusive, movers| chosen_beside("0", "0-1", "0-7", exclusive, movers);
        assert_eq!(chosen("2", 1).as_deref(), Some("3"));
        assert_eq!(chosen("2-3,4", 1).as_deref(), Some("5-7"));
        assert_eq!(chosen("2-7", 1).as_deref(), Some("2-3"), "the host has no others");
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

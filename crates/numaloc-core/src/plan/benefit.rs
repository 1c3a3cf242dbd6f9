//! The benefit of moving memory: a range, because nothing here counts how long CPUs wait for memory.
//!
//! The upper bound is calculated as if all of the memory were used alike, if each access waited for it, and if what
//! stays were as near as what moves will be: with a share s that moves,
//! `s * (before - afterwards) / (s * before + (1 - s) * afterwards)`. Accesses that hit caches or overlap make it less, down to nothing. A program that uses what is
//! remote more than the rest gains more.

use crate::{
    machine::{
        ids::{NodeId, NodeSet},
        speeds::LatencySource,
        topology::Topology,
    },
    plan::Plan,
};
use std::collections::BTreeMap;

/// The parts of its work that a user does on the CPUs of each node; all parts together are 1.
pub type Users = BTreeMap<NodeId, f64>;

/// Memory that will be nearer or farther than it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The users of the memory, and the node that it is on.
    pub before: (Users, NodeId),
    /// The users and the node after the move.
    pub after: (Users, NodeId),
    /// Size in bytes.
    pub bytes: u64,
}

/// Latency of the memory that is to move: the mean of all its bytes, in the unit of the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Where the latencies are from.
    pub source: LatencySource,
    /// Where the memory is now.
    pub before: f64,
    /// Latency after the move.
    pub after: f64,
}

/// The expected benefit of a move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Benefit {
    /// Latency of the memory that moves.
    pub waits: Waits,
    /// The least time on memory accesses that is saved, in percent. Without a counter of stalls it is 0.
    pub min_percent: f64,
    /// The most time on memory accesses that is saved if all memory is used alike, in percent.
    pub max_percent: f64,
}

impl Waits {
    /// The waits for memory that changes: by the most exact source that has the latencies of all of it.
    pub fn of(topology: &Topology, changes: &[Change]) -> Option<Self> {
        LatencySource::ALL.into_iter().find_map(|source| by(topology, source, changes))
    }

    /// The benefit if `moved_bytes` of `all_bytes` move; `None` if nothing moves.
    pub fn benefit(self, moved_bytes: u64, all_bytes: u64) -> Option<Benefit> {
        if moved_bytes == 0 || all_bytes == 0 || self.before <= 0.0 {
            return None;
        }
        let share = (moved_bytes as f64 / all_bytes as f64).min(1.0);
        let all = share * self.before + (1.0 - share) * self.after;
        let saved = (share * (self.before - self.after) / all).max(0.0);
        Some(Benefit { waits: self, min_percent: 0.0, max_percent: 100.0 * saved })
    }
}

/// By one source; `None` if it lacks a latency, or nothing changes.
fn by(topology: &Topology, source: LatencySource, changes: &[Change]) -> Option<Waits> {
    let mean = |(users, memory): &(Users, NodeId)| {
        let one = |(&cpus, share)| Some(topology.latency(source, cpus, *memory)? * share);
        users.iter().map(one).sum::<Option<f64>>().filter(|_| !users.is_empty())
    };
    let (mut before, mut after, mut all) = (0.0, 0.0, 0.0);
    for change in changes {
        let bytes = change.bytes as f64;
        before += mean(&change.before)? * bytes;
        after += mean(&change.after)? * bytes;
        all += bytes;
    }
    (all > 0.0).then(|| Waits { source, before: before / all, after: after / all })
}

/// The same work on each of some nodes.
fn even(nodes: &NodeSet) -> Users {
    nodes.iter().map(|node| (node, 1.0 / nodes.len() as f64)).collect()
}

/// The waits for what a plan moves. Memory of several processes counts as that of the first, as in its locality. Each page goes to
/// the first node of its route.
pub(super) fn of_plan(topology: &Topology, plan: &Plan) -> Option<Waits> {
    let mut nodes = BTreeMap::new();
    let mut moved: BTreeMap<(NodeSet, NodeId, NodeId), u64> = BTreeMap::new();
    for planned in &plan.moves {
        let Some(mapping) = planned.mappings.first() else { continue };
        let cpus = |index: &usize| topology.local_nodes(&plan.processes[*index].process.cpus);
        let users = nodes.entry(mapping.process).or_insert_with_key(cpus);
        for (&from, &bytes) in &planned.remote {
            let Some(&to) = plan.routes[planned.routes].from(from).first() else { continue };
            *moved.entry((users.clone(), from, to)).or_default() += bytes;
        }
    }
    let changes: Vec<Change> = moved
        .into_iter()
        .map(|((users, from, to), bytes)| {
            let users = even(&users);
            Change { before: (users.clone(), from), after: (users, to), bytes }
        })
        .collect();
    Waits::of(topology, &changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Speed, Speeds, Topology, machine::speeds::SpeedTable};
    use proptest::prelude::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(8);

    /// Memory that goes from B to A, with its users.
    fn home(users: &str, bytes: u64) -> [Change; 1] {
        let users = even(&users.parse().expect("nodes"));
        [Change { before: (users.clone(), B), after: (users, A), bytes }]
    }

    fn table(latencies: &[(NodeId, NodeId, u64)]) -> SpeedTable {
        let speed = |ns: u64| Speed { latency_ps: Some(1000 * ns), ..Speed::default() };
        latencies.iter().map(|&(cpus, memory, ns)| ((cpus, memory), speed(ns))).collect()
    }

    fn topology(
        measured: &[(NodeId, NodeId, u64)],
        firmware: &[(NodeId, NodeId, u64)],
    ) -> Topology {
        let speeds =
            Speeds { measured: table(measured), firmware: table(firmware), ..Speeds::default() };
        Topology::new([], [((A, B), 21)]).with_speeds(speeds)
    }

    #[test]
    fn the_most_is_what_equal_accesses_to_all_memory_save() {
        let topology = topology(&[(A, A, 100), (A, B, 150)], &[]);
        let waits = Waits::of(&topology, &home("0", 540)).expect("all are known");
        assert_eq!(waits, Waits { source: LatencySource::Bench, before: 150.0, after: 100.0 });
        // A thousand accesses, one to each byte, take 540 * 150 + 460 * 100 ns now, and 1000 * 100 ns afterwards.
        let benefit = waits.benefit(540, 1000).expect("it moves");
        assert_eq!(benefit.min_percent, 0.0);
        let expected = 100.0 * (127_000.0 - 100_000.0) / 127_000.0;
        assert!((benefit.max_percent - expected).abs() < 1e-9, "{benefit:?}");
        assert_eq!((waits.benefit(0, 1000), waits.benefit(1, 0)), (None, None));
    }

    #[test]
    fn the_most_exact_source_that_knows_all_is_taken() {
        let moves = home("0", 1);
        let source = |topology: &Topology| Waits::of(topology, &moves).map(|waits| waits.source);
        let firmware = [(A, A, 80), (A, B, 160)];
        assert_eq!(source(&topology(&[(A, A, 98)], &firmware)), Some(LatencySource::Hmat));
        // The kernel shows the best initiator of a node alone.
        assert_eq!(source(&topology(&[], &firmware[..1])), Some(LatencySource::Distances));
        let waits = Waits::of(&topology(&[], &[]), &moves).expect("distances are always known");
        assert_eq!((waits.before, waits.after), (21.0, 10.0));
        // A latency of nothing is none.
        assert_eq!(
            source(&topology(&[(A, A, 0), (A, B, 143)], &[])),
            Some(LatencySource::Distances)
        );
    }

    #[test]
    fn users_that_run_on_both_nodes_gain_nothing() {
        let waits = Waits::of(&topology(&[], &[]), &home("0,8", 1)).expect("known");
        let far = (10.0 + crate::topology::REMOTE_DISTANCE as f64) / 2.0;
        assert_eq!((waits.before, waits.after), (15.5, far));
        assert_eq!(Waits::of(&topology(&[], &[]), &home("", 1)), None);
        assert_eq!(Waits::of(&topology(&[], &[]), &[]), None);
    }

    proptest! {
        #[test]
        fn it_is_a_range_within_what_moves(moved in 0u64..2000, all in 0u64..2000, local in 1u64..500, remote in 1u64..500) {
            let topology = topology(&[(A, A, local), (A, B, remote)], &[]);
            let waits = Waits::of(&topology, &home("0", 1)).expect("known");
            if let Some(benefit) = waits.benefit(moved, all) {
                prop_assert!(0.0 <= benefit.min_percent && benefit.min_percent <= benefit.max_percent);
                prop_assert!(benefit.max_percent < 100.0);
                prop_assert!(local < remote || benefit.max_percent == 0.0);
            }
        }
    }
}

//! The engine's report of a plan.

use crate::{FoundTarget, Planned, members::Members};
use numaloc_api::value::{PlanSummary, nothing_to_move};
use numaloc_core::{NodeSet, Plan};
use numaloc_executor::identities;
use std::sync::Arc;

impl Planned {
    /// A plan for the members that take part. Processes that share an address space are one process in the plan.
    pub(super) fn new(plan: &Plan, members: &Members) -> Self {
        let targets =
            plan.moves.iter().map(|planned_move| &plan.routes[planned_move.routes].targets);
        let planned_bytes = plan.planned_bytes();
        let found = FoundTarget {
            processes: Arc::new(identities(members)),
            nodes: targets.fold(NodeSet::new(), |nodes, targets| nodes.or(targets)),
            members: members.planned(plan, planned_bytes == 0),
            ..FoundTarget::default()
        };
        Self {
            summary: Arc::new(PlanSummary::from(plan)),
            found,
            planned_bytes,
            local_percent: plan.locality.movable.percent(),
            nothing: nothing_to_move(plan),
            note: None,
            returned: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{MIB, extent, plan, process};
    use numaloc_api::value::JobState;
    use numaloc_core::{NodeResidency, Options, Reason};

    /// A process on `cpus` with memory of its own and shared memory on node 1 and a little on node 0.
    fn planned(cpus: &str, owned_bytes: u64, shared_bytes: u64, options: &Options) -> Planned {
        let processes = vec![process(7, cpus)];
        let here = NodeResidency { owned_bytes: MIB, ..NodeResidency::default() };
        let there = NodeResidency { owned_bytes, shared_bytes, huge_bytes: 0 };
        let plan = plan(&processes, vec![extent(0, [here, there])], options);
        Planned::new(&plan, &Members::of(processes))
    }

    fn nothing(
        cpus: &str,
        owned_bytes: u64,
        shared_bytes: u64,
        target_ratio: u8,
    ) -> Option<String> {
        let nothing = planned(cpus, owned_bytes, shared_bytes, &ratio(target_ratio)).nothing;
        nothing.map(|(state, why)| {
            assert_eq!(state, JobState::Skipped, "{why}");
            why
        })
    }

    fn ratio(target_ratio: u8) -> Options {
        Options { target_ratio, ..Options::default() }
    }

    #[test]
    fn what_is_remote_is_planned() {
        let planned = planned("0-3", 3 * MIB, MIB, &Options::default());
        assert_eq!((planned.planned_bytes, planned.nothing), (3 * MIB, None));
        assert_eq!(planned.local_percent, 25.0);
        assert_eq!(planned.found.nodes.to_string(), "0");
        assert_eq!(planned.found.processes.len(), 1);
    }

    #[test]
    fn a_ratio_bounds_it() {
        assert_eq!(planned("0-3", 3 * MIB, 0, &ratio(50)).planned_bytes, MIB);
    }

    #[test]
    fn nothing_to_do_has_a_reason() {
        assert_eq!(nothing("0-7", 3 * MIB, 0, 100).as_deref(), Some("no target node"));
        assert_eq!(nothing("100", 3 * MIB, 0, 100).as_deref(), Some("no local node has memory"));
        assert_eq!(nothing("0-3", 0, 0, 100).as_deref(), Some("all memory is local"));
        let reached = nothing("0-3", 3 * MIB, MIB, 25).expect("a reason");
        assert_eq!(reached, "what is remote stays: 25% is local already");
        let shared = nothing("0-3", 0, MIB, 100).expect("a reason");
        assert_eq!(
            shared,
            "what is remote stays: 1.0 MiB shared with processes outside the target"
        );
    }

    #[test]
    fn a_plan_that_falls_short_of_everything_is_partial() {
        let mut process = process(7, "0-3");
        process.mems_allowed = "1".parse().expect("a node");
        let local = NodeResidency::default();
        let remote = NodeResidency { owned_bytes: MIB, ..local };
        let plan = plan(
            std::slice::from_ref(&process),
            vec![extent(0, [local, remote])],
            &Options::default(),
        );
        assert_eq!(
            plan.skipped_bytes().into_iter().collect::<Vec<_>>(),
            [(Reason::NotAllowed, MIB)]
        );
        let (state, why) =
            Planned::new(&plan, &Members::of(vec![process])).nothing.expect("no move");
        assert_eq!(state, JobState::Partial);
        assert!(why.starts_with("what is remote stays: 1.0 MiB "), "{why}");
    }
}

//! Target nodes whose memory is used more than the request allows.

use super::*;

fn options(saturated: &str) -> Options {
    Options { saturated: nodes(saturated), ..Options::default() }
}

#[test]
fn pages_stay_whose_only_target_is_saturated_and_count_as_movable() {
    let machine = machine(&[0, 1, 2], &[]);
    let remote = || vec![extent(0, &[(0, MIB), (1, 3 * MIB)])];
    let plan =
        |saturated: &str| plan_of(&machine, process("0", "0-2"), remote(), &options(saturated));
    let stays = plan("0");
    assert_eq!(stays.skipped_bytes(), [(Reason::TargetSaturated, 3 * MIB)].into());
    assert_eq!((stays.expected_bytes, stays.moves.len()), (0, 0));
    assert_eq!(stays.locality, plan("").locality, "it only waits");
    let other = plan("1-2");
    assert_eq!((other.expected_bytes, other.skipped_bytes().len()), (3 * MIB, 0));
}

#[test]
fn memory_goes_to_the_other_home_nodes_and_nearer_ones_that_are_not_saturated() {
    let machine = machine(&[0, 1, 2], &[]);
    let remote = || vec![extent(0, &[(2, 3 * MIB)])];
    // At home on the nodes 0 and 1.
    let plan =
        |saturated: &str| plan_of(&machine, process("0,2", "0-2"), remote(), &options(saturated));
    let flows = |plan: Plan| plan.expected_flows.into_keys().collect::<Vec<_>>();
    assert_eq!(flows(plan("1")), [(NodeId(2), NodeId(0))]);
    assert_eq!(flows(plan("0")), [(NodeId(2), NodeId(1))]);
    assert_eq!(plan("0-1").skipped_bytes(), [(Reason::TargetSaturated, 3 * MIB)].into());
    for routes in plan("1").routes {
        assert!(!routes.targets.contains(NodeId(1)), "{routes:?}");
    }
}

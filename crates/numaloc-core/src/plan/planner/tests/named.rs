//! Placements of single mappings: what no rule names stays.

use super::*;

fn rules(rules: &[&str]) -> Options {
    let maps = rules.iter().map(|rule| rule.parse().expect(rule)).collect();
    Options { maps, ..Options::default() }
}

/// Extents of a process, each named by a rule or none, divided into stripes where the rule has several nodes.
fn named(claims: &Claims, rule: Option<Rule>, start: u64, mib: &[(u32, u64)]) -> Vec<Extent> {
    let resident: Vec<_> = mib.iter().map(|&(node, mib)| (node, mib * MIB)).collect();
    let whole = Extent { rule, ..extent(start, &resident) };
    let Some(cycle) = claims.on(&whole.mappings, &whole.pages, rule).cycle.clone() else {
        return vec![whole];
    };
    let (cycle, parts) = (std::sync::Arc::new(cycle), cycle_nodes(claims, &whole));
    let share = |bytes: u64| bytes / parts.len() as u64;
    let stripe = |&node: &NodeId| Extent {
        stripe: Some(crate::Stripe { cycle: cycle.clone(), origin: Default::default(), node }),
        ..Extent {
            rule,
            ..extent(
                start,
                &resident.iter().map(|&(on, bytes)| (on, share(bytes))).collect::<Vec<_>>(),
            )
        }
    };
    parts.iter().map(stripe).collect()
}

fn cycle_nodes(claims: &Claims, extent: &Extent) -> Vec<NodeId> {
    let claim = claims.on(&extent.mappings, &extent.pages, extent.rule);
    claim.cycle.iter().flat_map(|cycle| cycle.nodes().iter().collect::<Vec<_>>()).collect()
}

#[test]
fn one_mapping_is_spread_one_comes_home_and_the_rest_stays() {
    let options = rules(&["buffers=interleave:0,2", "heap=home"]);
    let extents = |claims: &Claims| {
        let mut all = named(claims, Some(Rule::Request(0)), 0, &[(2, 8)]);
        all.extend(named(claims, Some(Rule::Request(1)), 1 << 32, &[(0, 1), (1, 3)]));
        all.extend(named(claims, None, 1 << 33, &[(0, 16), (1, 16), (2, 16)]));
        all
    };
    let machine = machine(&[0, 1, 2], &[]);
    let plan = plan_all(&machine, &[process("0", "0-2")], extents, &options);
    let flow = |from, to, mib: u64| ((NodeId(from), NodeId(to)), mib * MIB);
    assert_eq!(plan.expected_flows, [flow(2, 0, 4), flow(1, 0, 3)].into());
    assert!(plan.moves.iter().all(|planned| planned.rule.is_some()), "{:#?}", plan.moves);
    assert_eq!(plan.skipped, [], "memory that was not asked for has no reason to stay");
    let on = |node, mib: u64| (NodeId(node), mib * MIB);
    let expected = [
        NamedMemory { resident: [on(2, 8)].into(), bytes_to_move: 4 * MIB },
        NamedMemory { resident: [on(0, 1), on(1, 3)].into(), bytes_to_move: 3 * MIB },
    ];
    assert_eq!(plan.named, expected);
    // The ratio is the share of local bytes in the named memory.
    assert_eq!(
        plan.locality.movable,
        Share { local_bytes: 5 * MIB, remote_bytes: 7 * MIB, ..Share::default() }
    );
    assert_eq!(
        plan.locality.overall,
        Share { local_bytes: 53 * MIB, remote_bytes: 7 * MIB, ..Share::default() }
    );
    assert_eq!((&plan.processes[0].home, plan.processes[0].skip), (&nodes("0,2"), None));
}

/// Two cells of a guest that runs on both nodes: each has its memory on one of them.
#[test]
fn mappings_are_brought_to_a_node_each() {
    let options = rules(&["cell0=home:0", "cell1=home:1"]);
    let machine = machine(&[0, 1], &[]);
    let extents = |claims: &Claims| {
        let mut all = named(claims, Some(Rule::Request(0)), 0, &[(0, 1), (1, 8)]);
        all.extend(named(claims, Some(Rule::Request(1)), 1 << 32, &[(0, 4), (1, 4)]));
        all.extend(named(claims, None, 1 << 33, &[(0, 16), (1, 16)]));
        all
    };
    let plan = plan_all(&machine, &[process("0-3", "0-1")], extents, &options);
    let flow = |from, to, mib: u64| ((NodeId(from), NodeId(to)), mib * MIB);
    assert_eq!(plan.expected_flows, [flow(0, 1, 4), flow(1, 0, 8)].into());
    assert_eq!(options.named_nodes(), Some(nodes("0-1")));
    assert!(!options.is_wide());
    let gone = plan_all(&machine, &[process("0-3", "0")], extents, &options);
    assert_eq!(gone.expected_flows, [flow(1, 0, 8)].into(), "its cpuset has node 0 alone");
}

#[test]
fn a_process_is_skipped_if_no_rule_can_move_anything() {
    let machine = machine(&[0, 1], &[]);
    let skip = |cpus: &str, list: &[&str]| skip(&machine, &process(cpus, "0-1"), &rules(list));
    assert_eq!(skip("0", &["a=interleave"]), Some(Skip::OneNode));
    assert_eq!(skip("0", &["a=interleave", "b=home"]), None);
    assert_eq!(skip("0", &["a=interleave:0-1"]), None);
    assert_eq!(skip("0-3", &["a=home"]), Some(Skip::NoTargetNode));
    assert_eq!(skip("0-3", &["a=home", "b=interleave"]), None);
    // Memory that the one rule cannot move stays, although the other one can.
    let extents = |claims: &Claims| {
        let mut all = named(claims, Some(Rule::Request(0)), 0, &[(0, 4), (1, 4)]);
        all.extend(named(claims, Some(Rule::Request(1)), 1 << 32, &[(1, 2)]));
        all
    };
    let options = rules(&["a=interleave", "b=home"]);
    let plan = plan_all(&machine, &[process("0", "0-1")], extents, &options);
    assert_eq!(plan.expected_flows, [((NodeId(1), NodeId(0)), 2 * MIB)].into());
}

#[test]
fn nodes_that_rules_name_are_named_by_the_request() {
    let named = |list: &[&str]| rules(list).named_nodes().map(|nodes| nodes.to_string());
    assert_eq!(named(&["a=home", "b=interleave"]), None);
    assert_eq!(named(&["a=interleave:0,3", "b=weighted:1=1,3=2"]).as_deref(), Some("0-1,3"));
    let bare = machine(&[0, 1, 2], &[2]);
    assert_eq!(rules(&["a=home"]).sources(&bare), nodes("0-1"));
    assert_eq!(rules(&["a=interleave:0,2"]).sources(&bare), nodes("0-2"));
    assert!(!rules(&["a=home"]).is_wide() && rules(&["a=home", "b=interleave"]).is_wide());
}

proptest! {
    /// Whatever is resident where: what no rule names is in no move, and each named byte is counted once.
    #[test]
    fn only_named_memory_moves(
        all in proptest::collection::vec((0usize..3, [0u64..9, 0u64..9, 0u64..9]), 0..12),
        cpus in prop_oneof![Just("0"), Just("0-3"), Just("0-5")],
    ) {
        let options = rules(&["a=interleave:0,2", "b=home"]);
        let rule = |number: usize| (number < 2).then_some(Rule::Request(number));
        let extents = |claims: &Claims| {
            let each = all.iter().enumerate().flat_map(|(index, (number, mib))| {
                let mib = [(0, mib[0] * 6), (1, mib[1] * 6), (2, mib[2] * 6)];
                named(claims, rule(*number), (index as u64) << 32, &mib)
            });
            each.collect()
        };
        let plan = plan_all(&machine(&[0, 1, 2], &[]), &[process(cpus, "0-2")], extents, &options);
        for planned in &plan.moves {
            let (number, _) = all[(planned.mappings[0].start >> 32) as usize];
            prop_assert_eq!(planned.rule, rule(number));
        }
        for (number, named) in plan.named.iter().enumerate() {
            let mine = all.iter().filter(|(rule, _)| *rule == number);
            let resident: u64 = mine.flat_map(|(_, mib)| mib).map(|mib| mib * 6 * MIB).sum();
            prop_assert_eq!(named.resident.values().sum::<u64>(), resident);
            let moves = plan.moves.iter().filter(|planned| planned.rule == rule(number));
            let bytes: u64 = moves.map(Move::remote_bytes).sum();
            prop_assert_eq!(named.bytes_to_move, bytes);
        }
    }
}

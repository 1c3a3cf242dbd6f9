//! Every field of a request, by the descriptor, with what ceilings answer.

use super::*;
use crate::{
    described::dynamic,
    v1::{self, policy::Placement},
};
use prost::Name;
use std::collections::BTreeSet;

/// Ceilings that allow nothing but what is harmless.
fn none() -> Ceilings {
    Ceilings {
        qos_class: QosClass::Be,
        profile: Profile::Gentle,
        include_shared: false,
        include_network: false,
        include_bound: false,
        include_gigantic: false,
        named_nodes: false,
        reserve_bytes: false,
        fresh_hugetlb: false,
        move_cache: false,
        exchange: false,
        pause_numa_balancing: false,
        offload: false,
        workers: 1,
        rate_bytes_per_second: Some(4096),
        timeout: Some(Duration::from_secs(1)),
    }
}

fn all() -> Ceilings {
    Ceilings {
        qos_class: QosClass::Lsr,
        profile: Profile::Fast,
        include_shared: true,
        include_network: true,
        include_bound: true,
        include_gigantic: true,
        named_nodes: true,
        reserve_bytes: true,
        fresh_hugetlb: true,
        move_cache: true,
        exchange: true,
        pause_numa_balancing: true,
        offload: true,
        workers: 256,
        rate_bytes_per_second: None,
        timeout: None,
    }
}

/// The answer of ceilings to a field with a value.
enum Answer {
    /// The request exceeds this ceiling.
    Takes(Excess),
    /// It needs none, because of this.
    Harmless(&'static str),
}
use Answer::{Harmless, Takes};

/// Each field of the policy once or more, with values of which others on the host could feel something.
fn policies() -> Vec<(v1::Policy, Answer)> {
    let none = v1::Policy::default;
    let placed = |placement| v1::Policy { placement: Some(placement), ..none() };
    let weights: Vec<_> = [0, 1].map(|node_id| v1::NodeWeight { node_id, weight: 1 }).into();
    let own = "it spreads the request's own memory over nodes that the process may use anyway";
    let maps = |placement| {
        let rule = v1::MapRule { pattern: "[heap]".to_owned(), placement: Some(placement) };
        v1::Policy { maps: vec![rule], ..none() }
    };
    let stall = prost_types::Duration { seconds: 0, nanos: 50_000_000 };
    let nodes = || v1::NodesPlacement { node_ids: vec![0, 1] };
    let relief = v1::Relief { node_id: 1, free_below_bytes: 1, ..Default::default() };
    vec![
        (placed(Placement::Local(v1::LocalPlacement {})), Harmless("home is what the kernel does")),
        (placed(Placement::Nodes(nodes())), Takes(Excess::NodesTo)),
        (placed(Placement::Interleave(v1::InterleavePlacement::default())), Harmless(own)),
        (
            placed(Placement::Interleave(v1::InterleavePlacement { node_ids: vec![0, 1] })),
            Takes(Excess::NodesTo),
        ),
        (
            placed(Placement::Weighted(v1::WeightedPlacement { weights: weights.clone() })),
            Takes(Excess::NodesTo),
        ),
        (placed(Placement::Balance(v1::BalancePlacement::default())), Harmless(own)),
        (placed(Placement::Balance(v1::BalancePlacement { weights })), Takes(Excess::NodesTo)),
        (placed(Placement::Block(v1::BlockPlacement::default())), Harmless(own)),
        (
            placed(Placement::Block(v1::BlockPlacement { node_ids: vec![0, 1] })),
            Takes(Excess::NodesTo),
        ),
        (placed(Placement::Bandwidth(v1::BandwidthPlacement::default())), Harmless(own)),
        (
            placed(Placement::Bandwidth(v1::BandwidthPlacement { node_ids: vec![0, 1] })),
            Takes(Excess::NodesTo),
        ),
        (placed(Placement::Tiers(v1::TiersPlacement::default())), Takes(Excess::NodesTo)),
        (maps(v1::map_rule::Placement::Nodes(nodes())), Takes(Excess::NodesTo)),
        (maps(v1::map_rule::Placement::Block(v1::BlockPlacement::default())), Harmless(own)),
        (v1::Policy { include_shared: true, ..none() }, Takes(Excess::IncludeShared)),
        (v1::Policy { exclude_file: true, ..none() }, Harmless("less is moved")),
        (v1::Policy { include_network: true, ..none() }, Takes(Excess::IncludeNetwork)),
        (v1::Policy { include_bound: true, ..none() }, Takes(Excess::IncludeBound)),
        (v1::Policy { target_ratio_percent: Some(50), ..none() }, Harmless("less is moved")),
        (v1::Policy { reserve_bytes: Some(0), ..none() }, Takes(Excess::ReserveBytes)),
        (v1::Policy { qos_class: v1::QosClass::Lsr.into(), ..none() }, Takes(Excess::QosClass)),
        (
            v1::Policy { on_interrupt: v1::InterruptAction::Resume.into(), ..none() },
            Harmless("the same run, later"),
        ),
        (v1::Policy { profile: v1::Profile::Fast.into(), ..none() }, Takes(Excess::Profile)),
        (v1::Policy { max_stall: Some(stall), ..none() }, Takes(Excess::MaxStall)),
        (v1::Policy { include_gigantic: true, ..none() }, Takes(Excess::IncludeGigantic)),
        (
            v1::Policy { node_cpu_percent_max: Some(100), ..none() },
            Harmless("every profile allows all CPUs of a node"),
        ),
        (
            v1::Policy { node_bandwidth_max_bytes_per_second: Some(1 << 40), ..none() },
            Harmless("less is moved"),
        ),
        (
            v1::Policy { numa_balancing: v1::NumaBalancingAction::Pause.into(), ..none() },
            Takes(Excess::PauseNumaBalancing),
        ),
        (
            v1::Policy { order: v1::MoveOrder::Damon.into(), ..none() },
            Harmless("its own memory in another order"),
        ),
        (
            v1::Policy { hugetlb_source: v1::HugetlbSource::Fresh.into(), ..none() },
            Takes(Excess::FreshHugetlb),
        ),
        (v1::Policy { from_node_ids: vec![1], ..none() }, Takes(Excess::NodesFrom)),
        (
            v1::Policy { home_rule: v1::HomeRule::Near.into(), ..none() },
            Harmless("nodes of CPUs that the process may use, or near to them"),
        ),
        (
            v1::Policy { near_distance: Some(20), ..none() },
            Harmless("it counts, and moves nothing"),
        ),
        (v1::Policy { pool_reserve_percent: Some(10), ..none() }, Harmless("more stays free")),
        (v1::Policy { relief: Some(relief), ..none() }, Takes(Excess::NodesTo)),
        (v1::Policy { emit: v1::Emit::OnChange.into(), ..none() }, Harmless("fewer events")),
        (
            v1::Policy { make_room: v1::MakeRoom::Cache.into(), ..none() },
            Harmless("what the kernel drops first"),
        ),
        (
            v1::Policy { make_room: v1::MakeRoom::Exchange.into(), ..none() },
            Takes(Excess::Exchange),
        ),
        (
            v1::Policy { make_room: v1::MakeRoom::MoveCache.into(), ..none() },
            Takes(Excess::MoveCache),
        ),
        (v1::Policy { compact: v1::Compact::Always.into(), ..none() }, Takes(Excess::Compact)),
        (v1::Policy { offload: v1::Offload::Require.into(), ..none() }, Takes(Excess::Offload)),
        (v1::Policy { tenant: "a".to_owned(), ..none() }, Harmless("it divides its owner's share")),
    ]
}

fn limits() -> Vec<(v1::Limits, Answer)> {
    let none = v1::Limits::default;
    let day = prost_types::Duration { seconds: 86_400, nanos: 0 };
    vec![
        (v1::Limits { batch_bytes: Some(1 << 30), ..none() }, Takes(Excess::BatchBytes)),
        (v1::Limits { workers: Some(2), ..none() }, Takes(Excess::Workers)),
        (v1::Limits { timeout: Some(day), ..none() }, Takes(Excess::Timeout)),
        (v1::Limits { rate_bytes_per_second: Some(8192), ..none() }, Takes(Excess::Rate)),
        (v1::Limits { hourly_budget_bytes: Some(8192), ..none() }, Harmless("it moves less")),
    ]
}

/// The fields of a message that are set.
fn set<M: prost::Message + Name>(message: &M) -> BTreeSet<String> {
    dynamic(message).fields().map(|(field, _)| field.name().to_owned()).collect()
}

/// The fields that a message may have.
fn fields<M: prost::Message + Name>() -> BTreeSet<String> {
    let descriptor = crate::described::descriptor::<M>().expect("it is defined");
    descriptor.fields().map(|field| field.name().to_owned()).collect()
}

/// A field that is new fails here: add it to the table with a value, and what ceilings answer to it, or why it needs none.
#[test]
fn ceilings_answer_each_field_of_a_request() {
    let (policies, limits) = (policies(), limits());
    let answered: BTreeSet<_> = policies.iter().flat_map(|(policy, _)| set(policy)).collect();
    assert_eq!(answered, fields::<v1::Policy>());
    let answered: BTreeSet<_> = limits.iter().flat_map(|(limits, _)| set(limits)).collect();
    assert_eq!(answered, fields::<v1::Limits>());
    let policies =
        policies.into_iter().map(|(policy, answer)| (policy, Default::default(), answer));
    let limits = limits.into_iter().map(|(limits, answer)| (Default::default(), limits, answer));
    let mut asked = BTreeSet::new();
    for (policy, limits, answer) in policies.chain(limits) {
        let named: Vec<_> = set(&policy).into_iter().chain(set(&limits)).collect();
        let spec = v1::MigrationSpec {
            target: Some(v1::Target { pids: vec![1], ..Default::default() }),
            policy: Some(policy),
            limits: Some(limits),
        };
        let request = v1::PlanMigrationRequest { spec: Some(spec) };
        let spec = crate::value::MigrationSpec::try_from(request).expect("valid");
        let expected = match answer {
            Takes(excess) => vec![excess],
            Harmless(why) => {
                assert!(!why.is_empty());
                Vec::new()
            }
        };
        // A request for a gentle pace, unless the pace is what is asked for.
        let mut gentle = spec.policy.clone();
        if expected != [Excess::Profile] {
            gentle.options.pacing.profile = Profile::Gentle;
        }
        assert_eq!(none().excesses(&gentle, &spec.limits, false), expected, "{named:?}");
        assert_eq!(all().excesses(&spec.policy, &spec.limits, false), [], "{named:?}");
        asked.extend(expected);
    }
    let ceilings = Ceilings { profile: Profile::Fast, ..none() };
    let excesses = ceilings.excesses(&Policy::default(), &Limits::default(), true);
    assert_eq!(excesses, [Excess::Cache]);
    asked.insert(Excess::Cache);
    assert_eq!(asked.len(), Excess::Timeout as usize + 1, "each excess has a request: {asked:?}");
}

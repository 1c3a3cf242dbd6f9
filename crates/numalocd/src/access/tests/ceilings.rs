//! Every field that a ceiling bounds, requested by every kind of caller.

use super::{config, grant};
use crate::{
    access::{Grants, Peer},
    config::{Ceilings, Config, Grant, Grantee, Role},
    refusal::Refusal,
};
use numaloc_api::value::{self, Limits, MigrationSpec, Policy, QosClass};
use numaloc_core::{Compact, HugetlbSource, NumaBalancing, Offload, Options, Pacing, Profile};
use std::time::Duration;

/// Requests that each exceed one default ceiling, with the ceiling's name.
pub(super) fn asks() -> Vec<(&'static str, MigrationSpec)> {
    let policy = |policy| MigrationSpec { policy, ..MigrationSpec::default() };
    let options = |options| policy(Policy { options, ..Policy::default() });
    let pacing = |pacing| options(Options { pacing, ..Options::default() });
    let limits = |limits| MigrationSpec { limits, ..MigrationSpec::default() };
    let default = Pacing::default;
    let max_stall = Some(Duration::from_millis(50));
    vec![
        ("profile", pacing(Pacing { profile: Profile::Fast, ..default() })),
        ("profile", pacing(Pacing { max_stall, ..default() })),
        ("profile", limits(Limits { batch_bytes: Some(1 << 30), ..Limits::default() })),
        ("qos_class", policy(Policy { qos_class: Some(QosClass::Lsr), ..Policy::default() })),
        ("include_shared", options(Options { include_shared: true, ..Options::default() })),
        ("include_network", options(Options { include_network: true, ..Options::default() })),
        ("include_bound", options(Options { include_bound: true, ..Options::default() })),
        ("include_gigantic", options(Options { include_gigantic: true, ..Options::default() })),
        ("fresh_hugetlb", options(Options { hugetlb: HugetlbSource::Fresh, ..Options::default() })),
        ("reserve_bytes", options(Options { reserve_bytes: Some(0), ..Options::default() })),
        ("named_nodes", options(Options { to: "0".parse().ok(), ..Options::default() })),
        ("named_nodes", options(Options { from: "0".parse().ok(), ..Options::default() })),
        (
            "pause_numa_balancing",
            policy(Policy { numa_balancing: NumaBalancing::Pause, ..Policy::default() }),
        ),
        ("offload", policy(Policy { offload: Offload::Require, ..Policy::default() })),
        ("workers", limits(Limits { workers: Some(2), ..Limits::default() })),
    ]
}

/// `asks`, which the table of all calls uses too, has a request for each ceiling.
#[test]
fn no_ceiling_is_left_out() {
    // A new ceiling fails to compile here. If so, let `asks` ask for it.
    let Ceilings {
        profile: _,
        qos_class: _,
        include_shared: _,
        include_network: _,
        include_bound: _,
        include_gigantic: _,
        named_nodes: _,
        fresh_hugetlb: _,
        reserve_bytes: _,
        rate_bytes_per_second: _,
        workers: _,
        pause_numa_balancing: _,
        offload: _,
    } = Ceilings::default();
    let asked: std::collections::BTreeSet<_> = asks().into_iter().map(|(name, _)| name).collect();
    // The default ceilings do not bound the rate. Another test grants a bound and asks for more.
    assert_eq!(asked.len(), 13 - 1);
}

/// It has no home, so that each request for it says where it goes, also one that spreads it over all nodes.
#[test]
fn page_cache_takes_the_ceiling_for_named_nodes() {
    let files = ["/a".to_owned()].into();
    let target = value::Target { files, ..value::Target::default() };
    let spec = MigrationSpec { target, ..MigrationSpec::default() };
    assert_eq!(exceeded(&Ceilings::default(), &spec), Some("named_nodes"));
    let granted = Ceilings { named_nodes: true, ..Ceilings::default() };
    assert_eq!(exceeded(&granted, &spec), None);
}

/// The ceiling that a request exceeds.
fn exceeded(ceilings: &Ceilings, spec: &MigrationSpec) -> Option<&'static str> {
    match ceilings.check(spec) {
        Ok(()) => None,
        Err(Refusal::Ceiling { ceiling, most }) => {
            assert!(!most.is_empty());
            Some(ceiling)
        }
        Err(refusal) => panic!("{refusal:?}"),
    }
}

#[test]
fn an_operator_gets_no_more_than_is_safe_unless_it_is_granted() {
    let safe = Ceilings::default();
    assert_eq!(exceeded(&safe, &MigrationSpec::default()), None);
    // A bound for the use of a node's CPUs makes no job faster than one without a bound.
    let pacing = Pacing { node_cpu_percent_max: Some(100), ..Pacing::default() };
    let policy = Policy { options: Options { pacing, ..Options::default() }, ..Policy::default() };
    assert_eq!(exceeded(&safe, &MigrationSpec { policy, ..MigrationSpec::default() }), None);
    for (ceiling, spec) in asks() {
        assert_eq!(exceeded(&safe, &spec), Some(ceiling), "{spec:?}");
        assert_eq!(exceeded(&Ceilings::NONE, &spec), None, "{spec:?}");
        let raised = match ceiling {
            "profile" => Ceilings { profile: Profile::Fast, ..safe },
            "qos_class" => Ceilings { qos_class: QosClass::Lsr, ..safe },
            "include_shared" => Ceilings { include_shared: true, ..safe },
            "include_network" => Ceilings { include_network: true, ..safe },
            "include_bound" => Ceilings { include_bound: true, ..safe },
            "include_gigantic" => Ceilings { include_gigantic: true, ..safe },
            "fresh_hugetlb" => Ceilings { fresh_hugetlb: true, ..safe },
            "reserve_bytes" => Ceilings { reserve_bytes: true, ..safe },
            "named_nodes" => Ceilings { named_nodes: true, ..safe },
            "pause_numa_balancing" => Ceilings { pause_numa_balancing: true, ..safe },
            "offload" => Ceilings { offload: true, ..safe },
            "workers" => Ceilings { workers: 2, ..safe },
            other => panic!("{other}"),
        };
        // Only what was granted is allowed.
        for (other, spec) in asks() {
            let expected = Some(other).filter(|other| *other != ceiling);
            assert_eq!(exceeded(&raised, &spec), expected, "{ceiling}: {spec:?}");
        }
    }
}

#[test]
fn lower_ceilings_hold_too() {
    let low = Ceilings {
        profile: Profile::Gentle,
        qos_class: QosClass::Be,
        rate_bytes_per_second: Some(1 << 20),
        ..Ceilings::default()
    };
    let gentle = Options {
        pacing: Pacing { profile: Profile::Gentle, ..Pacing::default() },
        ..Options::default()
    };
    let policy = Policy { options: gentle, ..Policy::default() };
    let rate = |rate| Limits { rate_bytes_per_second: rate, ..Limits::default() };
    let spec = |limits| MigrationSpec { policy: policy.clone(), limits, ..Default::default() };
    assert_eq!(exceeded(&low, &MigrationSpec::default()), Some("profile"));
    assert_eq!(exceeded(&low, &spec(rate(None))), None);
    assert_eq!(exceeded(&low, &spec(rate(Some(1 << 20)))), None);
    assert_eq!(exceeded(&low, &spec(rate(Some(1 + (1 << 20))))), Some("rate_bytes_per_second"));
    assert!(low.check_class(QosClass::Ls).is_err() && low.check_class(QosClass::Be).is_ok());
    // A limit that the request does not name is the default, bounded by the ceiling.
    let bound = |asked, default| low.bound(&spec(asked), &default);
    assert_eq!(bound(rate(None), rate(None)), rate(Some(1 << 20)));
    assert_eq!(bound(rate(None), rate(Some(1 << 30))), rate(Some(1 << 20)));
    assert_eq!(bound(rate(Some(4096)), rate(None)), rate(Some(4096)));
    let workers = |workers| Limits { workers: Some(workers), ..rate(Some(1 << 20)) };
    assert_eq!(bound(rate(None), Limits { workers: Some(9), ..Limits::default() }), workers(1));
    // A profile has its own number of workers.
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    let options = Options { pacing, ..Options::default() };
    let policy = Policy { options, ..Policy::default() };
    let fast = MigrationSpec { policy, ..MigrationSpec::default() };
    assert_eq!(low.bound(&fast, &Limits::default()), workers(1));
    assert_eq!(Ceilings::NONE.bound(&fast, &Limits::default()), Limits::default());
}

#[test]
fn a_caller_has_the_ceilings_of_its_grant() {
    let ceilings = Ceilings { workers: 7, ..Ceilings::default() };
    let operator = Grant { ceilings, ..grant(Grantee::Uid(1), Role::Operator) };
    let config: std::sync::Arc<Config> = config(vec![
        operator,
        grant(Grantee::Uid(2), Role::Admin),
        grant(Grantee::Uid(3), Role::Viewer),
    ]);
    let of = |uid| {
        let peer = Peer::User { uid, groups: Vec::new() };
        Grants::new(&config.grants).caller(&peer).expect("it has a grant").ceilings
    };
    assert_eq!(of(0), Ceilings::NONE);
    assert_eq!(of(1), ceilings);
    assert_eq!(of(2), Ceilings::NONE);
    assert_eq!(of(3), Ceilings::default());
}

#[test]
fn nodes_are_compacted_only_if_the_fastest_allowed_profile_does() {
    let pacing = Pacing { profile: Profile::Gentle, ..Pacing::default() };
    let options = Options { compact: Compact::Always, pacing, ..Options::default() };
    let policy = Policy { options, ..Policy::default() };
    let spec = MigrationSpec { policy, ..MigrationSpec::default() };
    let gentle = Ceilings { profile: Profile::Gentle, ..Ceilings::default() };
    assert_eq!(exceeded(&gentle, &spec), Some("profile"));
    assert_eq!(exceeded(&Ceilings::default(), &spec), None);
}

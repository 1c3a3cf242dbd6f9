//! The bounds of jobs' runs.

use crate::{
    config::Config,
    dispatch::limits::{limits, pacing},
};
use numaloc_api::value::{self, MigrationSpec, Policy, QosClass};
use numaloc_core::{Options, Pacing, Profile};
use numaloc_executor::{RunLimits, Scheduling, SharedRate};
use proptest::prelude::*;
use std::{sync::Arc, time::Duration};

fn spec(qos_class: Option<QosClass>, rate_bytes_per_second: Option<u64>) -> MigrationSpec {
    let limits = value::Limits { rate_bytes_per_second, ..value::Limits::default() };
    let policy = Policy { qos_class, ..Policy::default() };
    MigrationSpec { limits, policy, ..MigrationSpec::default() }
}

fn config(queue: Option<u64>, each: Option<u64>) -> Config {
    let mut config = Config::default();
    config.queue.rate_bytes_per_second = queue;
    config.limits.rate_bytes_per_second = each;
    config
}

#[test]
fn what_is_not_given_is_the_configurations_and_then_the_executors() {
    assert_eq!(limits(&MigrationSpec::default(), &Config::default(), None), RunLimits::default());
    let default = value::Limits {
        batch_bytes: Some(4096),
        workers: Some(7),
        timeout: Some(Duration::from_secs(9)),
        rate_bytes_per_second: Some(8192),
        hourly_budget_bytes: None,
    };
    let mover = Scheduling { batch: false, nice: Some(5) };
    let config = Config { limits: default, mover, ..Config::default() };
    let own = value::Limits { workers: Some(3), ..value::Limits::default() };
    let shared = Some(Arc::new(SharedRate::new(1)));
    let spec = MigrationSpec { limits: own, ..MigrationSpec::default() };
    let expected = RunLimits {
        batch_bytes: Some(4096),
        timeout: Some(Duration::from_secs(9)),
        rate_bytes_per_second: Some(8192),
        shared_rate: shared.clone(),
        scheduling: mover,
        ..RunLimits::default()
    };
    assert_eq!(limits(&spec, &config, shared), expected);
    assert_eq!(pacing(&spec, &config).workers, Some(3));
    assert_eq!(pacing(&MigrationSpec::default(), &config).workers, Some(7));
}

#[test]
fn best_effort_without_a_rate_works_half_of_its_time() {
    for (profile, half) in [(Profile::Gentle, 5), (Profile::Balanced, 21), (Profile::Fast, 50)] {
        let mut spec = spec(Some(QosClass::Be), None);
        let pacing = Pacing { profile, ..Pacing::default() };
        spec.policy.options = Options { pacing, ..Options::default() };
        assert_eq!(limits(&spec, &Config::default(), None).duty_percent, Some(half));
    }
}

proptest! {
    #[test]
    fn best_effort_has_at_most_half_of_each_rate(
        own in prop::option::of(1..u64::MAX),
        each in prop::option::of(1..u64::MAX),
        all in prop::option::of(1..u64::MAX),
    ) {
        let config = config(all, each);
        let of = |class| limits(&spec(class, own), &config, None);
        let (be, ls) = (of(Some(QosClass::Be)), of(Some(QosClass::Ls)));
        prop_assert_eq!(&of(None), &ls, "a job without a class is latency-sensitive");
        prop_assert_eq!((ls.rate_bytes_per_second, ls.duty_percent), (own.or(each), None));
        let bounds: Vec<u64> = own.or(each).into_iter().chain(all).collect();
        // Half of either the bandwidth or the time, not of both.
        prop_assert_eq!(be.rate_bytes_per_second.is_some(), !bounds.is_empty());
        prop_assert_eq!(be.duty_percent.is_some(), bounds.is_empty());
        if let Some(rate) = be.rate_bytes_per_second {
            prop_assert!(rate > 0 && bounds.iter().all(|&bound| rate <= (bound / 2).max(1)));
            prop_assert!(bounds.iter().any(|&bound| rate == (bound / 2).max(1)));
        }
    }
}

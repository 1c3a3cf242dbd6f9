//! A policy from the API and to it: a new field has its line in each of the two functions here.

use super::{
    check::{duration, number, token},
    names::{self, int, named},
    placement::{self, node_ids, node_set},
    relief,
};
use crate::{
    Problem, Violations, v1,
    value::{Policy, TOKEN_MAX},
};
use numaloc_core::{NEAR, NEAR_BOUNDS, NodeSet, Options, Pacing, Placement, SMALLEST_PAGE};
use std::time::Duration;

/// Bounds of `max_stall`. In less time not even one small page is moved. More time bounds nothing in practice.
pub const STALL_MIN: Duration = Duration::from_micros(100);
/// Longest stall that a request may allow for one call.
pub const STALL_MAX: Duration = Duration::from_secs(60);

/// Reads a policy. None means the default.
pub fn policy(field: &str, from: Option<v1::Policy>, bad: &mut Violations) -> Policy {
    let from = from.unwrap_or_default();
    let at = |name: &str| format!("{field}.{name}");
    let ratio = percent(&at("target_ratio_percent"), from.target_ratio_percent, 0, bad);
    let reserve = 0..=i64::MAX.unsigned_abs();
    let pool_reserve = percent(&at("pool_reserve_percent"), from.pool_reserve_percent, 0, bad);
    let (to, placement) = placement::read(field, from.placement, bad);
    let maps = placement::read_maps(&at("maps"), from.maps, bad);
    if !maps.is_empty() && (to.is_some() || placement != Placement::Home) {
        bad.push(
            at("maps"),
            Problem::Excludes { other: "nodes, interleave, weighted, balance, block or tiers" },
        );
    }
    let options = Options {
        include_shared: from.include_shared,
        exclude_file: from.exclude_file,
        include_network: from.include_network,
        include_bound: from.include_bound,
        include_gigantic: from.include_gigantic,
        make_room: named(&at("make_room"), from.make_room, bad).unwrap_or_default(),
        compact: named(&at("compact"), from.compact, bad).unwrap_or_default(),
        hugetlb: named(&at("hugetlb_source"), from.hugetlb_source, bad).unwrap_or_default(),
        pacing: Pacing {
            profile: named(&at("profile"), from.profile, bad).unwrap_or_default(),
            max_stall: duration(&at("max_stall"), from.max_stall, STALL_MIN..=STALL_MAX, bad),
            node_cpu_percent_max: percent(
                &at("node_cpu_percent_max"),
                from.node_cpu_percent_max,
                1,
                bad,
            ),
            ..Pacing::default()
        },
        order: named(&at("order"), from.order, bad).unwrap_or_default(),
        target_ratio: ratio.unwrap_or(100),
        to,
        placement,
        maps,
        from: match from.from_node_ids.is_empty() {
            true => None,
            false => Some(node_set(&at("from_node_ids"), &from.from_node_ids, bad)),
        },
        home: named(&at("home_rule"), from.home_rule, bad).unwrap_or_default(),
        near_distance: number(
            &at("near_distance"),
            from.near_distance.map(i64::from),
            NEAR_BOUNDS,
            bad,
        )
        .unwrap_or(NEAR),
        reserve_bytes: number(&at("reserve_bytes"), from.reserve_bytes, reserve, bad),
        pool_reserve_percent: pool_reserve.unwrap_or_default(),
        node_bandwidth_max_bytes_per_second: number(
            &at("node_bandwidth_max_bytes_per_second"),
            from.node_bandwidth_max_bytes_per_second,
            SMALLEST_PAGE..=i64::MAX.unsigned_abs(),
            bad,
        ),
        saturated: NodeSet::new(),
        relief: relief::read(&at("relief"), from.relief, bad),
    };
    relief::check(field, &options, bad);
    Policy {
        options,
        qos_class: named(&at("qos_class"), from.qos_class, bad),
        on_interrupt: named(&at("on_interrupt"), from.on_interrupt, bad).unwrap_or_default(),
        emit: named(&at("emit"), from.emit, bad).unwrap_or_default(),
        numa_balancing: named(&at("numa_balancing"), from.numa_balancing, bad).unwrap_or_default(),
        offload: named(&at("offload"), from.offload, bad).unwrap_or_default(),
        tenant: token(&at("tenant"), from.tenant, TOKEN_MAX, bad),
    }
}

/// Reads a percentage of `least` to 100.
fn percent(field: &str, value: Option<i32>, least: u64, bad: &mut Violations) -> Option<u8> {
    let value = number(field, value.map(i64::from), least..=100, bad)?;
    u8::try_from(value).ok()
}

impl From<&Policy> for v1::Policy {
    fn from(policy: &Policy) -> Self {
        let options = &policy.options;
        let qos_class = policy.qos_class.map_or(v1::QosClass::Unspecified, Into::into);
        Self {
            placement: Some(placement::written(options)),
            include_shared: options.include_shared,
            exclude_file: options.exclude_file,
            include_network: options.include_network,
            include_bound: options.include_bound,
            target_ratio_percent: Some(options.target_ratio.into()),
            reserve_bytes: options.reserve_bytes.map(int),
            pool_reserve_percent: match options.pool_reserve_percent {
                0 => None,
                percent => Some(percent.into()),
            },
            qos_class: qos_class.into(),
            on_interrupt: v1::InterruptAction::from(policy.on_interrupt).into(),
            profile: v1::Profile::from(options.pacing.profile).into(),
            max_stall: options.pacing.max_stall.map(names::duration),
            include_gigantic: options.include_gigantic,
            node_cpu_percent_max: options.pacing.node_cpu_percent_max.map(Into::into),
            node_bandwidth_max_bytes_per_second: options
                .node_bandwidth_max_bytes_per_second
                .map(int),
            numa_balancing: v1::NumaBalancingAction::from(policy.numa_balancing).into(),
            order: v1::MoveOrder::from(options.order).into(),
            home_rule: v1::HomeRule::from(options.home).into(),
            near_distance: (options.near_distance != NEAR)
                .then(|| i32::try_from(options.near_distance).unwrap_or(i32::MAX)),
            from_node_ids: options.from.iter().flat_map(node_ids).collect(),
            make_room: v1::MakeRoom::from(options.make_room).into(),
            compact: v1::Compact::from(options.compact).into(),
            hugetlb_source: v1::HugetlbSource::from(options.hugetlb).into(),
            emit: v1::Emit::from(policy.emit).into(),
            offload: v1::Offload::from(policy.offload).into(),
            tenant: policy.tenant.clone().unwrap_or_default(),
            maps: placement::written_maps(&options.maps),
            relief: options.relief.as_ref().map(Into::into),
        }
    }
}

impl From<v1::Policy> for Policy {
    /// For answers of a daemon. A field that cannot be understood counts as not set.
    fn from(message: v1::Policy) -> Self {
        policy("", Some(message), &mut Violations::of_record())
    }
}

//! Prints what differs from the defaults in policies and bounds.

use super::target::target;
use crate::{
    fields::{seconds, word},
    units::{self, list, size},
};
use numaloc_api::{v1, value::Policy};
use numaloc_core::{
    Compact, HomeRule, HugetlbSource, MakeRoom, NEAR, Offload, Options, Order, Pacing, Placement,
    Profile, Relief, ReliefBound,
};

/// The options of a plan that are not at their defaults. The target nodes are not among them.
pub fn asked(options: &Options) -> Vec<String> {
    // Without `..`, so that the compiler asks for each new option.
    let &Options {
        include_shared,
        exclude_file,
        include_network,
        include_bound,
        target_ratio,
        to: _,
        ref placement,
        ref maps,
        home,
        near_distance,
        ref from,
        include_gigantic,
        hugetlb,
        pacing: Pacing { profile, max_stall, node_cpu_percent_max, workers: _ },
        order,
        make_room,
        compact,
        reserve_bytes,
        pool_reserve_percent,
        node_bandwidth_max_bytes_per_second,
        saturated: _,
        ref relief,
    } = options;
    let set = [
        (include_shared, "include shared"),
        (exclude_file, "exclude file"),
        (include_network, "include network"),
        (include_bound, "include bound"),
        (include_gigantic, "include gigantic"),
    ];
    let set = set.into_iter().filter(|(set, _)| *set).map(|(_, name)| Some(name.to_owned()));
    let valued = [
        placement.is_wide().then(|| format!("place {}", placed(placement))),
        (home != HomeRule::default()).then(|| format!("home {}", home.name())),
        (near_distance != NEAR).then(|| format!("near up to distance {near_distance}")),
        (target_ratio < 100).then(|| format!("target ratio {target_ratio} %")),
        from.as_ref().map(|nodes| format!("from nodes {}", list(nodes.iter().map(|node| node.0)))),
        reserve_bytes.map(|bytes| format!("reserve {}", size(bytes))),
        (pool_reserve_percent > 0).then(|| format!("pool reserve {pool_reserve_percent} %")),
        (make_room != MakeRoom::default()).then(|| format!("make room {}", make_room.name())),
        (compact != Compact::default()).then(|| format!("compact {}", compact.name())),
        (hugetlb != HugetlbSource::default()).then(|| format!("hugetlb {}", hugetlb.name())),
        (order != Order::default()).then(|| format!("order {}", order.name())),
        (profile != Profile::default()).then(|| format!("profile {}", profile.name())),
        max_stall.map(|stall| format!("calls of at most {stall:?}")),
        node_cpu_percent_max.map(|most| format!("node CPUs at most {most} % busy")),
        node_bandwidth_max_bytes_per_second
            .map(|most| format!("target nodes at most {}/s used", size(most))),
        relief.as_ref().map(relieved),
    ];
    let maps = maps.iter().map(|rule| Some(format!("map {rule}")));
    set.chain(valued).chain(maps).flatten().collect()
}

/// The relief of a node, with its bounds.
fn relieved(relief: &Relief) -> String {
    let node = relief.node;
    match (relief.returning_bytes, relief.bound) {
        (Some(bytes), _) => format!("return of at most {} to node {node}", size(bytes)),
        (None, ReliefBound::Free { below_bytes, until_bytes: until }) if below_bytes == until => {
            format!("relieve node {node} until {} are free", size(until))
        }
        (None, ReliefBound::Free { below_bytes, until_bytes }) => {
            let [below, until] = [below_bytes, until_bytes].map(size);
            format!("relieve node {node} below {below} free until {until} are free")
        }
        (None, ReliefBound::Traffic { above_bytes_per_second, until_bytes_per_second }) => {
            let [above, until] = [above_bytes_per_second, until_bytes_per_second].map(size);
            format!("relieve node {node} above {above}/s of use until {until}/s")
        }
    }
}

/// A placement, with its weights.
fn placed(placement: &Placement) -> String {
    match placement {
        Placement::Weighted(weights) | Placement::Balance(Some(weights)) => {
            format!("{} {weights}", placement.name())
        }
        Placement::Tiers(tiers) => format!("{} {tiers}", placement.name()).trim_end().to_owned(),
        Placement::Bandwidth(_) => format!("{} by bandwidth", placement.name()),
        _ => placement.name().to_owned(),
    }
}

/// The migration that was asked for; values at their defaults are left out.
pub fn spec_fields(spec: Option<&v1::MigrationSpec>) -> Vec<(&'static str, String)> {
    let spec = spec.cloned().unwrap_or_default();
    let message = spec.policy.unwrap_or_default();
    let policy = Policy::from(message.clone());
    let mut options = asked(&policy.options);
    let balancing = policy.numa_balancing;
    options.extend(
        (balancing != Default::default()).then(|| format!("numa_balancing {}", balancing.name())),
    );
    let offload = policy.offload;
    options.extend((offload != Offload::default()).then(|| format!("offload {}", offload.name())));
    let emits = message.emit() == v1::Emit::Always;
    options.extend(emits.then(|| "events of each run".to_owned()));
    let resumes = message.on_interrupt() == v1::InterruptAction::Resume;
    options.extend(resumes.then(|| "resume".to_owned()));
    let limits = spec.limits.unwrap_or_default();
    let timeout = limits.timeout.map(|timeout| units::seconds(seconds(Some(timeout))));
    let limits = [
        timeout.map(|timeout| format!("timeout {timeout}")),
        limits.batch_bytes.map(|bytes| format!("batches of {}", size(bytes))),
        limits.workers.map(|workers| format!("{workers} workers")),
        limits.rate_bytes_per_second.map(|bytes| format!("{}/s", size(bytes))),
        limits.hourly_budget_bytes.map(|bytes| format!("{} an hour", size(bytes))),
    ];
    let named = policy.options.named_nodes();
    let to = named.map(|nodes| list(nodes.iter().map(|node| node.0)));
    vec![
        ("target", target(spec.target.as_ref())),
        ("to nodes", to.unwrap_or("local".to_owned())),
        ("options", options.join(", ")),
        ("limits", limits.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("qos", qos_class(message.qos_class())),
    ]
}

/// A class; empty if the registered workload decides it.
pub fn qos_class(class: v1::QosClass) -> String {
    match class {
        v1::QosClass::Unspecified => String::new(),
        class => word(class.as_str_name(), "QOS_CLASS_"),
    }
}

//! Reads migrations, targets, policies and limits from the API.

use super::{
    bounds::{CREATOR_MAX, SPAN_MAX},
    check::{bounded, cgroup, count, duration, number, required, text, token, unit},
    names::named,
    selector::selector,
};
use crate::{
    Problem, Violations, v1,
    value::{Limits, MigrationSpec, Policy, Selector, TOKEN_MAX, Target, TargetProcess},
};
use numaloc_core::{NodeId, NodeSet, Options, Pacing, ids::INDEX_MAX};
use std::{collections::BTreeSet, mem, time::Duration};

/// Most pids of a target.
pub const PIDS_MAX: usize = 4096;
/// Most names of one sort in a target.
const NAMES_MAX: usize = 1024;
/// Most nodes that a request may name: the largest number that the kernel supports.
const NODES_MAX: usize = 1024;
/// Bounds of `max_stall`. In less time not even one small page is moved. More time bounds nothing in practice.
pub const STALL_MIN: Duration = Duration::from_micros(100);
/// See [`STALL_MIN`].
pub const STALL_MAX: Duration = Duration::from_secs(60);

/// Reads a migration, which is required.
pub fn spec(field: &str, from: Option<v1::MigrationSpec>, bad: &mut Violations) -> MigrationSpec {
    let Some(from) = required(field, from, bad) else { return MigrationSpec::default() };
    MigrationSpec {
        target: target(&format!("{field}.target"), from.target, bad),
        policy: policy(&format!("{field}.policy"), from.policy, bad),
        limits: limits(&format!("{field}.limits"), from.limits, bad),
    }
}

/// Reads a target, which must have at least one member.
pub fn target(field: &str, from: Option<v1::Target>, bad: &mut Violations) -> Target {
    let Some(mut from) = required(field, from, bad) else { return Target::default() };
    // Whose workloads are meant names none.
    let creators = mem::take(&mut from.workload_creators);
    let is_empty = from == v1::Target::default();
    let creator = |field: &str, name, bad: &mut Violations| text(field, name, CREATOR_MAX, bad);
    let id = |field: &str, id, bad: &mut Violations| token(field, id, TOKEN_MAX, bad);
    let target = Target {
        pids: pids(&format!("{field}.pids"), &from.pids, bad),
        cgroups: names(&format!("{field}.cgroups"), from.cgroups, cgroup, bad),
        units: names(&format!("{field}.units"), from.units, unit, bad),
        container_ids: names(&format!("{field}.container_ids"), from.container_ids, id, bad),
        pod_uids: names(&format!("{field}.pod_uids"), from.pod_uids, id, bad),
        labels: from.labels.map_or_else(Selector::default, |labels| {
            // An empty selector selects everything, which nobody should do by mistake.
            if labels == v1::LabelSelector::default() {
                bad.push(format!("{field}.labels"), Problem::Missing);
            }
            selector(&format!("{field}.labels"), labels, bad)
        }),
        workload_creators: names(&format!("{field}.workload_creators"), creators, creator, bad),
        processes: processes(&format!("{field}.processes"), from.processes, bad),
    };
    if is_empty {
        bad.push(field, Problem::Missing);
    }
    target
}

fn pids(field: &str, from: &[i32], bad: &mut Violations) -> BTreeSet<i32> {
    if !count(field, from.len(), PIDS_MAX, bad) {
        return BTreeSet::new();
    }
    for (index, &pid) in from.iter().enumerate().filter(|(_, pid)| **pid < 1) {
        let range = 1..=i32::MAX.unsigned_abs().into();
        number(&format!("{field}[{index}]"), Some(pid.into()), range, bad);
    }
    from.iter().copied().collect()
}

fn processes(
    field: &str,
    from: Vec<v1::TargetProcess>,
    bad: &mut Violations,
) -> BTreeSet<TargetProcess> {
    if !count(field, from.len(), PIDS_MAX, bad) {
        return BTreeSet::new();
    }
    let one = |(index, from)| process(&format!("{field}[{index}]"), from, bad);
    from.into_iter().enumerate().filter_map(one).collect()
}

/// Reads a process that is named by pid, start time and boot.
pub fn process(
    field: &str,
    from: v1::TargetProcess,
    bad: &mut Violations,
) -> Option<TargetProcess> {
    let at = |name: &str| format!("{field}.{name}");
    let pids = 1..=i32::MAX.unsigned_abs().into();
    let pid = number(&at("pid"), Some(from.pid.into()), pids, bad);
    let times = 0..=i64::MAX.unsigned_abs();
    let start_time = number(&at("start_time_ticks"), Some(from.start_time_ticks), times, bad);
    if from.boot_id.is_empty() {
        bad.push(at("boot_id"), Problem::Missing);
    }
    let boot_id = token(&at("boot_id"), from.boot_id, TOKEN_MAX, bad);
    let (pid, start_time) = (i32::try_from(pid?).ok()?, start_time?);
    Some(TargetProcess { pid, start_time, boot_id: boot_id? })
}

fn names(
    field: &str,
    from: Vec<String>,
    check: impl Fn(&str, String, &mut Violations) -> Option<String>,
    bad: &mut Violations,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if !count(field, from.len(), NAMES_MAX, bad) {
        return names;
    }
    for (index, name) in from.into_iter().enumerate() {
        let field = format!("{field}[{index}]");
        match name.is_empty() {
            true => bad.push(field, Problem::Missing),
            false => names.extend(check(&field, name, bad)),
        }
    }
    names
}

/// Reads a policy. None means the default.
pub fn policy(field: &str, from: Option<v1::Policy>, bad: &mut Violations) -> Policy {
    let from = from.unwrap_or_default();
    let at = |name: &str| format!("{field}.{name}");
    let ratio = from.target_ratio_percent.map(i64::from);
    let ratio = number(&at("target_ratio_percent"), ratio, 0..=100, bad);
    let reserve = 0..=i64::MAX.unsigned_abs();
    let node_cpu = from.node_cpu_percent_max.map(i64::from);
    let options = Options {
        include_shared: from.include_shared,
        exclude_file: from.exclude_file,
        include_bound: from.include_bound,
        include_gigantic: from.include_gigantic,
        make_room: named(&at("make_room"), from.make_room, bad).unwrap_or_default(),
        compact: named(&at("compact"), from.compact, bad).unwrap_or_default(),
        hugetlb: named(&at("hugetlb_source"), from.hugetlb_source, bad).unwrap_or_default(),
        pacing: Pacing {
            profile: named(&at("profile"), from.profile, bad).unwrap_or_default(),
            max_stall: duration(&at("max_stall"), from.max_stall, STALL_MIN..=STALL_MAX, bad),
            node_cpu_percent_max: number(&at("node_cpu_percent_max"), node_cpu, 1..=100, bad)
                .and_then(|percent| u8::try_from(percent).ok()),
        },
        order: named(&at("order"), from.order, bad).unwrap_or_default(),
        target_ratio: ratio.and_then(|ratio| u8::try_from(ratio).ok()).unwrap_or(100),
        to: match from.placement {
            None | Some(v1::policy::Placement::Local(_)) => None,
            Some(v1::policy::Placement::Nodes(nodes)) => {
                Some(node_set(&at("nodes.node_ids"), &nodes.node_ids, bad))
            }
        },
        from: match from.from_node_ids.is_empty() {
            true => None,
            false => Some(node_set(&at("from_node_ids"), &from.from_node_ids, bad)),
        },
        home: named(&at("home_rule"), from.home_rule, bad).unwrap_or_default(),
        reserve_bytes: number(&at("reserve_bytes"), from.reserve_bytes, reserve, bad),
    };
    Policy {
        options,
        qos_class: named(&at("qos_class"), from.qos_class, bad),
        on_interrupt: named(&at("on_interrupt"), from.on_interrupt, bad).unwrap_or_default(),
        emit: named(&at("emit"), from.emit, bad).unwrap_or_default(),
        numa_balancing: named(&at("numa_balancing"), from.numa_balancing, bad).unwrap_or_default(),
    }
}

fn node_set(field: &str, from: &[i32], bad: &mut Violations) -> NodeSet {
    let mut nodes = NodeSet::new();
    if from.is_empty() {
        bad.push(field, Problem::Missing);
    }
    if !count(field, from.len(), NODES_MAX, bad) {
        return nodes;
    }
    for (index, &node) in from.iter().enumerate() {
        match u32::try_from(node).ok().filter(|&node| node <= INDEX_MAX) {
            Some(node) => nodes.insert(NodeId(node)),
            None => {
                let (min, max) = ("0".to_owned(), INDEX_MAX.to_string());
                bad.push(format!("{field}[{index}]"), Problem::OutOfRange { min, max });
            }
        }
    }
    nodes
}

/// Reads limits. None means the defaults.
pub fn limits(field: &str, from: Option<v1::Limits>, bad: &mut Violations) -> Limits {
    let from = from.unwrap_or_default();
    let at = |name: &str| format!("{field}.{name}");
    let workers = bounded(&at("workers"), from.workers.map(i64::from), 1..=256, bad);
    let rate = numaloc_core::PAGE..=i64::MAX.unsigned_abs();
    let timeout = Duration::from_nanos(1)..=SPAN_MAX;
    Limits {
        batch_bytes: bounded(
            &at("batch_bytes"),
            from.batch_bytes,
            numaloc_core::PAGE..=1 << 30,
            bad,
        ),
        workers: workers.and_then(|workers| usize::try_from(workers).ok()),
        timeout: duration(&at("timeout"), from.timeout, timeout, bad),
        rate_bytes_per_second: bounded(
            &at("rate_bytes_per_second"),
            from.rate_bytes_per_second,
            rate,
            bad,
        ),
    }
}

impl From<v1::Policy> for Policy {
    /// For answers of a daemon. A field that cannot be understood counts as not set.
    fn from(message: v1::Policy) -> Self {
        policy("", Some(message), &mut Violations::of_record())
    }
}

impl From<v1::Limits> for Limits {
    /// As for a policy.
    fn from(message: v1::Limits) -> Self {
        limits("", Some(message), &mut Violations::of_record())
    }
}

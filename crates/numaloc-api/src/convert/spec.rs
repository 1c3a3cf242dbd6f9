//! Reads migrations, targets and limits from the API.

use super::{
    bounds::{CREATOR_MAX, SPAN_MAX},
    check::{bounded, cgroup, count, duration, number, path, required, text, token, unit},
    policy::policy,
    selector::selector,
};
use crate::{
    Problem, Violations, v1,
    value::{Limits, MigrationSpec, Selector, TOKEN_MAX, Target, TargetProcess},
};
use numaloc_core::Identity;
use std::{collections::BTreeSet, mem, time::Duration};

/// Most pids of a target.
pub const PIDS_MAX: usize = 4096;
/// Most names of one sort in a target.
const NAMES_MAX: usize = 1024;
/// Longest name of a container, pod or virtual machine in bytes: NAMESPACE/POD/CONTAINER with Kubernetes takes 381.
const NAME_MAX: usize = 512;

/// Reads a migration, which is required.
pub fn spec(field: &str, from: Option<v1::MigrationSpec>, bad: &mut Violations) -> MigrationSpec {
    let Some(mut from) = required(field, from, bad) else { return MigrationSpec::default() };
    let target = target(&format!("{field}.target"), from.target.take(), bad);
    let spec = MigrationSpec { target, ..without_target(field, from, bad) };
    spec.check_files(field, bad);
    spec
}

/// Reads what a migration does, which is the same for each target. The target of the result is empty.
pub fn without_target(field: &str, from: v1::MigrationSpec, bad: &mut Violations) -> MigrationSpec {
    MigrationSpec {
        target: Target::default(),
        policy: policy(&format!("{field}.policy"), from.policy, bad),
        limits: limits(&format!("{field}.limits"), from.limits, bad),
    }
}

/// Reads a target, which must have at least one member.
pub fn target(field: &str, from: Option<v1::Target>, bad: &mut Violations) -> Target {
    let Some(mut from) = required(field, from, bad) else { return Target::default() };
    // The creators of workloads name no members.
    let creators = mem::take(&mut from.workload_creators);
    let is_empty = from == v1::Target::default();
    let creator = |field: &str, name, bad: &mut Violations| text(field, name, CREATOR_MAX, bad);
    let name = |field: &str, name, bad: &mut Violations| text(field, name, NAME_MAX, bad);
    let label = |field: &str, label: String, bad: &mut Violations| {
        if label.starts_with('=') {
            bad.push(field, Problem::Malformed { expected: "of the form KEY=VALUE, or KEY" });
        }
        text(field, label, NAME_MAX, bad)
    };
    let target = Target {
        pids: pids(&format!("{field}.pids"), &from.pids, bad),
        cgroups: names(&format!("{field}.cgroups"), from.cgroups, cgroup, bad),
        units: names(&format!("{field}.units"), from.units, unit, bad),
        containers: names(&format!("{field}.containers"), from.containers, name, bad),
        pods: names(&format!("{field}.pods"), from.pods, name, bad),
        virtual_machines: names(
            &format!("{field}.virtual_machines"),
            from.virtual_machines,
            name,
            bad,
        ),
        container_labels: names(
            &format!("{field}.container_labels"),
            from.container_labels,
            label,
            bad,
        ),
        labels: from.labels.map_or_else(Selector::default, |labels| {
            // An empty selector selects everything, which must not happen by mistake.
            if labels == v1::LabelSelector::default() {
                bad.push(format!("{field}.labels"), Problem::Missing);
            }
            selector(&format!("{field}.labels"), labels, bad)
        }),
        workload_creators: names(&format!("{field}.workload_creators"), creators, creator, bad),
        processes: processes(&format!("{field}.processes"), from.processes, bad),
        files: names(&format!("{field}.files"), from.files, path, bad),
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
    let identity = identity(field, (from.pid, from.start_time_ticks), bad);
    let at = format!("{field}.boot_id");
    if from.boot_id.is_empty() {
        bad.push(at.clone(), Problem::Missing);
    }
    let boot_id = token(&at, from.boot_id, TOKEN_MAX, bad);
    let Identity { pid, start_time } = identity?;
    Some(TargetProcess { pid, start_time, boot_id: boot_id? })
}

/// Reads a process that is named by pid and start time.
pub fn identity(
    field: &str,
    (pid, start_time_ticks): (i32, i64),
    bad: &mut Violations,
) -> Option<Identity> {
    let pids = 1..=i32::MAX.unsigned_abs().into();
    let pid = number(&format!("{field}.pid"), Some(pid.into()), pids, bad);
    let times = 0..=i64::MAX.unsigned_abs();
    let field = format!("{field}.start_time_ticks");
    let start_time = number(&field, Some(start_time_ticks), times, bad);
    Some(Identity { pid: i32::try_from(pid?).ok()?, start_time: start_time? })
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

/// Reads limits. None means the defaults.
pub fn limits(field: &str, from: Option<v1::Limits>, bad: &mut Violations) -> Limits {
    let from = from.unwrap_or_default();
    let at = |name: &str| format!("{field}.{name}");
    let workers = bounded(&at("workers"), from.workers.map(i64::from), 1..=256, bad);
    let rate = numaloc_core::SMALLEST_PAGE..=i64::MAX.unsigned_abs();
    let timeout = Duration::from_nanos(1)..=SPAN_MAX;
    Limits {
        batch_bytes: bounded(
            &at("batch_bytes"),
            from.batch_bytes,
            numaloc_core::SMALLEST_PAGE..=1 << 30,
            bad,
        ),
        workers: workers.and_then(|workers| usize::try_from(workers).ok()),
        timeout: duration(&at("timeout"), from.timeout, timeout, bad),
        rate_bytes_per_second: bounded(
            &at("rate_bytes_per_second"),
            from.rate_bytes_per_second,
            rate.clone(),
            bad,
        ),
        hourly_budget_bytes: bounded(
            &at("hourly_budget_bytes"),
            from.hourly_budget_bytes,
            rate,
            bad,
        ),
    }
}

impl From<v1::Limits> for Limits {
    /// For answers of a daemon. A field that cannot be understood counts as not set.
    fn from(message: v1::Limits) -> Self {
        limits("", Some(message), &mut Violations::of_record())
    }
}

//! The policy in our own form: a schedule without its target (docs/annotations.md).

use crate::{
    Settings,
    fields::{Case, Fields, Problem, bytes, flag, nodes, one_of, seconds, whole},
    tree::Tree,
};
use numaloc_api::{
    Violation, Violations,
    value::{Emit, Limits, OnInterrupt, Policy, QosClass, ScheduleSpec, Target},
};
use numaloc_core::{
    Compact, HomeRule, HugetlbSource, MakeRoom, NumaBalancing, Offload, Options, Order, Pacing,
    Profile,
};
use std::collections::BTreeMap;

/// Whether anything is to be done: the values of the key `policy` here and in the contract's annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is switched off.
    None,
    /// Memory is brought home as far as that works.
    BestEffort,
}

/// The names of [`Wanted`].
pub const WANTED: [(&str, Wanted); 2] =
    [("bestEffort", Wanted::BestEffort), ("none", Wanted::None)];

/// Reads a policy, which is at `path`; `None`: it is switched off. Text instead of an object is the value of its key `policy`.
///
/// # Errors
/// What is wrong first.
pub fn read(path: &str, tree: &Tree) -> Result<Option<Settings>, Problem> {
    if matches!(tree, Tree::Text(_)) {
        let wanted = one_of(WANTED)(path, tree)?;
        return Ok((wanted == Wanted::BestEffort).then(Settings::default));
    }
    let mut fields = Fields::of(path, tree, Case::Exact)?;
    let wanted = fields.take("policy", one_of(WANTED))?;
    let options = fields.take("options", options)?;
    let qos_class = fields.take("qos_class", one_of(CLASSES))?;
    let on_interrupt = [("stop", OnInterrupt::Stop), ("resume", OnInterrupt::Resume)];
    let on_interrupt = fields.take("on_interrupt", one_of(on_interrupt))?;
    let named = NumaBalancing::ALL.map(|action| (action.name(), action));
    let numa_balancing = fields.take("numa_balancing", one_of(named))?;
    let named = Offload::ALL.map(|offload| (offload.name(), offload));
    let offload = fields.take("offload", one_of(named))?;
    let emit = [("always", Emit::Always), ("on_change", Emit::OnChange)];
    let emit = fields.take("emit", one_of(emit))?;
    let limits = fields.take("limits", limits)?;
    let interval = fields.take("interval_seconds", seconds)?;
    let jitter = fields.take("jitter_seconds", seconds)?;
    let paused = fields.take("paused", flag)?;
    fields.finish()?;
    let policy = Policy {
        options: options.unwrap_or_default(),
        qos_class,
        on_interrupt: on_interrupt.unwrap_or_default(),
        numa_balancing: numa_balancing.unwrap_or_default(),
        offload: offload.unwrap_or_default(),
        emit: emit.unwrap_or_default(),
        tenant: None,
    };
    let settings = Settings {
        policy,
        limits: limits.unwrap_or_default(),
        interval: interval.unwrap_or_default(),
        jitter: jitter.unwrap_or_default(),
        paused: paused.unwrap_or_default(),
    };
    let settings = checked(path, &settings)?;
    Ok((wanted != Some(Wanted::None)).then_some(settings))
}

const CLASSES: [(&str, QosClass); 3] =
    [("lsr", QosClass::Lsr), ("ls", QosClass::Ls), ("be", QosClass::Be)];

fn options(path: &str, tree: &Tree) -> Result<Options, Problem> {
    let mut fields = Fields::of(path, tree, Case::Exact)?;
    let default = Options::default();
    let profile = one_of(Profile::ALL.map(|profile| (profile.name(), profile)));
    let order = one_of(Order::ALL.map(|order| (order.name(), order)));
    let home = one_of(HomeRule::ALL.map(|rule| (rule.name(), rule)));
    let hugetlb = one_of(HugetlbSource::ALL.map(|source| (source.name(), source)));
    let compact = one_of(Compact::ALL.map(|compact| (compact.name(), compact)));
    let make_room = one_of(MakeRoom::ALL.map(|way| (way.name(), way)));
    let options = Options {
        include_shared: fields.take("include_shared", flag)?.unwrap_or(default.include_shared),
        exclude_file: fields.take("exclude_file", flag)?.unwrap_or(default.exclude_file),
        include_bound: fields.take("include_bound", flag)?.unwrap_or(default.include_bound),
        include_gigantic: fields
            .take("include_gigantic", flag)?
            .unwrap_or(default.include_gigantic),
        make_room: fields.take("make_room", make_room)?.unwrap_or(default.make_room),
        compact: fields.take("compact", compact)?.unwrap_or(default.compact),
        hugetlb: fields.take("hugetlb", hugetlb)?.unwrap_or(default.hugetlb),
        target_ratio: fields
            .take("target_ratio_percent", whole(0..=100))?
            .unwrap_or(default.target_ratio),
        to: fields.take("to_nodes", nodes)?,
        home: fields.take("home", home)?.unwrap_or(default.home),
        from: fields.take("from_nodes", nodes)?,
        reserve_bytes: fields.take("reserve_bytes", bytes)?,
        order: fields.take("order", order)?.unwrap_or(default.order),
        pacing: Pacing {
            profile: fields.take("profile", profile)?.unwrap_or_default(),
            max_stall: fields.take("max_stall_seconds", seconds)?,
            node_cpu_percent_max: fields.take("node_cpu_percent_max", whole(1..=100))?,
            ..Pacing::default()
        },
    };
    fields.finish()?;
    Ok(options)
}

fn limits(path: &str, tree: &Tree) -> Result<Limits, Problem> {
    let mut fields = Fields::of(path, tree, Case::Exact)?;
    let limits = Limits {
        batch_bytes: fields.take("batch_bytes", bytes)?,
        workers: fields.take("workers", whole(1..=256))?,
        timeout: fields.take("timeout_seconds", seconds)?,
        rate_bytes_per_second: fields.take("rate_bytes_per_second", bytes)?,
    };
    fields.finish()?;
    Ok(limits)
}

/// The settings if the daemon would take them: the bounds are those of its API.
fn checked(path: &str, settings: &Settings) -> Result<Settings, Problem> {
    // No target is checked here: the schedule gets one later.
    let spec = settings.schedule(Target::cgroup("/"), BTreeMap::new());
    let ScheduleSpec { migration, interval, jitter, paused, .. } =
        spec.checked().map_err(|violations| problem(path, &violations))?;
    let (policy, limits) = (migration.policy, migration.limits);
    Ok(Settings { policy, limits, interval, jitter, paused })
}

/// Where the fields that the API bounds are in the JSON.
const PLACES: [(&str, &str); 13] = [
    ("spec.policy.target_ratio_percent", "options.target_ratio_percent"),
    ("spec.policy.reserve_bytes", "options.reserve_bytes"),
    ("spec.policy.max_stall", "options.max_stall_seconds"),
    ("spec.policy.node_cpu_percent_max", "options.node_cpu_percent_max"),
    ("spec.policy.nodes.node_ids", "options.to_nodes"),
    ("spec.policy.from_node_ids", "options.from_nodes"),
    ("spec.policy", "options"),
    ("spec.limits.batch_bytes", "limits.batch_bytes"),
    ("spec.limits.workers", "limits.workers"),
    ("spec.limits.timeout", "limits.timeout_seconds"),
    ("spec.limits.rate_bytes_per_second", "limits.rate_bytes_per_second"),
    ("interval", "interval_seconds"),
    ("jitter", "jitter_seconds"),
];

fn problem(path: &str, violations: &Violations) -> Problem {
    let Some(Violation { field, problem }) = violations.iter().next() else {
        return Problem::new(path, "is not what the daemon takes", "");
    };
    let place = PLACES.into_iter().find(|(api, _)| field.starts_with(api));
    let name = place.map_or(field.as_str(), |(_, json)| json);
    Problem::new(&crate::fields::below(path, name), problem.to_string(), "")
}

//! Requests about schedules, with their intervals and field masks.

use super::{
    bounds::{CREATOR_MAX, ETAG_MAX, PATHS_MAX, REQUEST_ID_MAX, SCHEDULE, SPAN_MAX},
    check::{
        chosen, count, duration, name, page, required, resume_token, text, token, workload_name,
    },
    labels::labels,
    names::all_named,
    policy::policy,
    spec::{self, limits, target},
};
use crate::{
    Fnv, Problem, Violations, v1,
    value::{
        CreateSchedule, DeleteSchedule, ListSchedules, MigrationSpec, RunSchedule, ScheduleFilter,
        ScheduleId, ScheduleSpec, ScheduleUpdate, UpdateSchedule, WatchSchedules,
    },
};
use prost::Message;
use std::{hash::Hasher, ops::RangeInclusive, time::Duration};

/// Reads an interval: zero, or at least one second.
fn interval(field: &str, from: Option<prost_types::Duration>, bad: &mut Violations) -> Duration {
    let from = from.filter(|from| *from != prost_types::Duration::default());
    let range = Duration::from_secs(1)..=SPAN_MAX;
    duration(field, from, range, bad).unwrap_or_default()
}

/// Reads what a client sets. `path` is where the schedule is within the message: empty, or ending in a dot.
pub fn settings(path: &str, from: v1::Schedule, bad: &mut Violations) -> ScheduleSpec {
    read(path, from, spec::spec, bad)
}

fn read(
    path: &str,
    from: v1::Schedule,
    migration: impl FnOnce(&str, Option<v1::MigrationSpec>, &mut Violations) -> MigrationSpec,
    bad: &mut Violations,
) -> ScheduleSpec {
    let at = |name: &str| format!("{path}{name}");
    let spec = ScheduleSpec {
        migration: migration(&at("spec"), from.spec, bad),
        interval: interval(&at("interval"), from.interval, bad),
        jitter: duration(&at("jitter"), from.jitter, any(), bad).unwrap_or_default(),
        ttl_after_gone: duration(&at("ttl_after_gone"), from.ttl_after_gone, any(), bad),
        paused: from.paused,
        labels: labels(&at("labels"), from.labels, bad),
    };
    spec.check(&at("jitter"), bad);
    spec
}

impl TryFrom<v1::Schedule> for ScheduleSpec {
    type Error = Violations;

    /// Reads a schedule that comes from elsewhere than a request, as if a request had brought it. Paths are such as
    /// `spec.policy.max_stall`.
    fn try_from(from: v1::Schedule) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let spec = settings("", from, &mut bad);
        bad.or(spec)
    }
}

impl ScheduleSpec {
    /// Checks a schedule that gets its target later, for example the annotation of a pod. The result has an empty
    /// target.
    ///
    /// # Errors
    /// What a request would be refused for, apart from its target.
    pub fn without_target(from: v1::Schedule) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let migration = |field: &str, from: Option<v1::MigrationSpec>, bad: &mut Violations| {
            spec::without_target(field, from.unwrap_or_default(), bad)
        };
        let spec = read("", from, migration, &mut bad);
        bad.or(spec)
    }

    /// A number that differs, as good as certainly, where the settings do; never 0. Later versions give the same one for the same
    /// settings: it is the 64 bit FNV-1a hash of their message, in which maps are ordered.
    pub fn digest(&self) -> u64 {
        let mut hash = Fnv::default();
        hash.write(&v1::Schedule::from(self).encode_to_vec());
        hash.finish().max(1)
    }
}

fn any() -> RangeInclusive<Duration> {
    Duration::ZERO..=SPAN_MAX
}

impl TryFrom<v1::CreateScheduleRequest> for CreateSchedule {
    type Error = Violations;

    fn try_from(from: v1::CreateScheduleRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let validate_only = from.validate_only;
        let request_id = token("request_id", from.request_id, REQUEST_ID_MAX, &mut bad);
        let id = chosen("schedule_id", from.schedule_id, ScheduleId::new, &mut bad);
        let schedule = required("schedule", from.schedule, &mut bad).unwrap_or_default();
        let spec = settings("schedule.", schedule, &mut bad);
        bad.or(Self { id, spec, request_id, validate_only })
    }
}

impl TryFrom<v1::UpdateScheduleRequest> for UpdateSchedule {
    type Error = Violations;

    fn try_from(from: v1::UpdateScheduleRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let schedule = required("schedule", from.schedule, &mut bad).unwrap_or_default();
        let read = ScheduleId::from_name;
        let id = name("schedule.name", &schedule.name, SCHEDULE, read, &mut bad);
        let etag = token("schedule.etag", schedule.etag.clone(), ETAG_MAX, &mut bad);
        let validate_only = from.validate_only;
        let paths = from.update_mask.map_or_else(Vec::new, |mask| mask.paths);
        let update = update(schedule, &paths, &mut bad);
        bad.or_of(id.map(|id| Self { id, etag, update, validate_only }))
    }
}

/// Reads the changes that a field mask names.
fn update(from: v1::Schedule, paths: &[String], bad: &mut Violations) -> ScheduleUpdate {
    const KNOWN: [&str; 10] = [
        "*",
        "spec",
        "spec.target",
        "spec.policy",
        "spec.limits",
        "interval",
        "jitter",
        "ttl_after_gone",
        "paused",
        "labels",
    ];
    if !count("update_mask.paths", paths.len(), PATHS_MAX, bad) {
        return ScheduleUpdate::default();
    }
    for (index, _) in paths.iter().enumerate().filter(|(_, path)| !KNOWN.contains(&path.as_str())) {
        bad.push(format!("update_mask.paths[{index}]"), Problem::UnknownPath);
    }
    let listed = |name: &str| paths.iter().any(|path| path == name || path == "*");
    // Without a mask, all fields that have a value count.
    let picked = |name, is_set| listed(name) || (paths.is_empty() && is_set);
    let part = |name, is_set| listed("spec") || picked(name, is_set);
    let migration = from.spec.unwrap_or_default();
    let v1::MigrationSpec { target: whose, policy: what, limits: bounds } = migration;
    ScheduleUpdate {
        target: part("spec.target", whose.is_some())
            .then(|| target("schedule.spec.target", whose, bad)),
        policy: part("spec.policy", what.is_some())
            .then(|| policy("schedule.spec.policy", what, bad)),
        limits: part("spec.limits", bounds.is_some())
            .then(|| limits("schedule.spec.limits", bounds, bad)),
        interval: picked("interval", from.interval.is_some())
            .then(|| interval("schedule.interval", from.interval, bad)),
        jitter: picked("jitter", from.jitter.is_some())
            .then(|| duration("schedule.jitter", from.jitter, any(), bad).unwrap_or_default()),
        ttl_after_gone: picked("ttl_after_gone", from.ttl_after_gone.is_some())
            .then(|| duration("schedule.ttl_after_gone", from.ttl_after_gone, any(), bad)),
        paused: picked("paused", from.paused).then_some(from.paused),
        labels: picked("labels", !from.labels.is_empty())
            .then(|| labels("schedule.labels", from.labels, bad)),
    }
}

impl TryFrom<v1::ListSchedulesRequest> for ListSchedules {
    type Error = Violations;

    fn try_from(from: v1::ListSchedulesRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let page = page(from.page_size, from.page_token, &mut bad);
        let filter = filter(from.filter, &mut bad);
        bad.or(Self { filter, page })
    }
}

impl TryFrom<v1::WatchSchedulesRequest> for WatchSchedules {
    type Error = Violations;

    fn try_from(from: v1::WatchSchedulesRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let filter = filter(from.filter, &mut bad);
        let resume_token = resume_token(from.resume_token, &mut bad);
        bad.or(Self { filter, resume_token })
    }
}

fn filter(from: Option<v1::ScheduleFilter>, bad: &mut Violations) -> ScheduleFilter {
    let from = from.unwrap_or_default();
    ScheduleFilter {
        states: all_named("filter.states", &from.states, bad),
        creator: text("filter.creator", from.creator, CREATOR_MAX, bad),
        labels: labels("filter.labels", from.labels, bad),
        workload: workload_name("filter.workload", &from.workload, bad),
    }
}

impl TryFrom<v1::RunScheduleRequest> for RunSchedule {
    type Error = Violations;

    fn try_from(from: v1::RunScheduleRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let id = name("name", &from.name, SCHEDULE, ScheduleId::from_name, &mut bad);
        let request_id = token("request_id", from.request_id, REQUEST_ID_MAX, &mut bad);
        bad.or_of(id.map(|id| Self { id, request_id }))
    }
}

impl TryFrom<v1::DeleteScheduleRequest> for DeleteSchedule {
    type Error = Violations;

    fn try_from(from: v1::DeleteScheduleRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let id = name("name", &from.name, SCHEDULE, ScheduleId::from_name, &mut bad);
        let etag = token("etag", from.etag, ETAG_MAX, &mut bad);
        let (allow_missing, validate_only) = (from.allow_missing, from.validate_only);
        bad.or_of(id.map(|id| Self { id, etag, allow_missing, validate_only }))
    }
}

//! Schedules.

use super::{Limits, MigrationSpec, Policy, ScheduleId, Target, WorkloadId};
use crate::{Problem, Violations};
use std::{collections::BTreeMap, time::Duration};

/// What a client sets of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// What each run does.
    pub migration: MigrationSpec,
    /// Least time from the end of a run to the start of the next; zero: once.
    pub interval: Duration,
    /// Up to this much is added to each interval.
    pub jitter: Duration,
    /// How long after its target has gone it is removed; `None`: never.
    pub ttl_after_gone: Option<Duration>,
    /// No new run starts.
    pub paused: bool,
    /// Labels for filters; its jobs have them, too.
    pub labels: BTreeMap<String, String>,
}

impl ScheduleSpec {
    /// Notes contradictions between its fields that requests must not have.
    pub(crate) fn check(&self, field: &str, bad: &mut Violations) {
        if bad.are_of_request() && self.jitter > self.interval {
            bad.push(field, Problem::LongerThan { other: "interval" });
        }
    }
}

/// Where a schedule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScheduleState {
    /// Waits for its time.
    Waiting,
    /// A run is queued or under way.
    Active,
    /// Its target is gone.
    TargetGone,
    /// Held by a client.
    Paused,
    /// Ran once, as asked.
    Completed,
}

/// Which schedules: those that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<ScheduleState>,
    /// Created by this client.
    pub creator: Option<String>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Whose target names this workload.
    pub workload: Option<WorkloadId>,
}

/// Changes to a schedule; `None`: as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleUpdate {
    /// Its target.
    pub target: Option<Target>,
    /// Its policy.
    pub policy: Option<Policy>,
    /// Its limits.
    pub limits: Option<Limits>,
    /// Its interval.
    pub interval: Option<Duration>,
    /// Its jitter.
    pub jitter: Option<Duration>,
    /// Its time to live.
    pub ttl_after_gone: Option<Option<Duration>>,
    /// Whether it is held.
    pub paused: Option<bool>,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
}

impl ScheduleUpdate {
    /// `spec` with these changes.
    ///
    /// # Errors
    /// The result contradicts itself.
    pub fn apply(self, mut spec: ScheduleSpec) -> Result<ScheduleSpec, Violations> {
        let migration = &mut spec.migration;
        self.target.into_iter().for_each(|target| migration.target = target);
        self.policy.into_iter().for_each(|policy| migration.policy = policy);
        self.limits.into_iter().for_each(|limits| migration.limits = limits);
        spec.interval = self.interval.unwrap_or(spec.interval);
        spec.jitter = self.jitter.unwrap_or(spec.jitter);
        spec.ttl_after_gone = self.ttl_after_gone.unwrap_or(spec.ttl_after_gone);
        spec.paused = self.paused.unwrap_or(spec.paused);
        spec.labels = self.labels.unwrap_or(spec.labels);
        let mut bad = Violations::default();
        spec.check("schedule.jitter", &mut bad);
        bad.or(spec)
    }
}

/// Asks for changes to a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSchedule {
    /// Which one.
    pub id: ScheduleId,
    /// The etag that it must have.
    pub etag: Option<String>,
    /// What changes.
    pub update: ScheduleUpdate,
    /// Only check whether it could be changed.
    pub validate_only: bool,
}

//! Fields of schedules that clients set, change and filter by.

use super::{Limits, MigrationSpec, Policy, ScheduleId, Target, WorkloadId};
use crate::{Problem, Violations};
use std::{collections::BTreeMap, time::Duration};

/// Fields of a schedule that a client sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// The migration that each run carries out, its target included.
    pub migration: MigrationSpec,
    /// Shortest time from the end of one run to the start of the next; zero: the schedule runs once.
    pub interval: Duration,
    /// Longest random time that is added to each interval.
    pub jitter: Duration,
    /// The schedule is removed when its target has been gone for this long; `None`: never.
    pub ttl_after_gone: Option<Duration>,
    /// Whether new runs are kept from starting.
    pub paused: bool,
    /// Labels for filtering lists. The schedule's jobs get them, too.
    pub labels: BTreeMap<String, String>,
}

impl ScheduleSpec {
    /// Adds violations for contradictions between its fields that requests must not have.
    pub(crate) fn check(&self, field: &str, bad: &mut Violations) {
        if bad.are_of_request() && self.jitter > self.interval {
            bad.push(field, Problem::LongerThan { other: "interval" });
        }
    }
}

/// The states of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScheduleState {
    /// It waits until its next run is due.
    Waiting,
    /// A run is queued or under way.
    Active,
    /// Its target is gone, and it waits until the target is back.
    TargetGone,
    /// A client has paused it, so no new run starts.
    Paused,
    /// It was to run once and has run.
    Completed,
}

/// Selects the schedules that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<ScheduleState>,
    /// Only schedules of this client, for example `uid:1000`.
    pub creator: Option<String>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
    /// A workload that the target names.
    pub workload: Option<WorkloadId>,
}

/// Changes to a schedule. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of `ScheduleSpec` and its migration")]
pub struct ScheduleUpdate {
    pub target: Option<Target>,
    pub policy: Option<Policy>,
    pub limits: Option<Limits>,
    pub interval: Option<Duration>,
    pub jitter: Option<Duration>,
    /// Time for which its target may be gone before it is removed.
    pub ttl_after_gone: Option<Option<Duration>>,
    pub paused: Option<bool>,
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
        spec.migration.check_files("schedule.spec", &mut bad);
        bad.or(spec)
    }
}

/// Asks for changes to a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSchedule {
    /// The schedule that is to be changed.
    pub id: ScheduleId,
    /// The etag that the stored schedule must have.
    pub etag: Option<String>,
    /// The fields that change, with their new values.
    pub update: ScheduleUpdate,
    /// Only check whether the change could be made.
    pub validate_only: bool,
}

//! What a policy comes to: the settings of a schedule without its target.

use numaloc_api::value::{Limits, MigrationSpec, Policy, ScheduleSpec, Target};
use std::{collections::BTreeMap, time::Duration};

/// What is to be done for a container: all of a schedule but its target and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Which memory moves, where to and how.
    pub policy: Policy,
    /// How fast each run may be, and how long it may take.
    pub limits: Limits,
    /// Shortest time from the end of one run to the start of the next; zero: it runs once.
    pub interval: Duration,
    /// Longest random time that is added to each interval.
    pub jitter: Duration,
    /// Whether runs are kept from starting.
    pub paused: bool,
}

impl Settings {
    /// Whether it runs again and again.
    pub fn repeats(&self) -> bool {
        !self.interval.is_zero()
    }

    /// The schedule that does this for `target`.
    pub fn schedule(&self, target: Target, labels: BTreeMap<String, String>) -> ScheduleSpec {
        let (policy, limits) = (self.policy.clone(), self.limits.clone());
        ScheduleSpec {
            migration: MigrationSpec { target, policy, limits },
            interval: self.interval,
            jitter: self.jitter,
            ttl_after_gone: None,
            paused: self.paused,
            labels,
        }
    }
}

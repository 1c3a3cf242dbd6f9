//! The effect of a policy: a schedule of the API without its target.

use numaloc_api::{
    Violations,
    v1::{self, policy::Placement},
    value::{MigrationSpec, ScheduleSpec},
};
use numaloc_core::Offload;
use std::time::Duration;

/// The schedule for a container: the message that numalocd gets, which has been checked and lacks its target, name and
/// labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    schedule: v1::Schedule,
}

// A schedule has no floating-point number.
impl Eq for Settings {}

impl Default for Settings {
    /// All memory is brought home once, as by default.
    fn default() -> Self {
        let spec = Some(v1::MigrationSpec::default());
        Self { schedule: v1::Schedule { spec, ..v1::Schedule::default() } }
    }
}

impl Settings {
    /// Settings that the daemon would take: the bounds are those of its API.
    ///
    /// # Errors
    /// What it would refuse.
    pub(crate) fn new(mut schedule: v1::Schedule) -> Result<Self, Violations> {
        ScheduleSpec::without_target(schedule.clone())?;
        schedule.spec.get_or_insert_default().target = None;
        Ok(Self { schedule })
    }

    /// Brings home as much as makes this percentage of the memory local, at this interval; zero: once.
    pub(crate) fn of_ratio(target_ratio_percent: u8, interval: Duration) -> Self {
        let mut settings = Self::default();
        settings.policy().target_ratio_percent = Some(target_ratio_percent.into());
        settings.set_interval(interval);
        settings
    }

    /// The schedule that does this for each target, name and labels that it gets.
    pub fn schedule(&self) -> v1::Schedule {
        self.schedule.clone()
    }

    /// Shortest time from the end of one run to the start of the next; zero: it runs once.
    pub fn interval(&self) -> Duration {
        self.schedule.interval.and_then(|time| time.try_into().ok()).unwrap_or_default()
    }

    pub fn repeats(&self) -> bool {
        !self.interval().is_zero()
    }

    /// Whether runs are kept from starting.
    pub fn is_paused(&self) -> bool {
        self.schedule.paused
    }

    /// The same, with runs kept from starting.
    #[must_use]
    pub(crate) fn paused(mut self) -> Self {
        self.schedule.paused = true;
        self
    }

    /// The requested spec, defaults included: to be compared with bounds, not to be passed on.
    pub(crate) fn asked(&self) -> MigrationSpec {
        let spec = self.schedule.spec.clone().unwrap_or_default();
        let policy = spec.policy.unwrap_or_default().into();
        let limits = spec.limits.unwrap_or_default().into();
        MigrationSpec { policy, limits, ..MigrationSpec::default() }
    }

    /// The memory that moves, its destination, and the way it moves.
    pub(crate) fn policy(&mut self) -> &mut v1::Policy {
        self.schedule.spec.get_or_insert_default().policy.get_or_insert_default()
    }

    /// The speed and the duration of each run.
    pub(crate) fn limits(&mut self) -> &mut v1::Limits {
        self.schedule.spec.get_or_insert_default().limits.get_or_insert_default()
    }

    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.schedule.interval = interval.try_into().ok();
    }

    /// With an event for each run, also where the last one had the same result.
    #[must_use]
    pub fn telling_all(mut self) -> Self {
        self.policy().set_emit(v1::Emit::Always);
        self
    }

    /// Yielding above this CPU use of a node, unless they name one.
    pub(crate) fn yielding_above(mut self, node_cpu_percent: u8) -> Self {
        self.policy().node_cpu_percent_max.get_or_insert(node_cpu_percent.into());
        self
    }

    /// Whether memory goes to the nodes of the devices that a process has open.
    pub fn goes_by_devices(&self) -> bool {
        let policy = self.schedule.spec.as_ref().and_then(|spec| spec.policy.as_ref());
        policy.is_some_and(|policy| {
            let goes_home = matches!(policy.placement, None | Some(Placement::Local(_)));
            goes_home && policy.home_rule() == v1::HomeRule::Devices
        })
    }

    /// With memory going to these nodes, whatever is open. No policy has asked for them by name, so no ceiling of pods
    /// holds for that.
    #[must_use]
    pub fn at(mut self, node_ids: &[i32]) -> Self {
        let nodes = v1::NodesPlacement { node_ids: node_ids.to_vec() };
        let policy = self.policy();
        policy.set_home_rule(v1::HomeRule::Unspecified);
        policy.placement = Some(Placement::Nodes(nodes));
        self
    }

    /// With this answer to whether a DMA engine copies.
    pub(crate) fn with_offload(mut self, offload: Offload) -> Self {
        self.policy().set_offload(offload.into());
        self
    }
}

#[cfg(test)]
impl Settings {
    /// The schedule as numalocd reads it: two texts may mean the same.
    pub(crate) fn meant(&self) -> ScheduleSpec {
        ScheduleSpec::without_target(self.schedule()).expect("it was checked")
    }
}

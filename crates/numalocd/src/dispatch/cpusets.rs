//! Runs schedules early when the CPUs or nodes of their workloads' cgroups have changed.

use super::dispatcher::Dispatcher;
use numaloc_api::value::{Schedule, ScheduleState, WorkloadId};
use numaloc_host::Target as HostTarget;
use std::{collections::BTreeSet, ops::Bound};
use tokio::time::Instant;

impl Dispatcher {
    /// At most `most` workloads with their cgroups, after `after` in the order of names. None while no schedule waits for
    /// its next run.
    pub(super) fn watched_workloads(
        &self,
        after: Option<&WorkloadId>,
        most: usize,
    ) -> Vec<(WorkloadId, String)> {
        if !self.records.schedules().values().any(|schedule| waits(schedule)) {
            return Vec::new();
        }
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.records.workloads().range::<WorkloadId, _>((begin, Bound::Unbounded));
        rest.take(most).map(|(id, known)| (id.clone(), known.spec.cgroup.clone())).collect()
    }

    /// Makes each waiting schedule due whose target includes one of these cgroups or an ancestor of one.
    pub(super) fn cpusets_changed(&mut self, cgroups: &BTreeSet<String>) {
        let schedules = self.records.schedules().values().filter(|schedule| waits(schedule));
        let due: Vec<_> = schedules.filter(|it| self.means(it, cgroups)).cloned().collect();
        for schedule in due {
            tracing::info!(
                schedule = %schedule.id,
                "runs now: a cgroup of its target has other CPUs or nodes"
            );
            self.set_due(&schedule.id, Some(Instant::now()));
        }
    }

    fn means(&self, schedule: &Schedule, cgroups: &BTreeSet<String>) -> bool {
        let Ok(owner) = self.creator(&schedule.creator, schedule.creator_gid) else { return false };
        let target = &schedule.spec.migration.target;
        let Ok(selected) = self.select(target, Some(&owner), Some(&schedule.pins)) else {
            return false;
        };
        let is_one = |top: &String| {
            let below = format!("{}/", top.trim_end_matches('/'));
            cgroups.contains(top)
                || cgroups
                    .range(below.clone()..)
                    .next()
                    .is_some_and(|path| path.starts_with(&below))
        };
        selected.aim.members.iter().any(|member| match &member.target {
            HostTarget::Cgroup(path) => is_one(path),
            HostTarget::Pid(_) | HostTarget::Process { .. } | HostTarget::Unit(_) => false,
        })
    }
}

/// Whether the schedule has run before and waits for its next run.
fn waits(schedule: &Schedule) -> bool {
    schedule.state == ScheduleState::Waiting && schedule.last_run.is_some()
}

//! Runs schedules early when the CPUs or nodes of their workloads' cgroups have changed.

use super::{agenda::Changed, dispatcher::Dispatcher};
use numaloc_api::value::{Schedule, ScheduleState, WorkloadId};
use numaloc_core::{Glob, covers_cgroup};
use numaloc_host::Target as HostTarget;
use std::{collections::BTreeSet, ops::Bound};
use tokio::time::Instant;

impl Dispatcher {
    /// At most `most` workloads with their cgroups, after `after` in the order of names. None while no schedule waits
    /// for its next run.
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

    /// Makes each waiting schedule due whose target includes one of these cgroups or an ancestor of one. There may be a
    /// thousand schedules with selectors, so [`Self::tick_cpusets`] takes one after the other.
    pub(super) fn cpusets_changed(&mut self, cgroups: BTreeSet<String>) {
        let earlier = self.cpusets.take().map_or_else(BTreeSet::new, |changed| changed.cgroups);
        let cgroups = cgroups.into_iter().chain(earlier).collect();
        self.cpusets = Some(Changed { cgroups, next: 0 });
    }

    /// Compares one schedule with the cgroups that have changed. Others follow in the dispatcher's next turns, so that
    /// clients are answered in between.
    pub(super) fn tick_cpusets(&mut self) {
        let Some(Changed { cgroups, next }) = self.cpusets.take() else { return };
        let mut left = self.records.schedules().range(next..);
        let Some((&number, schedule)) = left.find(|(_, schedule)| waits(schedule)) else { return };
        if self.means(schedule, &cgroups) {
            let id = schedule.id.clone();
            tracing::info!(schedule = %id, "runs now: a cgroup of its target has other CPUs or nodes");
            self.set_due(&id, Some(Instant::now()));
        }
        self.cpusets = Some(Changed { cgroups, next: number + 1 });
    }

    fn means(&self, schedule: &Schedule, cgroups: &BTreeSet<String>) -> bool {
        let Ok(owner) = self.creator(&schedule.creator, schedule.creator_gid) else { return false };
        let target = &schedule.spec.migration.target;
        let Ok(selected) = self.select(target, Some(&owner), Some(&schedule.pins)) else {
            return false;
        };
        let is_one = |top: &String| {
            let below = format!("{}/", top.trim_end_matches('/'));
            if Glob::is_pattern(top) {
                return cgroups.iter().any(|cgroup| covers_cgroup(top, cgroup));
            }
            cgroups.contains(top)
                || cgroups
                    .range(below.clone()..)
                    .next()
                    .is_some_and(|path| path.starts_with(&below))
        };
        selected.aim.members.iter().any(|member| match &member.target {
            HostTarget::Cgroup(path) => is_one(path),
            _ => false,
        })
    }
}

/// Whether the schedule has run before and waits for its next run.
fn waits(schedule: &Schedule) -> bool {
    schedule.state == ScheduleState::Waiting && schedule.last_run.is_some()
}

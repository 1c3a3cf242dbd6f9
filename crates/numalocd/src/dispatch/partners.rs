//! The registered workloads that may make room for a job.

use super::{
    dispatcher::Dispatcher,
    limits::limits,
    select::{is_named_if, name_of},
};
use crate::access::{Caller, Creators, Grants};
use numaloc_api::value::{Limits, MigrationSpec, QosClass, Schedule, Target, Workload};
use numaloc_core::{Glob, MakeRoom, covers_cgroup};
use numaloc_engine::{Member, Offer, Offers};
use numaloc_executor::RunLimits;
use numaloc_host::Target as HostTarget;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// At most this many workloads are offered to one job: the engine finds the processes of each before it plans.
const MOST: usize = 512;

impl Dispatcher {
    /// The workloads that may make room for a migration of `owner`, whose class applies in `spec`: best-effort
    /// workloads that the owner may have moved. Excluded are workloads that are part of the target, that a schedule
    /// moves (it would bring home what makes room), or that share a cgroup with a workload of a better class. No
    /// workload makes room for best effort.
    pub(super) fn offers(&mut self, spec: &MigrationSpec, owner: &Caller) -> Offers {
        let is_asked = spec.policy.options.make_room == MakeRoom::Exchange;
        if !is_asked || spec.policy.class() == QosClass::Be {
            return Offers::default();
        }
        let own = Limits { timeout: None, hourly_budget_bytes: None, ..spec.limits.clone() };
        let mut best_effort = MigrationSpec { limits: own, ..spec.clone() };
        best_effort.policy.qos_class = Some(QosClass::Be);
        let shared = self.shared_rate.at(self.config().queue.rate_bytes_per_second);
        let limits = limits(&best_effort, &self.config(), shared);
        let limits = RunLimits { rooms: Some(self.rooms.clone()), ..limits };
        Offers { workloads: self.offered(&spec.target, owner), limits }
    }

    fn offered(&self, target: &Target, owner: &Caller) -> Vec<Offer> {
        let mut spared = self.scheduled();
        let all = || self.records.workloads().values();
        let better = all()
            .filter(|known| matches!(known.spec.qos_class, Some(QosClass::Lsr | QosClass::Ls)));
        spared.extend(better.map(|known| known.spec.cgroup.clone()));
        let spared = Spared::new(spared);
        let config = self.config();
        let mut creators = Creators::new(Grants::from(&*config));
        let labels = &target.labels;
        let labelled = (!labels.is_empty()).then(|| self.records.labels().select(labels));
        let is_labelled = |known: &Workload| {
            labelled.as_ref().is_some_and(|labelled| labelled.has(&known.spec.id))
        };
        let fitting = all().filter(|known| {
            known.spec.qos_class == Some(QosClass::Be)
                && owner.may_select(known)
                && !is_named_if(target, known, || is_labelled(known))
                && !spared.meet(&known.spec.cgroup)
        });
        let offers = in_turns(fitting).into_iter().filter_map(|known| {
            let by = creators.get(&known.creator, known.creator_gid)?.authority.clone();
            let target = HostTarget::Cgroup(known.spec.cgroup.clone());
            Some(Offer { member: Member { target, name: name_of(&known.spec) }, by })
        });
        offers.take(MOST).collect()
    }

    /// The cgroups that schedules move.
    fn scheduled(&self) -> BTreeSet<String> {
        let mut cgroups = BTreeSet::new();
        // A relief has the same work make room.
        let moves = |it: &&Arc<Schedule>| it.spec.migration.policy.options.relief.is_none();
        for schedule in self.records.schedules().values().filter(moves) {
            let Ok(owner) = self.creator(&schedule.creator, schedule.creator_gid) else { continue };
            let target = &schedule.spec.migration.target;
            let Ok(selected) = self.select(target, Some(&owner), Some(&schedule.pins)) else {
                continue;
            };
            cgroups.extend(selected.aim.members.into_iter().filter_map(
                |member| match member.target {
                    HostTarget::Cgroup(path) => Some(path),
                    _ => None,
                },
            ));
        }
        cgroups
    }
}

/// One workload of each client, then a second one of each: none fills the list alone.
fn in_turns<'a>(workloads: impl Iterator<Item = &'a Arc<Workload>>) -> Vec<&'a Arc<Workload>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let numbered = workloads.map(|workload| {
        let count = counts.entry(&workload.creator).or_default();
        *count += 1;
        (*count, workload)
    });
    let mut numbered: Vec<_> = numbered.collect();
    // Stable: within a turn they stay in the order of their names.
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, workload)| workload).collect()
}

/// Cgroups that make no room. Patterns are few, and apart: paths are looked up.
#[derive(Debug)]
struct Spared {
    cgroups: BTreeSet<String>,
    patterns: Vec<String>,
}

impl Spared {
    fn new(cgroups: BTreeSet<String>) -> Self {
        let patterns = cgroups.iter().filter(|path| Glob::is_pattern(path)).cloned().collect();
        Self { cgroups, patterns }
    }

    /// Whether one of them is this one, above it or below it.
    fn meet(&self, cgroup: &str) -> bool {
        let path = cgroup.trim_end_matches('/');
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        let mut ancestors = above.chain([path]);
        let below = format!("{path}/");
        let after = (Bound::Included(below.as_str()), Bound::Unbounded);
        let mut later = self.cgroups.range::<str, _>(after);
        self.cgroups.contains("/")
            || ancestors.any(|top| self.cgroups.contains(top))
            || later.next().is_some_and(|path| path.starts_with(&below))
            || self.patterns.iter().any(|pattern| covers_cgroup(pattern, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_meet_in_a_line() {
        let spared = |cgroups: &[&str]| {
            Spared::new(cgroups.iter().map(|&cgroup| cgroup.to_owned()).collect())
        };
        let some = spared(&["/a/b", "/c"]);
        for cgroup in ["/a", "/a/b", "/a/b/c", "/c/", "/c/d", "/"] {
            assert!(some.meet(cgroup), "{cgroup}");
        }
        for cgroup in ["/a/bb", "/ab", "/a/c", "/cc", "/d"] {
            assert!(!some.meet(cgroup), "{cgroup}");
        }
        assert!(spared(&["/"]).meet("/any"));
        let globs = spared(&["/a/b*"]);
        assert!(globs.meet("/a/bb/c") && !globs.meet("/a/c"));
        assert!(!spared(&[]).meet("/any"));
    }
}

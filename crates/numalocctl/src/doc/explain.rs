//! The document of `explain`: the daemon's records about a target.

use numaloc_api::v1;
use numaloc_core::covers_cgroup;
use serde::Serialize;
use std::collections::BTreeSet;

/// The reasons why the daemon moves the memory of a target, or does not.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExplainDoc {
    /// The holds that keep all moves from beginning.
    pub holds: v1::Holds,
    /// The schedules that move memory of the target.
    pub schedules: Vec<ExplainedSchedule>,
    /// Names of the schedules that have not run yet, so that their processes are not known, and that name nothing of
    /// the target.
    pub unknown: Vec<String>,
    /// The jobs that are under way for memory of the target.
    pub jobs: Vec<v1::Job>,
    /// The registered workloads in whose cgroup the target was found.
    pub workloads: Vec<v1::Workload>,
    /// Name of the schedule whose policy the plan has; empty: that of a request without options.
    pub policy_of: String,
    /// The effect that a migration would have now.
    pub plan: Option<v1::PlanMigrationResponse>,
    /// The reason why there is no plan; empty if there is one.
    pub refused: String,
}

/// A schedule with its last run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExplainedSchedule {
    pub schedule: v1::Schedule,
    /// The job of the last run; `None`: there was no run, or its job has been forgotten.
    pub last_job: Option<v1::Job>,
}

/// A target, as far as it is known: the names in a request, and the members found for them.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    target: v1::Target,
    /// Pid and start time of its processes.
    processes: BTreeSet<(i32, i64)>,
}

impl Sought {
    /// The names in a request, the places where its members were found, and their processes.
    pub fn new(
        mut target: v1::Target,
        found: &[v1::FoundMember],
        processes: &[v1::ProcessLocality],
    ) -> Self {
        let cgroups = found.iter().map(|found| found.cgroup.clone());
        target.cgroups.extend(cgroups.filter(|cgroup| !cgroup.is_empty()));
        Self { target, processes: ids(processes).collect() }
    }

    /// Whether a migration of `target` with these pinned processes concerns it. `plan` is the plan of its last run.
    pub fn is_in(
        &self,
        target: Option<&v1::Target>,
        pinned: &[v1::PinnedProcess],
        plan: Option<&v1::Plan>,
    ) -> bool {
        let pinned = pinned.iter().filter_map(|pinned| pinned.process.as_ref());
        let mut pinned = pinned.map(|process| (process.pid, process.start_time_ticks));
        let is_known = |id: &(i32, i64)| self.processes.contains(id);
        pinned.any(|id| is_known(&id))
            || plan.is_some_and(|plan| ids(&plan.processes).any(|id| is_known(&id)))
            || target.is_some_and(|target| self.names(target))
    }

    /// Whether the cgroup of a registered workload is one of the named or found ones.
    pub fn is_of(&self, workload: &v1::Workload) -> bool {
        self.target.cgroups.contains(&workload.cgroup)
            || self.target.containers.contains(&workload.container_id)
            || self.target.pods.contains(&workload.pod_uid)
    }

    /// Whether both name the same thing, or `other` a cgroup around it. Pids are not compared: they may mean earlier
    /// processes.
    fn names(&self, other: &v1::Target) -> bool {
        let service = |unit: &String| match unit.contains('.') {
            true => unit.clone(),
            false => format!("{unit}.service"),
        };
        let units: BTreeSet<_> = self.target.units.iter().map(service).collect();
        let is_around =
            |outer: &String| self.target.cgroups.iter().any(|inner| covers_cgroup(outer, inner));
        let shares = |ours: &[String], theirs: &[String]| ours.iter().any(|it| theirs.contains(it));
        other.cgroups.iter().any(is_around)
            || other.units.iter().any(|unit| units.contains(&service(unit)))
            || shares(&self.target.containers, &other.containers)
            || shares(&self.target.pods, &other.pods)
            || shares(&self.target.virtual_machines, &other.virtual_machines)
            || shares(&self.target.container_labels, &other.container_labels)
            || shares(&self.target.files, &other.files)
            || (self.target.labels.is_some() && self.target.labels == other.labels)
    }
}

/// Pid and start time of processes.
fn ids(processes: &[v1::ProcessLocality]) -> impl Iterator<Item = (i32, i64)> {
    let ids = processes.iter().filter_map(|each| each.process.as_ref());
    ids.map(|id| (id.pid, id.start_time_ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pid: i32, start_time_ticks: i64) -> v1::Plan {
        let process = Some(v1::ProcessId { pid, start_time_ticks });
        let process = v1::ProcessLocality { process, ..Default::default() };
        v1::Plan { processes: vec![process], ..Default::default() }
    }

    fn units(unit: &str) -> v1::Target {
        v1::Target { units: vec![unit.to_owned()], ..Default::default() }
    }

    fn cgroups(cgroup: &str) -> v1::Target {
        v1::Target { cgroups: vec![cgroup.to_owned()], ..Default::default() }
    }

    /// Process 7, which the unit redis has in /system.slice/redis.service.
    fn redis() -> Sought {
        let cgroup = "/system.slice/redis.service".to_owned();
        let found = v1::FoundMember { cgroup, ..Default::default() };
        Sought::new(units("redis"), &[found], &plan(7, 90).processes)
    }

    #[test]
    fn a_schedule_concerns_what_it_names_or_a_cgroup_around_it() {
        let redis = redis();
        for target in [
            units("redis.service"),
            cgroups("/"),
            cgroups("/system.slice"),
            cgroups("/system.slice/redis.service/"),
        ] {
            assert!(redis.is_in(Some(&target), &[], None), "{target:?}");
        }
        for target in [
            units("redis.socket"),
            cgroups("/system.slice/redis"),
            cgroups("/system.slice/redis.service/a"),
            v1::Target::default(),
        ] {
            assert!(!redis.is_in(Some(&target), &[], None), "{target:?}");
        }
    }

    #[test]
    fn a_later_process_with_the_same_pid_is_another_one() {
        let pinned = |start_time_ticks| v1::PinnedProcess {
            pid: 7,
            process: Some(v1::TargetProcess { pid: 7, start_time_ticks, ..Default::default() }),
        };
        let pids = v1::Target { pids: vec![7], ..Default::default() };
        let redis = redis();
        assert!(redis.is_in(Some(&pids), &[pinned(90)], None));
        assert!(!redis.is_in(Some(&pids), &[pinned(89)], None));
        assert!(redis.is_in(None, &[], Some(&plan(7, 90))));
        assert!(!redis.is_in(None, &[], Some(&plan(7, 91))));
    }

    #[test]
    fn a_workload_without_a_container_is_no_container() {
        let workload = v1::Workload { cgroup: "/a".to_owned(), ..Default::default() };
        assert!(!redis().is_of(&workload));
        let cgroup = "/system.slice/redis.service".to_owned();
        assert!(redis().is_of(&v1::Workload { cgroup, ..workload }));
    }
}

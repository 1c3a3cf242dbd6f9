//! Processes that a target gets after it was resolved.
//!
//! A server that forks has other processes all the time, and all of them belong to the cgroup or unit that a target
//! names.

use crate::{
    Roots, Target,
    processes::{
        cgroup,
        found::{Found, Meant},
        lookup::{self, Whereabouts},
        process,
    },
};
use numaloc_core::{Process, Topology};
use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, OnceLock},
};

/// Finds processes that a target has got.
pub trait Arrivals: Debug + Send + Sync {
    /// The processes that belong to the target now, without those whose pid `is_known` names.
    fn arrived(&self, is_known: &dyn Fn(i32) -> bool) -> Vec<Process>;

    /// Whether a process may take part. Called once its memory is held open, so that no other process can take its place
    /// after the answer.
    fn admits(&self, process: &Process) -> bool;
}

/// The cgroups of a target.
#[derive(Debug)]
pub struct Groups {
    roots: Arc<Roots>,
    topology: Topology,
    targets: Vec<(usize, Target)>,
    /// Paths of cgroups, each with the index of its target. They are looked up only once, because that is expensive.
    paths: OnceLock<Vec<(usize, String)>>,
}

impl Groups {
    /// The cgroups of `targets`. `None` if no target names any: a process that is named by its pid gets no others.
    pub fn of<'t>(
        roots: &Roots,
        topology: &Topology,
        targets: impl IntoIterator<Item = &'t Target>,
    ) -> Option<Self> {
        let targets = targets.into_iter().cloned().enumerate();
        let targets: Vec<_> = targets.filter(|(_, target)| target.grows()).collect();
        let (roots, topology) = (Arc::new(roots.clone()), topology.clone());
        (!targets.is_empty()).then_some(Self { roots, topology, targets, paths: OnceLock::new() })
    }

    /// As [`Arrivals::arrived`], each process with the index of its target. A process of several targets comes once for
    /// each. Processes and cgroups that cannot be read are left out.
    pub fn arrived_by_target(&self, is_known: &dyn Fn(i32) -> bool) -> Vec<(usize, Process)> {
        let own_pid = process::own_pid(&self.roots);
        let mut arrived = Vec::new();
        for (index, path) in self.paths.get_or_init(|| self.find_paths()) {
            let pids = cgroup::processes(&self.roots, path).unwrap_or_default();
            let new = pids.into_iter().filter(|&pid| Some(pid) != own_pid && !is_known(pid));
            let read = |pid| process::read(&self.roots, pid, &self.topology).ok();
            arrived.extend(new.filter_map(read).map(|process| (*index, process)));
        }
        arrived
    }

    fn find_paths(&self) -> Vec<(usize, String)> {
        let (indexes, targets): (Vec<usize>, Vec<Target>) = self.targets.iter().cloned().unzip();
        let places = lookup::find(&self.roots, &targets, &|| false);
        let path = |(index, place)| match place {
            Whereabouts::Found(Ok(Found { at: Meant::Cgroup(path), .. })) => Some((index, path)),
            _ => None,
        };
        indexes.into_iter().zip(places).filter_map(path).collect()
    }
}

impl Arrivals for Groups {
    fn arrived(&self, is_known: &dyn Fn(i32) -> bool) -> Vec<Process> {
        let arrived = self.arrived_by_target(is_known).into_iter();
        let by_pid: BTreeMap<i32, Process> =
            arrived.map(|(_, process)| (process.identity.pid, process)).collect();
        by_pid.into_values().collect()
    }

    fn admits(&self, _: &Process) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn only_what_is_not_known_arrives_and_with_its_target() {
        let fake = Fake::new();
        [100, 101, 102].iter().for_each(|&pid| fake.process(pid, "x", &["0"]));
        fake.write("cgroup/cgroup.procs", "");
        fake.write("cgroup/a/cgroup.procs", "100\n101\n");
        fake.write("cgroup/b/cgroup.procs", "102\n");
        let (roots, topology) = (fake.roots(), Topology::default());
        let target = |path: &str| Target::Cgroup(path.into());
        let targets = [target("/a"), Target::Pid(100), target("/b"), target("/none")];
        let groups = Groups::of(&roots, &topology, &targets).expect("cgroups");
        let arrived = groups.arrived_by_target(&|pid| pid == 100);
        let found = arrived.iter().map(|(index, process)| (*index, process.identity.pid));
        assert_eq!(found.collect::<Vec<_>>(), [(0, 101), (2, 102)]);
        assert!(Groups::of(&roots, &topology, &targets[1..2]).is_none(), "no cgroup");
    }
}

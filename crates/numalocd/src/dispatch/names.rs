//! Which workloads have a cgroup, a container id or a pod uid, and which a client has declared together: a target may name
//! thousands of each, among thousands of workloads.

use numaloc_api::value::{Workload, WorkloadId};
use std::collections::{BTreeSet, HashMap};

type Index = HashMap<String, BTreeSet<WorkloadId>>;

/// The names of workloads that several of them may have.
#[derive(Debug, Default)]
pub struct Names {
    cgroups: Index,
    containers: Index,
    pods: Index,
    sets: Index,
}

impl Names {
    /// Adds those of a workload.
    pub fn add(&mut self, workload: &Workload) {
        for (index, name) in self.of(workload) {
            index.entry(name).or_default().insert(workload.spec.id.clone());
        }
    }

    /// Takes away those of a workload.
    pub fn remove(&mut self, workload: &Workload) {
        for (index, name) in self.of(workload) {
            let Some(ids) = index.get_mut(&name) else { continue };
            ids.remove(&workload.spec.id);
            if ids.is_empty() {
                index.remove(&name);
            }
        }
    }

    fn of(&mut self, workload: &Workload) -> impl Iterator<Item = (&mut Index, String)> {
        let spec = &workload.spec;
        let cgroup = Some((&mut self.cgroups, spec.cgroup.clone()));
        let container = spec.container_id.clone().map(|id| (&mut self.containers, id));
        let pod = spec.pod_uid.clone().map(|uid| (&mut self.pods, uid));
        let set = Some((&mut self.sets, set(&workload.creator, spec.source.as_deref())));
        [cgroup, container, pod, set].into_iter().flatten()
    }

    /// The workloads of a cgroup.
    pub fn in_cgroup(&self, path: &str) -> impl Iterator<Item = &WorkloadId> {
        self.cgroups.get(path).into_iter().flatten()
    }

    /// The workloads of a container.
    pub fn in_container(&self, id: &str) -> impl Iterator<Item = &WorkloadId> {
        self.containers.get(id).into_iter().flatten()
    }

    /// The workloads of a pod.
    pub fn in_pod(&self, uid: &str) -> impl Iterator<Item = &WorkloadId> {
        self.pods.get(uid).into_iter().flatten()
    }

    /// The workloads that a client has registered with this source.
    pub fn in_set(&self, creator: &str, source: Option<&str>) -> impl Iterator<Item = &WorkloadId> {
        self.sets.get(&set(creator, source)).into_iter().flatten()
    }
}

/// A source has no slash, so that none looks like another client's.
fn set(creator: &str, source: Option<&str>) -> String {
    format!("{}/{creator}", source.unwrap_or_default())
}

//! Finds workloads by cgroup, container id, pod uid, and the set that they were declared in. Needed because a target may
//! name thousands of each, among thousands of workloads.

use numaloc_api::value::{Workload, WorkloadId};
use std::collections::{BTreeSet, HashMap};

type Index = HashMap<String, BTreeSet<WorkloadId>>;

/// Index of workloads by names that several workloads may share.
#[derive(Debug, Default)]
pub struct Names {
    cgroups: Index,
    containers: Index,
    pods: Index,
    sets: Index,
}

impl Names {
    /// Adds the names of a workload.
    pub fn add(&mut self, workload: &Workload) {
        for (index, name) in self.of(workload) {
            index.entry(name).or_default().insert(workload.spec.id.clone());
        }
    }

    /// Removes the names of a workload.
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

/// The key of a set. A source has no slash, so no key can look like that of another client's set.
fn set(creator: &str, source: Option<&str>) -> String {
    format!("{}/{creator}", source.unwrap_or_default())
}

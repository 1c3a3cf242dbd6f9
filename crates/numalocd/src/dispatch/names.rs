//! Which workloads have a cgroup, a container id or a pod uid: a target may name thousands of each, among thousands of
//! workloads.

use numaloc_api::value::{WorkloadId, WorkloadSpec};
use std::collections::{BTreeSet, HashMap};

type Index = HashMap<String, BTreeSet<WorkloadId>>;

/// The names of workloads that several of them may have.
#[derive(Debug, Default)]
pub struct Names {
    cgroups: Index,
    containers: Index,
    pods: Index,
}

impl Names {
    /// Adds those of a workload.
    pub fn add(&mut self, spec: &WorkloadSpec) {
        for (index, name) in self.of(spec) {
            index.entry(name.to_owned()).or_default().insert(spec.id.clone());
        }
    }

    /// Takes away those of a workload.
    pub fn remove(&mut self, spec: &WorkloadSpec) {
        for (index, name) in self.of(spec) {
            let Some(ids) = index.get_mut(name) else { continue };
            ids.remove(&spec.id);
            if ids.is_empty() {
                index.remove(name);
            }
        }
    }

    fn of<'a>(
        &'a mut self,
        spec: &'a WorkloadSpec,
    ) -> impl Iterator<Item = (&'a mut Index, &'a str)> {
        let cgroup = Some((&mut self.cgroups, spec.cgroup.as_str()));
        let container = spec.container_id.as_deref().map(|id| (&mut self.containers, id));
        let pod = spec.pod_uid.as_deref().map(|uid| (&mut self.pods, uid));
        [cgroup, container, pod].into_iter().flatten()
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
}

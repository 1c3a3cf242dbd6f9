//! Finds workloads by cgroup, container id, pod uid, and the set that they were declared in. Needed because a target
//! may name thousands of each, among thousands of workloads.

use numaloc_api::value::{QosClass, Workload, WorkloadId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type ByName = HashMap<String, BTreeSet<WorkloadId>>;

/// Index of workloads by names that several workloads may share.
#[derive(Debug, Default)]
pub struct WorkloadNames {
    cgroups: ByName,
    containers: ByName,
    pods: ByName,
    sets: ByName,
    /// The classes that clients declare for each cgroup, and the number of workloads that declare them.
    classes: HashMap<String, BTreeMap<DeclaredClass, usize>>,
}

/// A client, its group, and the class that it says a cgroup has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeclaredClass {
    pub creator: String,
    pub creator_gid: Option<u32>,
    pub qos_class: QosClass,
}

impl WorkloadNames {
    /// Adds the names of a workload.
    pub fn add(&mut self, workload: &Workload) {
        for (index, name) in self.of(workload) {
            index.entry(name).or_default().insert(workload.spec.id.clone());
        }
        if let Some(says) = says(workload) {
            let of_cgroup = self.classes.entry(workload.spec.cgroup.clone()).or_default();
            *of_cgroup.entry(says).or_default() += 1;
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
        let cgroup = &workload.spec.cgroup;
        if let Some((says, of_cgroup)) = says(workload).zip(self.classes.get_mut(cgroup)) {
            if let Some(count) = of_cgroup.get_mut(&says).filter(|count| **count > 1) {
                *count -= 1;
                return;
            }
            of_cgroup.remove(&says);
            if of_cgroup.is_empty() {
                self.classes.remove(cgroup);
            }
        }
    }

    fn of(&mut self, workload: &Workload) -> impl Iterator<Item = (&mut ByName, String)> {
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

    /// The classes that clients declare for a cgroup, each once.
    pub fn classes_of(&self, path: &str) -> impl Iterator<Item = &DeclaredClass> {
        self.classes.get(path).into_iter().flat_map(BTreeMap::keys)
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

fn says(workload: &Workload) -> Option<DeclaredClass> {
    let qos_class = workload.spec.qos_class?;
    let (creator, creator_gid) = (workload.creator.clone(), workload.creator_gid);
    Some(DeclaredClass { creator, creator_gid, qos_class })
}

/// The key of a set. A source has no slash, so no key can look like that of another client's set.
fn set(creator: &str, source: Option<&str>) -> String {
    format!("{}/{creator}", source.unwrap_or_default())
}

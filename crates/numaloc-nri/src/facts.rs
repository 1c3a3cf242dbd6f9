//! The facts about a container.

use nri::v1alpha1::{Container, PodSandbox};
use numaloc_policy::{Pod, Resources};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// The source that reported a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToldBy {
    #[default]
    Nri,
    /// containerd's events and its CRI.
    Containerd,
}

impl ToldBy {
    /// The value of the label that names the source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nri => "nri",
            Self::Containerd => "containerd",
        }
    }
}

/// A container that runs, with its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// Its first process; 0 if that is not known.
    pub pid: u32,
    /// Its pod, of whose annotations only those are kept that concern us. Containers of a pod share it.
    pub pod: Arc<Pod>,
    /// The CPUs, nodes and weights of its cgroup.
    pub resources: Resources,
    /// cpuset.cpus as the runtime has set it; empty if it has not.
    pub cpus: String,
    /// cpuset.mems in the same way.
    pub mems: String,
    /// The path of its cgroup; `None` if it does not follow from the runtime's name.
    pub cgroup: Option<String>,
    /// By which way this is known.
    pub told_by: ToldBy,
}

impl Facts {
    /// Takes the facts about a container and its pod from the runtime's messages.
    pub fn new(pod: Arc<Pod>, container: Container) -> Self {
        let linux = container.linux.unwrap_or_default();
        let all = linux.resources.unwrap_or_default();
        let cpu = all.cpu.unwrap_or_default();
        let resources = Resources {
            cpu_shares: cpu.shares.map(|shares| shares.value),
            cpu_quota_us: cpu.quota.map(|quota| quota.value),
            cpu_period_us: cpu.period.map(|period| period.value),
            memory_limit_bytes: all.memory.and_then(|memory| memory.limit).map(|limit| limit.value),
            oom_score_adj: linux.oom_score_adj.map(|adj| adj.value),
        };
        Self {
            id: container.id,
            name: container.name,
            pid: container.pid,
            pod,
            resources,
            cpus: cpu.cpus,
            mems: cpu.mems,
            cgroup: crate::cgroup::path(&linux.cgroups_path),
            told_by: ToldBy::Nri,
        }
    }
}

/// Takes the facts about a pod from the runtime's message.
pub fn pod(sandbox: PodSandbox) -> Pod {
    let PodSandbox { name, uid, namespace, labels, annotations, linux, .. } = sandbox;
    let cgroup_parent = linux.unwrap_or_default().cgroup_parent;
    Pod { namespace, name, uid, labels, annotations, cgroup_parent, ..Pod::default() }.bounded()
}

/// Pods by the ids of their sandboxes. Each container is reported with all of its pod; what all of them have in common
/// is kept once.
#[derive(Debug, Default)]
pub struct Pods(BTreeMap<String, Weak<Pod>>);

impl Pods {
    /// `pod`, or what is the same and kept already.
    pub fn share(&mut self, sandbox: String, pod: Pod) -> Arc<Pod> {
        let known = self.0.get(&sandbox).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| **known == pod) {
            return known;
        }
        self.0.retain(|_, pod| pod.strong_count() > 0);
        let pod = Arc::new(pod);
        self.0.insert(sandbox, Arc::downgrade(&pod));
        pod
    }
}

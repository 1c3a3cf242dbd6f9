//! What is known of a container.

use nri::v1alpha1::{Container, PodSandbox};
use numaloc_policy::{Pod, Resources};
use std::collections::BTreeMap;

/// The way by which a container was told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToldBy {
    /// NRI.
    #[default]
    Nri,
    /// containerd's events and its CRI.
    Containerd,
}

impl ToldBy {
    /// Its name in labels.
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
    /// Its id.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// Its first process; 0 if that is not known.
    pub pid: u32,
    /// Its pod, of whose annotations only those are kept that concern us.
    pub pod: Pod,
    /// What it was given.
    pub resources: Resources,
    /// cpuset.cpus as the runtime has set it; empty if it has not.
    pub cpus: String,
    /// cpuset.mems in the same way.
    pub mems: String,
    /// The path of its cgroup; `None` if the runtime's name of it does not tell.
    pub cgroup: Option<String>,
    /// By which way this is known.
    pub told_by: ToldBy,
}

impl Facts {
    /// What a runtime says of a container and its pod.
    pub fn new(pod: PodSandbox, container: Container) -> Self {
        let PodSandbox { name, uid, namespace, labels, annotations, linux, .. } = pod;
        let cgroup_parent = linux.unwrap_or_default().cgroup_parent;
        let annotations = kept(annotations);
        let pod = Pod { namespace, name, uid, labels, annotations, cgroup_parent };
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

/// The annotations that concern us. A pod may have 256 KiB of others.
pub fn kept(annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_ours = |key: &str| key.starts_with("numaloc.io/") || key.starts_with("koordinator.sh/");
    annotations.into_iter().filter(|(key, _)| is_ours(key)).collect()
}

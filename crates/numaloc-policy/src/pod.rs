//! The facts about a pod and its containers, in the words of NRI and of the Kubernetes API.

use std::collections::BTreeMap;

/// A pod, as far as it decides about policies. An NRI PodSandbox and a Kubernetes Pod both have all of this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The Kubernetes namespace that the pod is in.
    pub namespace: String,
    /// Its name, which is unique within the namespace.
    pub name: String,
    /// Its uid. Static pods have another one in the API than on the node.
    pub uid: String,
    /// Its labels, of which one names the QoS class.
    pub labels: BTreeMap<String, String>,
    /// Its annotations. NRI has them as they were when the sandbox was made.
    pub annotations: BTreeMap<String, String>,
    /// The cgroup that its containers' cgroups are below, in the form of cgroupfs (`/kubepods/burstable/pod...`) or of
    /// systemd (`kubepods-burstable-pod....slice`); empty if it is not known. It shows the pod's class.
    pub cgroup_parent: String,
    /// The labels of its namespace, where they are known: NRI does not have them.
    pub namespace_labels: BTreeMap<String, String>,
    /// The workload that it is of, where that is known: NRI does not have it.
    pub owner: Owner,
}

/// The workload that a pod is of: a Deployment, a StatefulSet, a DaemonSet, a Job, or the pod itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub kind: String,
    pub name: String,
}

/// The label of a Deployment's pods that ends the name of their ReplicaSet
/// (kubernetes/pkg/controller/deployment/sync.go).
const HASH_LABEL: &str = "pod-template-hash";

impl Owner {
    /// The workload of a pod, by the kind and name of the object that makes and removes it, and by its labels.
    pub fn of(
        pod: &str,
        controller: Option<(String, String)>,
        labels: &BTreeMap<String, String>,
    ) -> Self {
        let Some((kind, name)) = controller else {
            return Self { kind: "Pod".to_owned(), name: pod.to_owned() };
        };
        let hash = labels.get(HASH_LABEL).filter(|_| kind == "ReplicaSet");
        match hash.and_then(|hash| name.strip_suffix(hash.as_str())?.strip_suffix('-')) {
            Some(name) => Self { kind: "Deployment".to_owned(), name: name.to_owned() },
            None => Self { kind, name },
        }
    }
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name within the pod.
    pub name: String,
    /// The limits and weights of its cgroup.
    pub resources: Resources,
}

/// A container's resources, as in `linux.resources` of the OCI runtime specification. `None` is a value that the
/// runtime did not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// `cpu.shares`. The kubelet makes 1,024 of each CPU that is requested, and 2 of none.
    pub cpu_shares: Option<u64>,
    /// `cpu.quota` in microseconds; 0 or less: no limit.
    pub cpu_quota_us: Option<i64>,
    /// `cpu.period`: the time that the quota is for, in microseconds.
    pub cpu_period_us: Option<u64>,
    /// `memory.limit` in bytes; 0 or less: no limit.
    pub memory_limit_bytes: Option<i64>,
    /// `oom_score_adj`. The kubelet gives 1,000 to best effort, from 2 to 999 to burstable, and -997 to guaranteed and
    /// critical pods (pkg/kubelet/qos/policy.go).
    pub oom_score_adj: Option<i64>,
}

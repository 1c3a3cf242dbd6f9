//! What is known of a pod and its containers, in the words of NRI and of the Kubernetes API.

use crate::{QOS_LABEL, VALUE_MAX};
use numaloc_api::{LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX};
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
    /// The cgroup that its containers' cgroups are below, in the form of cgroupfs (`/kubepods/burstable/pod...`) or of systemd
    /// (`kubepods-burstable-pod....slice`); empty if it is not known. It says the pod's class.
    pub cgroup_parent: String,
}

impl Pod {
    /// The pod with as much of its labels and annotations as is read. A pod may have 256 KiB of annotations, and more of labels.
    pub fn bounded(mut self) -> Self {
        let is_ours =
            |key: &str| key.starts_with("numaloc.io/") || key.starts_with("koordinator.sh/");
        self.annotations.retain(|key, _| is_ours(key));
        // A character more than is read: then it is known to be too long.
        self.annotations.values_mut().for_each(|value| cut(value, VALUE_MAX + 4));
        let mut labels = 0;
        self.labels.retain(|key, value| {
            let fits = key.len() <= LABEL_KEY_MAX && value.len() <= LABEL_VALUE_MAX;
            labels += usize::from(fits);
            key == QOS_LABEL || (fits && labels <= LABELS_MAX)
        });
        if let Some(class) = self.labels.get_mut(QOS_LABEL) {
            cut(class, LABEL_VALUE_MAX);
        }
        self
    }
}

/// Takes away what is after `most` bytes, and a character that would be cut.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.shrink_to_fit();
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

/// What a container was given, as in `linux.resources` of the OCI runtime specification. `None` is a value that the runtime did
/// not set.
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
    /// `oom_score_adj`. The kubelet gives 1,000 to best effort, from 2 to 999 to burstable, and -997 to guaranteed and critical
    /// pods (pkg/kubelet/qos/policy.go).
    pub oom_score_adj: Option<i64>,
}

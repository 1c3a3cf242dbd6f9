//! Workloads.

use super::{QosClass, WorkloadId};
use std::collections::BTreeMap;

/// What a client registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// The name that it chose.
    pub id: WorkloadId,
    /// Absolute path of its cgroup.
    pub cgroup: String,
    /// Id of its container.
    pub container_id: Option<String>,
    /// Uid of its pod.
    pub pod_uid: Option<String>,
    /// Labels to select it by.
    pub labels: BTreeMap<String, String>,
    /// The class of its jobs that name none.
    pub qos_class: Option<QosClass>,
}

impl WorkloadSpec {
    /// Whether it has all of `labels`.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

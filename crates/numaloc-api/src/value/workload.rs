//! Workloads.

use super::{Page, QosClass, Selector, WorkloadId};
use std::{collections::BTreeMap, time::Duration};

/// What a client registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// The name that it chose.
    pub id: WorkloadId,
    /// Absolute path of its cgroup. Empty in a request: that of its container, which is to be found.
    pub cgroup: String,
    /// Id of its container.
    pub container_id: Option<String>,
    /// Uid of its pod.
    pub pod_uid: Option<String>,
    /// The namespace that it belongs to.
    pub namespace: Option<String>,
    /// Labels to select it by.
    pub labels: BTreeMap<String, String>,
    /// The class of its jobs that name none.
    pub qos_class: Option<QosClass>,
    /// Which of its creator's sets it is in; `None` is a set, too.
    pub source: Option<String>,
    /// How long it stays without being registered or renewed; `None`: until it is unregistered.
    pub ttl: Option<Duration>,
}

impl WorkloadSpec {
    /// Whether `selector` picks it.
    pub fn is_selected(&self, selector: &Selector) -> bool {
        selector.matches(self.namespace.as_deref(), &self.labels)
    }
}

/// Asks to register a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterWorkload {
    /// The workload.
    pub spec: WorkloadSpec,
    /// The etag that what is registered under its name must have.
    pub etag: Option<String>,
}

/// A part of a set of workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadsPart {
    /// Which set; `None` also where an earlier part has said it.
    pub source: Option<String>,
    /// The lease of those that have none of their own.
    pub ttl: Option<Duration>,
    /// The workloads.
    pub specs: Vec<WorkloadSpec>,
    /// Whether it is the last part.
    pub is_last: bool,
}

/// All workloads of a set. No two have the same name, and all are of this source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadSet {
    /// Which of the caller's sets.
    pub source: Option<String>,
    /// The workloads.
    pub specs: Vec<WorkloadSpec>,
}

/// Asks for more time for the workloads of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewWorkloads {
    /// Which of the caller's sets.
    pub source: Option<String>,
}

/// Asks to forget a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnregisterWorkload {
    /// Which one.
    pub id: WorkloadId,
    /// The etag that it must have.
    pub etag: Option<String>,
    /// Whether it is no error if it is not there.
    pub allow_missing: bool,
}

/// Which workloads: those that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFilter {
    /// Registered by this client.
    pub creator: Option<String>,
    /// Of sets of this source.
    pub source: Option<String>,
    /// Whose ids begin like this.
    pub id_prefix: Option<String>,
    /// Picked by this.
    pub selector: Selector,
}

/// Asks for workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListWorkloads {
    /// Which ones.
    pub filter: WorkloadFilter,
    /// How many.
    pub page: Page,
}

/// Asks to be told of workloads and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchWorkloads {
    /// Which ones.
    pub filter: WorkloadFilter,
    /// Go on after this; `None`: all that there are come first. Not checked further.
    pub resume_token: Option<String>,
}

/// Whether it is the full id of a container: 64 hexadecimal digits, by which a cgroup can be told from all others.
pub(crate) fn is_container_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

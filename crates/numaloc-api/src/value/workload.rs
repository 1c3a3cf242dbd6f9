//! Workloads.

use super::{Page, QosClass, Selector, WorkloadId};
use std::{collections::BTreeMap, time::Duration};

/// What a client registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// The name that the client chose.
    pub id: WorkloadId,
    /// Absolute path of its cgroup. In a request it may be empty: the daemon then looks for the cgroup of the container.
    pub cgroup: String,
    /// Id of its container.
    pub container_id: Option<String>,
    /// Uid of its pod.
    pub pod_uid: Option<String>,
    /// The namespace that it belongs to.
    pub namespace: Option<String>,
    /// Labels for selectors.
    pub labels: BTreeMap<String, String>,
    /// The class of jobs on it that name no class themselves.
    pub qos_class: Option<QosClass>,
    /// Which set of its creator it belongs to; `None` is a set, too.
    pub source: Option<String>,
    /// How long it stays without being registered or renewed; `None`: until it is unregistered.
    pub ttl: Option<Duration>,
}

impl WorkloadSpec {
    /// Whether `selector` selects it.
    pub fn is_selected(&self, selector: &Selector) -> bool {
        selector.matches(self.namespace.as_deref(), &self.labels)
    }
}

/// Asks to register a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterWorkload {
    /// The workload.
    pub spec: WorkloadSpec,
    /// The etag that the workload registered under its name must have.
    pub etag: Option<String>,
}

/// A part of a set of workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadsPart {
    /// Which set. `None` in a later part means the set of the first part.
    pub source: Option<String>,
    /// The lease of workloads that have none of their own.
    pub ttl: Option<Duration>,
    /// The workloads.
    pub specs: Vec<WorkloadSpec>,
    /// Whether it is the last part.
    pub is_last: bool,
}

/// All workloads of a set. Each has another name, and all have this source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadSet {
    /// Which set of the caller.
    pub source: Option<String>,
    /// The workloads.
    pub specs: Vec<WorkloadSpec>,
}

/// Asks to renew the leases of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewWorkloads {
    /// Which set of the caller.
    pub source: Option<String>,
}

/// Asks to unregister a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnregisterWorkload {
    /// The workload.
    pub id: WorkloadId,
    /// The etag that it must have.
    pub etag: Option<String>,
    /// Whether the call succeeds if there is no such workload.
    pub allow_missing: bool,
}

/// Which workloads: those that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFilter {
    /// Registered by this client.
    pub creator: Option<String>,
    /// With this source.
    pub source: Option<String>,
    /// Whose ids begin with this text.
    pub id_prefix: Option<String>,
    /// Selected by this.
    pub selector: Selector,
}

/// Asks for workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListWorkloads {
    /// Which workloads.
    pub filter: WorkloadFilter,
    /// Which page.
    pub page: Page,
}

/// Asks for workloads and their changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchWorkloads {
    /// Which workloads.
    pub filter: WorkloadFilter,
    /// Continue after the answer with this token; `None`: all workloads come first. It is not checked yet.
    pub resume_token: Option<String>,
}

/// Whether `id` is a full container id: 64 hexadecimal digits. Only a full id belongs to one cgroup for certain.
pub(crate) fn is_container_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

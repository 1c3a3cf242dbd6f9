//! What clients registered with the daemon.

use crate::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `workloads` shows.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadsDoc {
    /// The workloads.
    pub workloads: Vec<WorkloadDoc>,
}

/// A workload.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadDoc {
    /// `workloads/redis`.
    pub name: String,
    /// Its cgroup.
    pub cgroup: String,
    /// Id of its container.
    pub container_id: Option<String>,
    /// Uid of its pod.
    pub pod_uid: Option<String>,
    /// Labels for selectors.
    pub labels: BTreeMap<String, String>,
    /// The class of jobs on it that name no class themselves: `lsr`, `ls` or `be`.
    pub qos_class: Option<String>,
    /// When it was registered first.
    pub create_time: Option<Time>,
    /// Who registered it.
    pub creator: String,
    /// The namespace that it belongs to.
    pub namespace: Option<String>,
    /// Which set of its creator it belongs to.
    pub source: Option<String>,
    /// How long it stays without being registered or renewed.
    pub ttl_seconds: Option<f64>,
    /// When its lease ends unless it is renewed.
    pub expire_time: Option<Time>,
    /// Changes with each change of it.
    pub etag: String,
}

/// What `workloads replace` shows.
#[derive(Clone, Debug, Serialize)]
pub struct ReplacedDoc {
    /// How many workloads are new or have changed.
    pub written_count: u64,
    /// How many workloads were registered with the same values already.
    pub unchanged_count: u64,
    /// How many workloads were forgotten.
    pub removed_count: u64,
    /// Names of workloads that were left out: their container has no cgroup, or several.
    pub missing: Vec<String>,
}

/// What `workloads renew` shows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RenewedDoc {
    /// How many workloads the set has.
    pub workload_count: u64,
}

/// What `schedules delete` and `workloads unregister` show.
#[derive(Clone, Debug, Serialize)]
pub struct RemovedDoc {
    /// Names of the records that were removed.
    pub removed: Vec<String>,
}

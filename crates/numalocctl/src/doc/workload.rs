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
    /// Labels to select it by.
    pub labels: BTreeMap<String, String>,
    /// The class of its jobs that name none: `lsr`, `ls` or `be`.
    pub qos_class: Option<String>,
    /// When it was registered.
    pub create_time: Option<Time>,
    /// Who registered it.
    pub creator: String,
    /// The namespace that it belongs to.
    pub namespace: Option<String>,
    /// Which of its creator's sets it is in.
    pub source: Option<String>,
    /// How long it stays without being registered or renewed.
    pub ttl_seconds: Option<f64>,
    /// When it is forgotten, unless it is renewed before.
    pub expire_time: Option<Time>,
    /// Changes with each change of it.
    pub etag: String,
}

/// What `workloads replace` shows.
#[derive(Clone, Debug, Serialize)]
pub struct ReplacedDoc {
    /// How many are new or have changed.
    pub written_count: u64,
    /// How many have been there as they are.
    pub unchanged_count: u64,
    /// How many have been forgotten.
    pub removed_count: u64,
    /// Names of those that were left out: their container has no cgroup, or several.
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
    /// Names of what is no more.
    pub removed: Vec<String>,
}

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
}

/// What `schedules delete` and `workloads unregister` show.
#[derive(Clone, Debug, Serialize)]
pub struct RemovedDoc {
    /// Names of what is no more.
    pub removed: Vec<String>,
}

//! Workloads: the names and labels that clients give to cgroups.

use super::{QosClass, Selector, WorkloadId};
use crate::{Problem, Violations};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The registration of a cgroup by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// The name that the client chose.
    pub id: WorkloadId,
    /// Absolute path of its cgroup. In a request it may be empty: the daemon then looks for the cgroup of the container.
    pub cgroup: String,
    /// The container's id at its runtime; `None`: no container.
    pub container_id: Option<String>,
    /// The uid of the pod; `None`: no pod.
    pub pod_uid: Option<String>,
    /// The namespace that it belongs to.
    pub namespace: Option<String>,
    /// Labels that the selectors of targets can choose it by.
    pub labels: BTreeMap<String, String>,
    /// The class of jobs on it that name no class themselves.
    pub qos_class: Option<QosClass>,
    /// The set of its creator that it belongs to; `None` is a set, too.
    pub source: Option<String>,
    /// Time for which it stays without being registered or renewed; `None`: until it is unregistered.
    pub ttl: Option<Duration>,
}

impl WorkloadSpec {
    /// A workload of which only id and cgroup are known.
    pub fn new(id: WorkloadId, cgroup: impl Into<String>) -> Self {
        Self {
            id,
            cgroup: cgroup.into(),
            container_id: None,
            pod_uid: None,
            namespace: None,
            labels: BTreeMap::new(),
            qos_class: None,
            source: None,
            ttl: None,
        }
    }

    /// Whether its labels and namespace meet the selector.
    pub fn is_selected(&self, selector: &Selector) -> bool {
        selector.matches(self.namespace.as_deref(), &self.labels)
    }

    /// Adds violations if neither its cgroup is given nor a container whose cgroup can be looked for. `path` is where the workload is
    /// within the message: empty, or ending in a dot.
    pub(crate) fn check_place(
        path: &str,
        cgroup: &str,
        container_id: Option<&str>,
        bad: &mut Violations,
    ) {
        match container_id {
            _ if !cgroup.is_empty() => {}
            None => bad.push(format!("{path}cgroup"), Problem::Missing),
            Some(id) if is_container_id(id) => {}
            Some(_) => {
                let expected = "of 64 hexadecimal digits where no cgroup is given";
                bad.push(format!("{path}container_id"), Problem::Malformed { expected });
            }
        }
    }
}

/// A field of [`WorkloadSpec`] that a mask can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is named like the field of `WorkloadSpec`")]
pub enum WorkloadField {
    Cgroup,
    ContainerId,
    PodUid,
    Namespace,
    Labels,
    QosClass,
    Source,
    Ttl,
}

impl WorkloadField {
    /// All fields, each with its path in a field mask.
    pub const ALL: [(&str, Self); 8] = [
        ("cgroup", Self::Cgroup),
        ("container_id", Self::ContainerId),
        ("pod_uid", Self::PodUid),
        ("namespace", Self::Namespace),
        ("labels", Self::Labels),
        ("qos_class", Self::QosClass),
        ("source", Self::Source),
        ("ttl", Self::Ttl),
    ];
}

/// Asks to register a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterWorkload {
    /// The workload with the values that it is to have.
    pub spec: WorkloadSpec,
    /// The fields of the registration that change; `None`: it is registered or replaced as a whole.
    pub mask: Option<BTreeSet<WorkloadField>>,
    /// The etag that the workload registered under its name must have.
    pub etag: Option<String>,
    /// Whether the call fails if a workload is registered under its name.
    pub create_only: bool,
    /// With a mask: whether the workload is registered as a whole if there is none under its name.
    pub allow_missing: bool,
    /// Only check whether the workload could be registered.
    pub validate_only: bool,
    /// Makes the request safe to repeat.
    pub request_id: Option<String>,
}

impl RegisterWorkload {
    /// Registers or replaces a workload as a whole.
    pub fn new(spec: WorkloadSpec) -> Self {
        Self {
            spec,
            mask: None,
            etag: None,
            create_only: false,
            allow_missing: false,
            validate_only: false,
            request_id: None,
        }
    }

    /// The workload that results where `known` is registered under the name. Its cgroup is empty if the daemon is to look for the one
    /// of its container.
    ///
    /// # Errors
    /// The fields that the mask names and the others contradict each other.
    pub fn over(&self, known: &WorkloadSpec) -> Result<WorkloadSpec, Violations> {
        let Some(mask) = &self.mask else { return Ok(self.spec.clone()) };
        let (asked, mut spec) = (self.spec.clone(), known.clone());
        for field in mask {
            match field {
                WorkloadField::Cgroup => spec.cgroup.clone_from(&asked.cgroup),
                WorkloadField::ContainerId => spec.container_id.clone_from(&asked.container_id),
                WorkloadField::PodUid => spec.pod_uid.clone_from(&asked.pod_uid),
                WorkloadField::Namespace => spec.namespace.clone_from(&asked.namespace),
                WorkloadField::Labels => spec.labels.clone_from(&asked.labels),
                WorkloadField::QosClass => spec.qos_class = asked.qos_class,
                WorkloadField::Source => spec.source.clone_from(&asked.source),
                WorkloadField::Ttl => spec.ttl = asked.ttl,
            }
        }
        let mut bad = Violations::default();
        let container_id = spec.container_id.as_deref();
        WorkloadSpec::check_place("workload.", &spec.cgroup, container_id, &mut bad);
        bad.or(spec)
    }
}

/// A part of a set of workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadsPart {
    /// The set of the caller. `None` in a later part means the set of the first part.
    pub source: Option<String>,
    /// The lease of workloads that have none of their own.
    pub ttl: Option<Duration>,
    /// Workloads of the set, up to the limit of a part.
    pub specs: Vec<WorkloadSpec>,
    /// Whether it is the last part.
    pub is_last: bool,
    /// Only check whether the set could be declared.
    pub validate_only: bool,
}

/// All workloads of a set. Each has another name, and all have this source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadSet {
    /// The set of the caller.
    pub source: Option<String>,
    /// All workloads that the source has from now on.
    pub specs: Vec<WorkloadSpec>,
    /// Only check whether the set could be declared.
    pub validate_only: bool,
}

/// Asks to renew the leases of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewWorkloads {
    /// The set of the caller.
    pub source: Option<String>,
}

/// Asks to unregister a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnregisterWorkload {
    /// The workload that is to be unregistered.
    pub id: WorkloadId,
    /// The etag that it must have.
    pub etag: Option<String>,
    /// Whether the call succeeds if the workload does not exist.
    pub allow_missing: bool,
    /// Only check whether the workload could be unregistered.
    pub validate_only: bool,
}

/// Selects the workloads that meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFilter {
    /// Only workloads of this client, for example `uid:1000`.
    pub creator: Option<String>,
    /// Only workloads of the set that has this source.
    pub source: Option<String>,
    /// A prefix of the ids.
    pub id_prefix: Option<String>,
    /// Only workloads whose labels meet this selector.
    pub selector: Selector,
}

/// Whether `id` is a full container id: 64 hexadecimal digits. Only a full id belongs to one cgroup for certain.
fn is_container_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

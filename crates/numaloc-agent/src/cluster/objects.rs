//! Objects of the cluster, as far as they are read: a pod has many fields, and its node many pods.

use numaloc_policy::{PolicyReach, STATUS_KEY};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::collections::BTreeMap;

/// An object that can be followed.
pub trait Object: DeserializeOwned + Send {
    fn meta(&self) -> &Meta;
}

#[derive(Debug, Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub struct List<T> {
    pub metadata: ListMeta,
    #[serde(default = "Vec::new", deserialize_with = "or_none")]
    pub items: Vec<T>,
}

/// The version of the cluster's state that a list shows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    pub resource_version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodObject {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMapObject {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_none")]
    pub data: BTreeMap<String, String>,
}

/// Any object of which only the metadata is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MetaObject {
    pub metadata: Meta,
}

/// A policy, of which all is read.
#[derive(Clone, Debug, Default)]
pub struct PolicyObject {
    pub metadata: Meta,
    pub whole: serde_json::Value,
}

impl<'de> Deserialize<'de> for PolicyObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let whole = serde_json::Value::deserialize(from)?;
        let MetaObject { metadata } =
            MetaObject::deserialize(&whole).map_err(serde::de::Error::custom)?;
        Ok(Self { metadata, whole })
    }
}

/// A NodeMemoryLocality, as far as other agents read it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeObject {
    pub metadata: Meta,
    pub status: NodeReport,
}

/// What an agent reports about policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeReport {
    /// When it was written, as RFC 3339 has it.
    pub observed_time: String,
    #[serde(deserialize_with = "or_none")]
    pub policies: Vec<PolicyReach>,
}

/// A Lease of `coordination.k8s.io/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeaseObject {
    pub metadata: Meta,
    #[serde(deserialize_with = "or_none")]
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    #[serde(deserialize_with = "or_none")]
    pub holder_identity: String,
    #[serde(deserialize_with = "or_none")]
    pub lease_transitions: u64,
}

/// The metadata that all objects have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    /// The number of its specification, for objects that have one.
    pub generation: u64,
    /// When it was created, as RFC 3339 has it; empty if that is not known.
    #[serde(deserialize_with = "or_none")]
    pub creation_timestamp: String,
    #[serde(deserialize_with = "or_none")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_none")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_none")]
    pub owner_references: Vec<OwnerReference>,
    /// The last writer of the status that koordlet and we write; `None` if it was never written.
    #[serde(rename = "managedFields", deserialize_with = "status_writer")]
    pub status_writer: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    pub kind: String,
    pub name: String,
    /// Whether it makes and removes the object.
    pub controller: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub containers: Vec<ContainerSpec>,
    #[serde(deserialize_with = "or_none")]
    pub init_containers: Vec<ContainerSpec>,
    pub restart_policy: String,
    /// The resources of the pod as a whole.
    pub resources: ContainerResources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerSpec {
    pub name: String,
    pub resources: ContainerResources,
    /// When it is started again, if that differs from its pod's; `Always` makes an init container a sidecar.
    pub restart_policy: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerResources {
    #[serde(deserialize_with = "or_none")]
    pub requests: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_none")]
    pub limits: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodState {
    pub phase: String,
    pub qos_class: String,
    #[serde(deserialize_with = "or_none")]
    pub container_statuses: Vec<ContainerState>,
    #[serde(deserialize_with = "or_none")]
    pub init_container_statuses: Vec<ContainerState>,
    /// The resources that the kubelet has given the pod as a whole, where they can be changed while it runs.
    #[serde(deserialize_with = "or_none")]
    pub allocated_resources: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerState {
    pub name: String,
    /// `containerd://<id>`; empty before it was made.
    #[serde(rename = "containerID")]
    pub container_id: String,
    pub state: State,
    /// The resources that the kubelet has given it; they follow the specification later.
    #[serde(deserialize_with = "or_none")]
    pub allocated_resources: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct State {
    pub running: Option<serde::de::IgnoredAny>,
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    pub exit_code: i32,
}

impl Object for PodObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for ConfigMapObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for PolicyObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for NodeObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Object for MetaObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// `null` counts as missing.
fn or_none<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// The owner of the annotation [`STATUS_KEY`], by `managedFields`: the last one that has written it.
fn status_writer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Managed {
        manager: String,
        time: String,
        fields_v1: Fields,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Fields {
        #[serde(rename = "f:metadata")]
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        #[serde(rename = "f:annotations")]
        annotations: BTreeMap<String, serde::de::IgnoredAny>,
    }
    let managed: Option<Vec<Managed>> = Option::deserialize(from)?;
    let key = format!("f:{STATUS_KEY}");
    let owns = |managed: &Managed| managed.fields_v1.metadata.annotations.contains_key(&key);
    let owners = managed.unwrap_or_default().into_iter().filter(owns);
    // Their times are of RFC 3339 in UTC, so they are ordered as texts.
    let last = owners.max_by(|one, other| one.time.cmp(&other.time));
    Ok(last.map(|managed| managed.manager))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_anything_is_read_and_null_counts_as_missing() {
        for text in [
            "{}",
            r#"{"metadata": {"labels": null, "annotations": null, "managedFields": null}, "spec": {}, "status": {"containerStatuses": null}}"#,
        ] {
            let pod: PodObject = serde_json::from_str(text).expect("it is read");
            assert!(pod.status.container_statuses.is_empty() && pod.metadata.name.is_empty());
        }
    }

    #[test]
    fn who_has_written_the_status_is_told_by_its_managed_fields() {
        let entry = |manager: &str, time: &str, key: &str| {
            format!(
                r#"{{"manager": "{manager}", "time": "{time}", "fieldsType": "FieldsV1", "subresource": "status",
                "fieldsV1": {{"f:metadata": {{"f:annotations": {{".": {{}}, "f:{key}": {{}}}}}}, "f:status": {{"f:phase": {{}}}}}}}}"#
            )
        };
        let others = entry("kubectl-annotate", "2026-11-26T12:00:00Z", "numaloc.io/policy");
        let koordlet = entry("koordlet", "2026-11-26T12:00:01Z", STATUS_KEY);
        let ours = entry("numaloc-agent", "2026-11-26T12:00:02Z", STATUS_KEY);
        for (entries, expected) in [
            (vec![&others], None),
            (vec![&others, &koordlet], Some("koordlet")),
            (vec![&ours, &koordlet], Some("numaloc-agent")),
        ] {
            let entries: Vec<_> = entries.into_iter().cloned().collect();
            let text = format!(r#"{{"metadata": {{"managedFields": [{}]}}}}"#, entries.join(","));
            let pod: PodObject = serde_json::from_str(&text).expect("it is read");
            assert_eq!(pod.metadata.status_writer.as_deref(), expected);
        }
    }
}

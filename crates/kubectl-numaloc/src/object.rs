//! Fields of objects, and the paths of their kinds.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// Paths of lists.
pub const NODES: &str = "/api/v1/nodes";
pub const PODS: &str = "/api/v1/pods";
pub const NAMESPACES: &str = "/api/v1/namespaces";
/// The objects of the agents.
pub const NODE_LOCALITIES: &str = "/apis/numaloc.io/v1alpha1/nodememorylocalities";
pub const CLUSTER_POLICIES: &str = "/apis/numaloc.io/v1alpha1/clustermemorylocalitypolicies";
/// Policies of all namespaces.
pub const ALL_POLICIES: &str = "/apis/numaloc.io/v1alpha1/memorylocalitypolicies";

/// The path of the policies of a namespace.
pub fn policies(namespace: &str) -> String {
    format!("/apis/numaloc.io/v1alpha1/namespaces/{namespace}/memorylocalitypolicies")
}

/// The path of a namespace's pods.
pub fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// A text at a JSON pointer; empty if it is missing.
pub fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A number at a JSON pointer; 0 if it is missing.
pub fn number(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The elements of a list at a JSON pointer.
pub fn list<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// An annotation of an object; `None`: it does not have it.
pub fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

pub fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels");
    labels.and_then(|labels| serde_json::from_value(labels.clone()).ok()).unwrap_or_default()
}

/// A condition of a NodeMemoryLocality.
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    list(object, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

/// The time elapsed since a time; `None` if the text is not a time.
pub fn ago(text: &str, now: SystemTime) -> Option<Duration> {
    let stamp: prost_types::Timestamp = text.parse().ok()?;
    let time = SystemTime::try_from(stamp).ok()?;
    Some(now.duration_since(time).unwrap_or_default())
}

/// A duration as kubectl shows ages: `45s`, `12m`, `3h`, `2d`.
pub fn age(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

//! Conditions of objects, as Kubernetes has them.

use crate::{cut::cut, time};
use numaloc_config::written::shown;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::SystemTime;

/// Longest message of a condition, in bytes: what is not printed is escaped, and takes ten.
const MESSAGE_MAX: usize = 200;

/// A condition as Kubernetes has them (`metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Its subject, for example `DaemonReachable`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The cause in one word, for programs.
    pub reason: String,
    /// The cause as a sentence, for people.
    pub message: String,
    /// Since when, in the form of RFC 3339.
    pub last_transition_time: String,
    /// The generation of the object that it is about, where it is about one.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(generation: &u64) -> bool {
    *generation == 0
}

impl Condition {
    /// A condition that holds, or does not, since this time.
    pub fn new(kind: &str, holds: bool, reason: &str, message: &str, since: SystemTime) -> Self {
        let status = if holds { "True" } else { "False" };
        let mut message = shown(message, MESSAGE_MAX);
        cut(&mut message, MESSAGE_MAX);
        Self {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: time::written(since),
            observed_generation: 0,
        }
    }

    /// Its content, without the time.
    pub(super) fn says(&self) -> (&str, &str, &str) {
        (&self.kind, &self.status, &self.reason)
    }
}

/// The schema of a list of conditions.
pub fn conditions() -> Value {
    let text = |longest: u32| json!({"type": "string", "maxLength": longest});
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text(316), "status": {"type": "string", "enum": ["True", "False", "Unknown"]}, "reason": text(1024),
            "message": text(32768), "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
    });
    keyed("type", 16, condition)
}

/// The schema of a list whose elements are identified by a key.
pub fn keyed(key: &str, most: usize, items: Value) -> Value {
    json!({
        "type": "array", "maxItems": most, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], "items": items,
    })
}

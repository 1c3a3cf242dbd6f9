//! The report of the agents about a policy, in its status. Each agent reports what the policy has reached on its node in
//! the NodeMemoryLocality of the node, and one of them sums these up.

use super::{
    condition::{Condition, conditions, keyed},
    rollout::NODES_MAX,
};
use crate::{cut::cut, time};
use numaloc_config::written::shown;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::SystemTime;

/// Most workloads of a node that are listed for a policy.
const WORKLOADS_MAX: usize = 8;
/// Longest message of an error on a node, in bytes.
const ERROR_MAX: usize = 120;
/// The condition that reports whether a policy is understood.
const ACCEPTED: &str = "Accepted";

/// What a policy has reached on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyReach {
    /// The uid of the policy.
    pub uid: String,
    /// Pods for which it has decided.
    pub pods: u64,
    /// Those of them whose first run has not begun.
    pub waiting_pods: u64,
    /// The workloads with pods whose first run waits only for a turn, each as a number of its name.
    pub waiting: Vec<String>,
    /// The workloads with pods whose first run is under way.
    pub running: Vec<String>,
    /// The last turn of the node in which nothing is left to do; 0: there is none.
    pub done_turn: u64,
    /// An error of a run, or of a request for one; empty: there is none.
    pub error: String,
}

impl PolicyReach {
    /// Whether first runs of the policy take turns here, or did.
    pub fn takes_turns(&self) -> bool {
        !self.waiting.is_empty() || !self.running.is_empty() || self.done_turn > 0
    }

    /// What the one who gives turns waits for.
    pub fn turn(&self) -> impl PartialEq + use<> {
        (self.uid.clone(), self.waiting.clone(), self.running.clone(), self.done_turn)
    }

    pub(super) fn weight(&self) -> (bool, u64) {
        (!self.waiting.is_empty() || !self.running.is_empty(), self.pods)
    }

    /// Keeps what an object may have. Workloads that are running come before those that wait.
    pub(super) fn bound(&mut self) {
        self.running.truncate(WORKLOADS_MAX);
        self.waiting.truncate(WORKLOADS_MAX);
        self.error = shown(&self.error, ERROR_MAX);
        cut(&mut self.error, ERROR_MAX);
    }
}

/// The status of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyStatus {
    /// The generation of the policy that it is about.
    pub observed_generation: u64,
    pub conditions: Vec<Condition>,
    /// Nodes with pods for which it has decided.
    pub nodes: u64,
    pub pods: u64,
    /// Pods whose first run has not begun.
    pub waiting_pods: u64,
    /// The error of one of the nodes.
    pub last_error: Option<LastError>,
    /// The nodes on which first runs may be under way now, if they take turns.
    pub turns: Vec<Turn>,
}

/// An error on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LastError {
    pub node: String,
    pub message: String,
}

/// The turn of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Turn {
    pub node: String,
    /// Tells it from other turns of the node: later ones have higher numbers.
    pub id: u64,
    /// The workloads of which first runs may begin, each as a number of its name.
    pub workloads: Vec<String>,
}

impl PolicyStatus {
    /// The status in an object. One that cannot be read counts as missing.
    pub fn of(object: &Value) -> Self {
        let status = object.get("status").cloned().unwrap_or_default();
        serde_json::from_value(status).unwrap_or_default()
    }

    /// The turn of a node.
    pub fn turn_of(&self, node: &str) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.node == node)
    }

    /// The condition that reports whether the policy is understood, and why not. It has the time of the last change.
    pub fn accept(&mut self, generation: u64, problem: Option<&str>, now: SystemTime) {
        self.observed_generation = generation;
        let (reason, message) = problem.map_or(("Valid", ""), |problem| ("Invalid", problem));
        let mut accepted = Condition::new(ACCEPTED, problem.is_none(), reason, message, now);
        accepted.observed_generation = generation;
        let before = self.conditions.iter().find(|condition| condition.kind == ACCEPTED);
        if let Some(before) = before.filter(|before| before.status == accepted.status) {
            accepted.last_transition_time.clone_from(&before.last_transition_time);
        }
        self.conditions = vec![accepted];
    }

    /// Whether what is worth a write at once is the same as in another one: what `kubectl wait` and the agents wait for.
    pub fn is_as_urgent(&self, other: &Self) -> bool {
        let urgent = |of: &Self| (of.observed_generation, of.conditions.clone(), of.turns.clone());
        urgent(self) == urgent(other)
    }
}

/// When an object was last changed, its status aside.
pub fn changed(object: &Value) -> Option<SystemTime> {
    let managed = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let is_of_status =
        |entry: &&Value| entry.get("subresource").and_then(Value::as_str) == Some("status");
    let entries = managed.into_iter().flatten().filter(|entry| !is_of_status(entry));
    let created = object.pointer("/metadata/creationTimestamp");
    let times = entries.filter_map(|entry| entry.get("time")).chain(created);
    times.filter_map(|at| time::read(at.as_str()?)).max()
}

/// The schema of [`PolicyReach`].
pub fn reach_definition() -> Value {
    let count = || json!({"type": "integer", "format": "int64", "minimum": 0});
    json!({
        "type": "object",
        "required": ["uid"],
        "properties": {
            "uid": {"type": "string", "maxLength": 63}, "pods": count(), "waitingPods": count(),
            "waiting": workloads(), "running": workloads(), "doneTurn": count(), "error": {"type": "string", "maxLength": 4 * ERROR_MAX},
        },
    })
}

fn workloads() -> Value {
    let items = json!({"type": "string", "maxLength": 16});
    json!({"type": "array", "maxItems": WORKLOADS_MAX, "x-kubernetes-list-type": "set", "items": items})
}

/// The schema of [`PolicyStatus`].
pub fn definition() -> Value {
    let count = |description: &str| json!({"type": "integer", "format": "int64", "minimum": 0, "description": description});
    let turn = json!({
        "type": "object",
        "required": ["node"],
        "properties": {
            "node": {"type": "string", "maxLength": 253}, "id": {"type": "integer", "format": "int64", "minimum": 0},
            "workloads": workloads(),
        },
    });
    let error = json!({
        "type": "object", "nullable": true,
        "description": "An error of a run of this policy, or of a request for one.",
        "properties": {"node": {"type": "string", "maxLength": 253}, "message": {"type": "string", "maxLength": 4 * ERROR_MAX}},
    });
    json!({
        "type": "object",
        "description": "What the agents report about the policy. One of them writes it.",
        "properties": {
            "observedGeneration": count("The generation of the policy that the status is about."),
            "conditions": conditions(),
            "nodes": count("Nodes with pods for which it has decided."),
            "pods": count("Pods for which it has decided."),
            "waitingPods": count("Pods whose first run has not begun."),
            "lastError": error,
            "turns": keyed("node", NODES_MAX.into(), turn),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_condition_has_the_time_of_its_last_change() {
        let mut status = PolicyStatus::default();
        let mut seen = Vec::new();
        for (generation, problem, seconds) in [(1, None, 1), (2, None, 2), (3, Some("no"), 3)] {
            status.accept(generation, problem, UNIX_EPOCH + Duration::from_secs(seconds));
            let accepted = &status.conditions[0];
            assert_eq!(accepted.observed_generation, status.observed_generation);
            seen.push((accepted.status.clone(), accepted.last_transition_time.clone()));
        }
        let expected = [("True", 1), ("True", 1), ("False", 3)];
        let expected =
            expected.map(|(status, at)| (status.to_owned(), format!("1970-01-01T00:00:0{at}Z")));
        assert_eq!(seen, expected);
        let object = json!({"status": serde_json::to_value(&status).expect("JSON")});
        assert_eq!(PolicyStatus::of(&object), status);
        assert_eq!(PolicyStatus::of(&json!({"status": {"nodes": "x"}})), PolicyStatus::default());
    }

    #[test]
    fn writes_of_the_status_are_no_changes_of_a_policy() {
        let entry = |time: &str, part: &str| json!({"time": time, "subresource": part});
        let object = json!({"metadata": {
            "creationTimestamp": "1970-01-01T00:00:01Z",
            "managedFields": [
                {"time": "1970-01-01T00:00:02Z"}, entry("1970-01-01T00:00:09Z", "status"), entry("1970-01-01T00:00:03Z", ""),
            ],
        }});
        assert_eq!(changed(&object), Some(UNIX_EPOCH + Duration::from_secs(3)));
        assert_eq!(changed(&json!({"metadata": {}})), None);
    }
}

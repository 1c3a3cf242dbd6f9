//! The status of a policy, from the reports of all nodes. Pure.

use super::{reports::Reached, turns::turns};
use crate::known::PolicyFacts;
use numaloc_policy::{KnownPolicy, LastError, PolicyReach, PolicyStatus};
use std::time::SystemTime;

/// The status of a policy after the one that its object has.
pub fn status(
    object: &PolicyFacts,
    policy: &KnownPolicy,
    nodes: &Reached,
    now: SystemTime,
) -> PolicyStatus {
    let reached: Vec<(&str, &PolicyReach)> = nodes
        .iter()
        .filter_map(|(node, all)| {
            Some((node.as_str(), all.iter().find(|of| of.uid == object.uid)?))
        })
        .collect();
    let sum = |count: fn(&PolicyReach) -> u64| reached.iter().map(|(_, of)| count(of)).sum();
    let mut status = PolicyStatus {
        nodes: reached.len() as u64,
        pods: sum(|of| of.pods),
        waiting_pods: sum(|of| of.waiting_pods),
        ..object.status.clone()
    };
    let errors = || reached.iter().filter(|(_, of)| !of.error.is_empty());
    // One that is still there stays.
    let is_last = |node: &str| object.status.last_error.as_ref().is_some_and(|it| it.node == node);
    let error = errors().find(|(node, _)| is_last(node)).or_else(|| errors().next());
    status.last_error =
        error.map(|(node, of)| LastError { node: (*node).to_owned(), message: of.error.clone() });
    let problem = policy.problem().map(ToString::to_string);
    status.accept(object.generation, problem.as_deref(), now);
    let in_force = policy.in_force().filter(|policy| !policy.is_paused);
    status.turns = in_force
        .map(|policy| turns(&policy.rollout, &object.uid, &object.status.turns, &reached, now))
        .unwrap_or_default();
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_policy::{PolicyKind, PolicyResource};
    use serde_json::json;
    use std::time::{Duration, UNIX_EPOCH};

    fn known(spec: serde_json::Value) -> KnownPolicy {
        let object = json!({"metadata": {"name": "all", "uid": "5f1c"}, "spec": spec});
        KnownPolicy::new(PolicyResource::read(PolicyKind::Cluster, &object), None)
    }

    fn reach(uid: &str, pods: u64, error: &str) -> PolicyReach {
        let (uid, error) = (uid.to_owned(), error.to_owned());
        PolicyReach { uid, pods, waiting_pods: 1, error, ..PolicyReach::default() }
    }

    #[test]
    fn a_status_sums_up_what_the_nodes_report() {
        let object =
            PolicyFacts { uid: "5f1c".to_owned(), generation: 7, ..PolicyFacts::default() };
        let nodes: Reached = [
            ("a", vec![reach("5f1c", 3, ""), reach("other", 9, "no")]),
            ("b", vec![reach("5f1c", 4, "container web: no room")]),
            ("c", vec![reach("5f1c", 5, "container db: refused")]),
            ("d", vec![]),
        ]
        .map(|(node, all)| (node.to_owned(), all))
        .into();
        let policy = known(json!({"schedule": {"interval": "10m"}}));
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let first = status(&object, &policy, &nodes, at(1));
        assert_eq!((first.nodes, first.pods, first.waiting_pods), (3, 12, 3));
        assert_eq!(first.observed_generation, 7);
        assert_eq!(first.conditions[0].status, "True");
        let error = |status: &PolicyStatus| status.last_error.clone().map(|it| it.node);
        assert_eq!(error(&first).as_deref(), Some("b"));
        // Nothing is written again.
        let mut later = PolicyFacts { status: first.clone(), ..object.clone() };
        assert_eq!(status(&later, &policy, &nodes, at(100)), first);
        later.status.last_error = Some(LastError { node: "c".to_owned(), ..LastError::default() });
        assert_eq!(error(&status(&later, &policy, &nodes, at(2))).as_deref(), Some("c"));
    }

    #[test]
    fn a_policy_that_cannot_be_understood_is_not_accepted() {
        let object = PolicyFacts { generation: 2, ..PolicyFacts::default() };
        let bad = known(json!({"schedule": {"interval": "5x"}}));
        let status = status(&object, &bad, &Reached::default(), UNIX_EPOCH);
        let [accepted] = &status.conditions[..] else { panic!("{status:?}") };
        assert_eq!((&*accepted.status, &*accepted.reason), ("False", "Invalid"));
        assert!(accepted.message.contains("spec.schedule.interval"), "{}", accepted.message);
    }
}

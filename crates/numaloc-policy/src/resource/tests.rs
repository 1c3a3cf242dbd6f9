//! The settings of the cluster's policies, and the containers that they select.

use super::*;
use crate::Owner;
use proptest::prelude::*;
use serde_json::json;
use std::time::{Duration, UNIX_EPOCH};

fn object(spec: &serde_json::Value) -> serde_json::Value {
    json!({"metadata": {"namespace": "shop", "name": "databases", "uid": "5f1c"}, "spec": spec})
}

fn read(kind: PolicyKind, spec: &serde_json::Value) -> Result<PolicyResource, String> {
    PolicyResource::read(kind, &object(spec)).map_err(|bad| bad.to_string())
}

fn policy(kind: PolicyKind, spec: serde_json::Value) -> PolicyResource {
    read(kind, &spec).unwrap_or_else(|problem| panic!("{spec}: {problem}"))
}

fn redis() -> (Pod, Container) {
    let pod = Pod {
        namespace: "shop".to_owned(),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
        ..Pod::default()
    };
    (pod, Container { name: "redis".to_owned(), ..Container::default() })
}

fn node() -> Node {
    Node { name: "n1".to_owned(), labels: [("pool".to_owned(), "big".to_owned())].into() }
}

/// Whether it is for the container that [`redis`] describes, ten seconds after 1970 began.
fn is_for_redis(policy: &PolicyResource) -> bool {
    let (pod, container) = redis();
    policy.applies(&pod, &container, QosClass::Ls, &node(), UNIX_EPOCH + Duration::from_secs(10))
}

#[test]
fn a_schedule_is_that_of_the_annotation() {
    let schedule = json!({"interval": "10m", "spec": {"policy": {"target_ratio_percent": "95%"}}});
    let policy = policy(PolicyKind::Namespaced, json!({"schedule": schedule, "priority": 3}));
    let Ok(Some(expected)) = own::read("", &Tree::deserialize(&schedule).expect("a tree")) else {
        panic!("{schedule} is no policy")
    };
    assert_eq!(policy.verdict, PolicyVerdict::Settings(Box::new(expected)));
    assert_eq!((policy.priority, &*policy.uid), (3, "5f1c"));
    assert_eq!(policy.to_string(), "MemoryLocalityPolicy shop/databases");
}

#[test]
fn a_policy_may_switch_off() {
    let policy = policy(PolicyKind::Namespaced, json!({"schedule": {"policy": "none"}}));
    assert_eq!(policy.verdict, PolicyVerdict::Off);
}

#[test]
fn each_condition_has_to_hold() {
    for (more, expected) in [
        (json!({}), true),
        (json!({"podSelector": {"matchLabels": {"app": "redis"}}}), true),
        (json!({"podSelector": {"matchLabels": {"app": "other"}}}), false),
        (json!({"containers": ["redis", "sidecar"]}), true),
        (json!({"containers": ["sidecar"]}), false),
        (json!({"namespaces": {"include": ["shop"]}}), true),
        (json!({"namespaces": {"include": ["other"]}}), false),
        (json!({"namespaces": {"exclude": ["shop"]}}), false),
        (json!({"namespaces": {"exclude": ["other"]}}), true),
        (json!({"qosClasses": ["LS", "BE"]}), true),
        (json!({"qosClasses": ["LSR"]}), false),
        (json!({"nodeSelector": {"matchLabels": {"pool": "big"}}}), true),
        (json!({"nodeSelector": {"matchLabels": {"pool": "small"}}}), false),
        (json!({"rolloutPercent": 0}), false),
        (json!({"expires": "1970-01-01T00:00:11Z"}), true),
        (json!({"expires": "1970-01-01T00:00:10Z"}), false),
    ] {
        let mut spec = json!({"schedule": {}});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        assert_eq!(is_for_redis(&policy(PolicyKind::Cluster, spec)), expected, "{more}");
    }
}

#[test]
fn a_policy_of_a_namespace_is_for_that_namespace() {
    let mut policy = policy(PolicyKind::Namespaced, json!({"schedule": {}}));
    assert!(is_for_redis(&policy));
    policy.namespace = "other".to_owned();
    assert!(!is_for_redis(&policy));
}

#[test]
fn bounds_alone_are_a_policy_of_the_cluster() {
    let bounds = json!({"bounds": {"profile": "gentle", "min_interval": "5m"}});
    let cluster = policy(PolicyKind::Cluster, bounds.clone());
    assert_eq!(cluster.verdict, PolicyVerdict::Abstains);
    let expected = Ceilings {
        profile: numaloc_core::Profile::Gentle,
        min_interval: Duration::from_secs(300),
        ..Ceilings::default()
    };
    assert_eq!(cluster.cluster.bounds, Some(expected));
    let problem = read(PolicyKind::Namespaced, &bounds).expect_err("only the cluster has bounds");
    assert!(problem.contains("spec.bounds is not known"), "{problem}");
}

#[test]
fn wrong_bounds_are_the_only_problem_of_a_policy_that_has_bounds_alone() {
    let spec = json!({"bounds": {"profile": "fats"}});
    let problem = read(PolicyKind::Cluster, &spec).expect_err("it is not a profile");
    assert!(problem.contains("spec.bounds.profile unknown profile 'fats'"), "{problem}");
    assert!(!problem.contains("spec.schedule"), "{problem}");
}

#[test]
fn a_mistake_is_named_by_object_and_path() {
    for (spec, expected) in [
        (json!(1), "spec must be an object, and is a number"),
        (json!({}), "spec.schedule is missing; write for example"),
        (json!({"schedule": "none"}), "spec.schedule must be an object, and is text"),
        (
            json!({"schedule": {"intervall": "1m"}}),
            "spec.schedule.intervall is not known; known here: policy, spec",
        ),
        (
            json!({"schedule": {"spec": {"policy": {"profile": "fats"}}}}),
            "spec.schedule.spec.policy.profile is \"fats\", which is not known",
        ),
        (
            json!({"schedule": {}, "priority": 1_000_001}),
            "spec.priority must be a whole number from -1000000 to 1000000",
        ),
        (
            json!({"schedule": {}, "qosClasses": ["LSX"]}),
            "spec.qosClasses[0] is \"LSX\", which is not known",
        ),
        (
            json!({"schedule": {}, "expires": "soon"}),
            "spec.expires is \"soon\"; expected a time such as",
        ),
        (
            json!({"schedule": {}, "rolloutPercent": 101}),
            "spec.rolloutPercent must be a whole number from 0 to 100",
        ),
        (
            json!({"schedule": {}, "namespaces": {"include": ["a"], "exclude": ["a"]}}),
            "spec.namespaces.exclude has a, which is in include as well",
        ),
        (
            json!({"bounds": {"profil": "fast"}}),
            "spec.bounds.profil unknown field `profil`, expected one of",
        ),
        (
            json!({"schedule": {}, "expire": "x"}),
            "spec.expire is not known; known here: bounds, containers, enforce, expires",
        ),
    ] {
        let problem = read(PolicyKind::Cluster, &spec).expect_err("it is wrong");
        let expected = format!("ClusterMemoryLocalityPolicy databases: {expected}");
        assert!(problem.starts_with(&expected), "{problem}");
        let end = match spec.get("bounds") {
            None => "; it is ignored",
            Some(_) => "; until it is corrected, memory of the containers that it is for stays",
        };
        assert!(problem.ends_with(end), "{problem}");
    }
}

#[test]
fn all_mistakes_of_a_policy_are_named() {
    let spec = json!({
        "schedule": {"interval": "5x", "spec": {"policy": {"profile": "fats"}}}, "priority": 1_000_001, "expire": "x",
        "qosClasses": ["LS", "LSX", "BEX"], "bounds": {"profil": "fast", "workers": 0, "min_interval": "5m"},
    });
    let problem = read(PolicyKind::Cluster, &spec).expect_err("it is wrong");
    for words in [
        "spec.priority must be",
        "; also spec.schedule.interval is \"5x\"",
        "; also spec.schedule.spec.policy.profile is \"fats\"",
        "; also spec.qosClasses[1] is \"LSX\"",
        "; also spec.qosClasses[2] is \"BEX\"",
        "; also spec.bounds.profil unknown field",
        "; also spec.bounds.workers 0 is out of range: 1 to 256",
        "; also spec.expire is not known",
    ] {
        assert!(problem.contains(words), "{words}: {problem}");
    }
}

proptest! {
    #[test]
    fn any_object_is_read_or_refused(text in r#"(\{|\}|"spec"|"schedule"|"bounds"|"namespaces"|"include"|:|,|\[|\]|"a"|1|null){0,24}"#) {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else { return Ok(()) };
        for kind in [PolicyKind::Namespaced, PolicyKind::Cluster] {
            let _ = PolicyResource::read(kind, &value);
            let _ = read(kind, &value);
        }
    }
}

#[test]
fn namespaces_and_containers_are_named_or_match() {
    let (pod, container) = redis();
    for (more, expected) in [
        (json!({"namespaces": {"include": ["sh*"]}}), true),
        (json!({"namespaces": {"include": ["sh"]}}), false),
        (json!({"namespaces": {"include": ["*"], "exclude": ["s??p"]}}), false),
        (json!({"namespaces": {"exclude": ["kube-*"]}}), true),
        (json!({"containers": ["red?s"]}), true),
        (json!({"containers": ["red?"]}), false),
    ] {
        let mut spec = json!({"schedule": {"interval": "10m"}});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let policy = policy(PolicyKind::Cluster, spec);
        let now = UNIX_EPOCH;
        let applies = policy.applies(&pod, &container, QosClass::Ls, &node(), now);
        assert_eq!(applies, expected, "{more}");
    }
}

#[test]
fn namespaces_are_chosen_by_their_labels_and_workloads_by_their_kind() {
    let (mut pod, container) = redis();
    pod.namespace_labels = [("team".to_owned(), "db".to_owned())].into();
    pod.owner = Owner { kind: "StatefulSet".to_owned(), name: "redis".to_owned() };
    let db = json!({"matchLabels": {"team": "db"}});
    for (kind, more, expected) in [
        (PolicyKind::Cluster, json!({"namespaceSelector": db}), true),
        (
            PolicyKind::Cluster,
            json!({"namespaceSelector": {"matchLabels": {"team": "web"}}}),
            false,
        ),
        (
            PolicyKind::Cluster,
            json!({"namespaceSelector": db, "namespaces": {"exclude": ["shop"]}}),
            false,
        ),
        (PolicyKind::Cluster, json!({"namespaceSelector": {}}), true),
        (PolicyKind::Cluster, json!({"ownerKinds": ["Job"]}), false),
        (PolicyKind::Namespaced, json!({"ownerKinds": ["Job", "StatefulSet"]}), true),
    ] {
        let mut spec = json!({"schedule": {"interval": "10m"}});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let policy = policy(kind, spec);
        let applies = policy.applies(&pod, &container, QosClass::Ls, &node(), UNIX_EPOCH);
        assert_eq!(applies, expected, "{more}");
        assert_eq!(policy.needs_namespaces(), more.to_string().contains("team"), "{more}");
    }
    let refused = json!({"schedule": {}, "namespaceSelector": {}});
    let problem = read(PolicyKind::Namespaced, &refused).expect_err("it is in one namespace");
    assert!(problem.contains("namespaceSelector"), "{problem}");
}

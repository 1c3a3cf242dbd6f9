//! Precedence among several sources.

use super::*;
use crate::{ClassStrategy, Node, PolicyKind};
use serde_json::{Value, json};
use std::time::SystemTime;

/// The sources that may exist for the container at once, in the order in which they decide. Each asks for an interval
/// of its own in minutes.
const SOURCES: usize = 9;

fn interval(minutes: usize) -> Value {
    json!({"interval": format!("{minutes}m")})
}

fn resource(kind: PolicyKind, name: &str, spec: Value) -> PolicyResource {
    let object =
        json!({"metadata": {"namespace": "shop", "name": name, "uid": name}, "spec": spec});
    PolicyResource::read(kind, &object).unwrap_or_else(|bad| panic!("{bad}"))
}

/// The decision where those sources are there whose bits are set.
fn decided(there: usize) -> Decision {
    let is_there = |source: usize| there & (1 << source) != 0;
    let annotations: Vec<(&str, String)> = [
        (1, "numaloc.io/policy.container.redis", interval(1).to_string()),
        (2, POLICIES_KEY, json!({"redis": interval(2), "other": interval(99)}).to_string()),
        (3, POLICY_KEY, interval(3).to_string()),
        (4, KOORDINATOR_KEY, r#"{"policy": "bestEffort", "migrateIntervalMinutes": 4}"#.to_owned()),
    ]
    .into_iter()
    .filter_map(|(source, key, value)| is_there(source).then_some((key, value)))
    .collect();
    let annotations: Vec<_> =
        annotations.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let mut policies = Vec::new();
    for (source, kind, spec) in [
        (0, PolicyKind::Cluster, json!({"enforce": true, "schedule": interval(1000)})),
        (5, PolicyKind::Namespaced, json!({"schedule": interval(5)})),
        (6, PolicyKind::Cluster, json!({"schedule": interval(6)})),
    ] {
        if is_there(source) {
            policies.push(resource(kind, &format!("p{source}"), spec));
        }
    }
    let every = |interval| Some(Settings::of_ratio(100, minutes(interval)));
    let defaults = Defaults { ls: is_there(8).then(|| every(8)).flatten(), ..Defaults::default() };
    let strategy: ClassStrategy = [(QosClass::Ls, every(7))].into();
    let strategy = is_there(7).then_some(&strategy);
    decide_with(&annotations, Sources { strategy, ..Sources::from(&defaults) }, &policies)
}

fn decide_with(
    annotations: &[(&str, &str)],
    sources: Sources<'_>,
    policies: &[PolicyResource],
) -> Decision {
    let (node, now) = (Node::default(), SystemTime::UNIX_EPOCH);
    let policies = Some(Policies { all: policies, node: &node, now });
    let mut pod = pod(annotations);
    pod.labels.insert(QOS_LABEL.to_owned(), "LS".to_owned());
    let decision = decide(&pod, &redis(), Sources { policies, ..sources });
    decision.unwrap_or_else(|bad| panic!("{bad}"))
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn asked_interval(decision: &Decision) -> Option<Duration> {
    decision.settings.as_ref().map(Settings::interval)
}

#[test]
fn the_first_source_that_is_there_decides_alone() {
    for there in 0..1 << SOURCES {
        let decision = decided(there);
        let first = (0..SOURCES).find(|source| there & (1 << source) != 0);
        let expected = first.map(|source| minutes(if source == 0 { 1000 } else { source as u64 }));
        assert_eq!(asked_interval(&decision), expected, "{there:#b}: {}", decision.source);
    }
}

#[test]
fn of_several_policies_the_priority_and_then_the_name_decides() {
    let policy = |name: &str, priority: i32, minutes: usize| {
        let spec = json!({"priority": priority, "schedule": interval(minutes)});
        resource(PolicyKind::Namespaced, name, spec)
    };
    let policies =
        [policy("b", 1, 10), policy("c", 2, 20), policy("a", 2, 30), policy("d", -1, 40)];
    let decision = decide_with(&[], (&Defaults::default()).into(), &policies);
    assert_eq!(decision.source.to_string(), "MemoryLocalityPolicy shop/a");
    assert_eq!(asked_interval(&decision), Some(minutes(30)));
}

#[test]
fn a_policy_that_is_off_decides() {
    let off = resource(PolicyKind::Namespaced, "off", json!({"schedule": {"policy": "none"}}));
    let on = resource(PolicyKind::Cluster, "on", json!({"schedule": {}}));
    assert_eq!(decide_with(&[], (&Defaults::default()).into(), &[on, off]).settings, None);
}

#[test]
fn bounds_of_the_cluster_hold_for_what_pods_and_namespaces_ask() {
    let bounds = json!({"bounds": {"min_interval": "2h", "profile": "gentle"}});
    let bounds = resource(PolicyKind::Cluster, "bounds", bounds);
    let fast = json!({"interval": "1m", "spec": {"policy": {"profile": "fast"}}});
    let of_namespace = resource(PolicyKind::Namespaced, "n", json!({"schedule": fast}));
    let of_cluster = resource(PolicyKind::Cluster, "c", json!({"schedule": fast}));
    let text = fast.to_string();
    for (annotations, policies, is_bounded) in [
        (vec![(POLICY_KEY, text.as_str())], vec![bounds.clone()], true),
        (vec![], vec![bounds.clone(), of_namespace], true),
        (vec![], vec![bounds, of_cluster], false),
    ] {
        let decision = decide_with(&annotations, (&Defaults::default()).into(), &policies);
        let settings = decision.settings.expect("something is done");
        let found = (settings.interval(), settings.asked().policy.options.pacing.profile);
        let bounded = (minutes(120), Profile::Gentle);
        let expected = if is_bounded { bounded } else { (minutes(1), Profile::Fast) };
        assert_eq!(found, expected, "{}", decision.source);
        assert_eq!(decision.notes.len(), if is_bounded { 2 } else { 0 }, "{:?}", decision.notes);
    }
}

#[test]
fn bounds_of_the_cluster_have_all_that_the_operator_of_a_node_bounds() {
    let spec = json!({"bounds": {"containers": 3, "min_interval": "30m", "qos_label": true}});
    let trusting = resource(PolicyKind::Cluster, "bounds", spec);
    let (node, now, defaults) = (Node::default(), SystemTime::UNIX_EPOCH, Defaults::default());
    let mut pod = pod(&[(POLICY_KEY, "bestEffort")]);
    pod.cgroup_parent = "/kubepods/besteffort/pod1".to_owned();
    pod.labels.insert(QOS_LABEL.to_owned(), "LSR".to_owned());
    let decided = |all: &[PolicyResource]| {
        let policies = Some(Policies { all, node: &node, now });
        let sources = Sources { policies, ..Sources::from(&defaults) };
        let decision = decide(&pod, &redis(), sources).expect("it is understood");
        (decision.class, decision.bounds, decision.notes.len())
    };
    let bounds =
        |containers, seconds| PodBounds { containers, min_interval: Duration::from_secs(seconds) };
    assert_eq!(decided(&[]), (QosClass::Be, bounds(8, 60), 1));
    assert_eq!(decided(&[trusting]), (QosClass::Lsr, bounds(3, 1800), 0));
}

#[test]
fn a_configmap_that_cannot_be_parsed_leaves_pods_of_its_classes_as_they_are() {
    let defaults = Defaults { ls: Some(Settings::default()), ..Defaults::default() };
    let unknown = Sources { is_strategy_unknown: true, ..Sources::from(&defaults) };
    let decided = |annotations: &[(&str, &str)]| {
        let decision = decide_with(annotations, unknown, &[]);
        (decision.stays, decision.settings.is_some())
    };
    assert_eq!(decided(&[]), (true, false), "nor does another source decide");
    assert_eq!(decided(&[(POLICY_KEY, "none")]), (false, false));
    assert_eq!(decided(&[(POLICY_KEY, "bestEffort")]), (false, true));
    let unlabelled = decide(&pod(&[]), &redis(), unknown).expect("it is understood");
    assert!(!unlabelled.stays && unlabelled.settings.is_some(), "it has no class of the ConfigMap");
}

#[test]
fn an_enforced_policy_needs_no_annotation_that_can_be_understood() {
    let enforced = json!({"enforce": true, "schedule": {"policy": "none"}});
    let enforced = resource(PolicyKind::Cluster, "e", enforced);
    let decision = decide_with(&[(POLICY_KEY, "{")], (&Defaults::default()).into(), &[enforced]);
    assert_eq!(
        (decision.settings, decision.source.to_string()),
        (None, "ClusterMemoryLocalityPolicy e".to_owned())
    );
}

#[test]
fn the_next_end_of_a_policy_is_known() {
    let policy =
        |at: &str| resource(PolicyKind::Cluster, "a", json!({"schedule": {}, "expires": at}));
    let all = [
        policy("1970-01-01T00:01:00Z"),
        policy("1970-01-01T00:00:30Z"),
        policy("1970-01-01T00:00:10Z"),
    ];
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
    let node = Node::default();
    let next = Policies { all: &all, node: &node, now }.next_expiry();
    assert_eq!(next, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(30)));
}

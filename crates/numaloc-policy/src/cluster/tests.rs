//! The strategies of the cluster's ConfigMap for a node.

use super::*;
use crate::{Container, Decision, DecisionSource, Defaults, Pod, QOS_LABEL, Sources, decide};
use proptest::prelude::*;
use std::time::Duration;

const CONFIG: &str = r#"{
    "clusterStrategy": {
        "lsrClass": {"cpuQOS": {"groupIdentity": 2}, "memoryLocality": {"policy": "bestEffort", "migrateIntervalMinutes": 10}},
        "lsClass": {"memoryLocality": {"policy": "BestEffort"}},
        "beClass": {"memoryLocality": {"policy": "none"}}
    },
    "nodeStrategies": [
        {"name": "a", "nodeSelector": {"matchLabels": {"pool": "db"}},
         "lsrClass": {"memoryLocality": {"migrateIntervalMinutes": 5, "targetLocalityRatio": 90}}},
        {"name": "b", "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["db", "web"]}]},
         "lsClass": {"memoryLocality": {"policy": "none"}}}
    ]
}"#;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn of(strategy: &ClassStrategy, class: QosClass) -> Option<(u64, u8)> {
    let settings = strategy.get(&class)?.as_ref()?;
    Some((settings.interval().as_secs() / 60, settings.asked().policy.options.target_ratio))
}

#[test]
fn the_first_strategy_that_selects_a_node_is_merged_over_the_clusters() {
    let config = QosConfig::read(CONFIG).expect("it is valid");
    for (node, lsr, ls) in [
        (&[("pool", "batch")][..], (10, 100), Some((0, 100))),
        (&[("pool", "db")], (5, 90), Some((0, 100))),
        (&[("pool", "web")], (10, 100), None),
        (&[], (10, 100), Some((0, 100))),
    ] {
        let strategy = config.for_node(&labels(node));
        assert_eq!(of(strategy, QosClass::Lsr), Some(lsr), "{node:?}");
        assert_eq!(of(strategy, QosClass::Ls), ls, "{node:?}");
        assert_eq!(strategy.get(&QosClass::Be), Some(&None), "{node:?}");
    }
}

#[test]
fn a_strategy_without_a_selector_is_for_no_node() {
    let lsr =
        |policy: &str| format!(r#""lsrClass": {{"memoryLocality": {{"policy": "{policy}"}}}}"#);
    for (selector, is_for_it) in [("{}", true), ("null", false)] {
        let (bare, all) = (lsr("none"), lsr("bestEffort"));
        let text = format!(
            r#"{{"clusterStrategy": {{{bare}}}, "nodeStrategies": [{{"nodeSelector": {selector}, {all}}}]}}"#
        );
        let config = QosConfig::read(&text).expect("it is valid");
        let of_node = config.for_node(&labels(&[("a", "1")])).get(&QosClass::Lsr);
        assert_eq!(of_node.is_some_and(Option::is_some), is_for_it, "{selector}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, expected) in [
        ("{", "key resource-qos-config, line 1 column 1: EOF while parsing an object"),
        ("[]", "must be an object, and is a list"),
        (
            r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "best"}}}}"#,
            ", clusterStrategy.lsClass.memoryLocality.policy: is \"best\", which is not known; write \"bestEffort\" or \"none\"",
        ),
        (
            r#"{"clusterStrategy": {"lsClass": {"memoryLocality": 1}}}"#,
            ", clusterStrategy.lsClass.memoryLocality: must be an object, and is a number",
        ),
        (
            r#"{"nodeStrategies": [{"nodeSelector": {"a": "b"}}]}"#,
            ", nodeStrategies[0].nodeSelector.a: is not known; known here: matchExpressions, matchLabels",
        ),
        (
            r#"{"nodeStrategies": [{"nodeSelector": {}, "beClass": {"memoryLocality": {"policy": "bestEffort", "targetLocalityRatio": 101}}}]}"#,
            ", nodeStrategies[0].beClass.memoryLocality.targetLocalityRatio: must be a whole number from 0 to 100",
        ),
    ] {
        let error = QosConfig::read(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let long = format!("\"{}\"", "x".repeat(VALUE_MAX));
    assert!(QosConfig::read(&long).expect_err("long").to_string().contains("is longer than"));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(QosConfig::read(&deep).is_err());
}

#[test]
fn all_mistakes_of_a_configmap_are_named() {
    let text = r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "best", "targetLocalityRatio": 101}}},
        "nodeStrategies": [{"nodeSelector": {"a": "b"}}, {"nodeSelector": {"matchLabels": {"a": 1}}, "beClass": {"memoryLocality": 1}}]}"#;
    let said = QosConfig::read(text).expect_err("it is wrong").to_string();
    for words in [
        "clusterStrategy.lsClass.memoryLocality.policy",
        "clusterStrategy.lsClass.memoryLocality.targetLocalityRatio",
        "nodeStrategies[0].nodeSelector.a",
        "nodeStrategies[1].nodeSelector.matchLabels.a",
        "nodeStrategies[1].beClass.memoryLocality",
    ] {
        assert_eq!(
            said.matches(&format!("{words} ")).count() + said.matches(&format!("{words}:")).count(),
            1,
            "{words}: {said}"
        );
    }
}

#[test]
fn dma_engines_are_on_or_off() {
    for (text, expected) in [
        (r#"{"clusterStrategy": {"enable": true, "pollingMode": false}}"#, Ok(Some(Offload::Auto))),
        (r#"{"clusterStrategy": {"enable": false}}"#, Ok(Some(Offload::Off))),
        ("{}", Ok(None)),
        (r#"{"clusterStrategy": {"enable": 1}}"#, Err(())),
        ("x", Err(())),
    ] {
        assert_eq!(read_dsa_config(text).map_err(drop), expected, "{text}");
    }
}

fn decided(pod: &Pod, sources: Sources<'_>) -> Decision {
    decide(pod, &Container::default(), sources).expect("it can be understood")
}

#[test]
fn the_configmap_counts_for_pods_that_name_their_class_and_have_no_policy() {
    let config = QosConfig::read(CONFIG).expect("it is valid");
    let strategy = config.for_node(&labels(&[]));
    let defaults = Defaults {
        ls: Some(Settings::of_ratio(100, Duration::from_secs(7))),
        ..Defaults::default()
    };
    let sources = Sources { strategy: Some(strategy), ..Sources::from(&defaults) };
    // Its own class is LS.
    let pod = Pod { cgroup_parent: "/kubepods/burstable/pod1".to_owned(), ..Pod::default() };
    let labelled = |class: &str| Pod { labels: labels(&[(QOS_LABEL, class)]), ..pod.clone() };
    let interval =
        |decision: &Decision| decision.settings.as_ref().map(|of| of.interval().as_secs());
    for (pod, source, expected) in [
        (pod.clone(), DecisionSource::Default, Some(7)),
        (labelled("LS"), DecisionSource::ConfigMap, Some(0)),
        (labelled("BE"), DecisionSource::ConfigMap, None),
        // The label is not trusted to give a better class, but the operator has declared its meaning here.
        (labelled("LSE"), DecisionSource::ConfigMap, Some(600)),
        (labelled("SYSTEM"), DecisionSource::Default, Some(7)),
    ] {
        let decision = decided(&pod, sources);
        assert_eq!((&decision.source, interval(&decision)), (&source, expected), "{pod:?}");
    }
    // An annotation goes first.
    let annotations = labels(&[(crate::POLICY_KEY, "none")]);
    let decision = decided(&Pod { annotations, ..labelled("LSR") }, sources);
    assert_eq!(decision.settings, None);
}

#[test]
fn engines_are_switched_off_for_the_contracts_sources_alone() {
    let defaults = Defaults::default();
    let sources = Sources { offload: Some(Offload::Off), ..Sources::from(&defaults) };
    for (key, value, expected) in [
        (crate::KOORDINATOR_KEY, r#"{"policy": "bestEffort"}"#, Offload::Off),
        (crate::POLICY_KEY, "bestEffort", Offload::Auto),
    ] {
        let pod = Pod { annotations: labels(&[(key, value)]), ..Pod::default() };
        let settings = decided(&pod, sources).settings.expect("it asks for one");
        assert_eq!(settings.asked().policy.offload, expected, "{key}");
    }
}

#[test]
fn runs_for_best_effort_pods_yield_above_the_threshold_unless_they_name_one() {
    let defaults = Defaults {
        ls: Some(Settings::default()),
        be: Some(Settings::default()),
        ..Defaults::default()
    };
    let sources = Sources { be_node_cpu_percent: Some(65), ..Sources::from(&defaults) };
    let most = |class: &str, annotations: &[(&str, &str)]| {
        let (labels, annotations) = (labels(&[(QOS_LABEL, class)]), labels(annotations));
        let cgroup_parent = "/kubepods/burstable/pod1".to_owned();
        let pod = Pod { labels, annotations, cgroup_parent, ..Pod::default() };
        let settings = decided(&pod, sources).settings.expect("a default");
        settings.asked().policy.options.pacing.node_cpu_percent_max
    };
    assert_eq!((most("LS", &[]), most("BE", &[])), (None, Some(65)));
    let koordinators = (crate::KOORDINATOR_KEY, r#"{"policy": "bestEffort"}"#);
    assert_eq!(most("BE", &[koordinators]), Some(65));
    let own = r#"{"spec": {"policy": {"node_cpu_percent_max": 90}}}"#;
    assert_eq!(most("BE", &[(crate::POLICY_KEY, own)]), Some(90));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_reason(
        text in r#"(\{|\}|\[|\]|:|,|"clusterStrategy"|"nodeStrategies"|"nodeSelector"|"matchLabels"|"lsClass"|"memoryLocality"|"policy"|"none"|1|\PC){0,40}"#,
    ) {
        for error in [QosConfig::read(&text).err(), read_dsa_config(&text).err()].into_iter().flatten() {
            prop_assert!(!error.problem.is_empty());
        }
    }
}

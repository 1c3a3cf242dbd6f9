//! Tests of the source that decides, and of its permitted requests.

use super::*;
use crate::{Position, QOS_LABEL};
use numaloc_api::{
    samples, v1,
    value::{MigrationSpec, Policy, ScheduleSpec},
};
use numaloc_core::Profile;
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage};
use std::time::Duration;

mod precedence;
mod properties;

fn pod(annotations: &[(&str, &str)]) -> Pod {
    let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
    Pod {
        namespace: "shop".to_owned(),
        name: "redis-0".to_owned(),
        annotations: annotations.iter().map(owned).collect(),
        cgroup_parent: "/kubepods/burstable/pod1".to_owned(),
        ..Pod::default()
    }
}

fn redis() -> Container {
    Container { name: "redis".to_owned(), ..Container::default() }
}

/// The longest time of a run, which holds for policies that name none.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The decision by annotations, without defaults and ceilings.
fn read(annotations: &[(&str, &str)]) -> Result<Decision, BadAnnotation> {
    let ceilings = Ceilings {
        profile: Profile::Fast,
        rate_bytes_per_second: None,
        min_rate_bytes_per_second: 4096,
        timeout: LONGEST,
        containers: 1,
        qos_label: false,
        workers: 256,
        min_interval: Duration::ZERO,
        include_shared: true,
        include_network: true,
        include_bound: true,
        include_gigantic: true,
        named_nodes: true,
        reserve_bytes: true,
        fresh_hugetlb: true,
        move_cache: true,
        exchange: true,
        pause_numa_balancing: true,
        offload: true,
    };
    let mut decision =
        decide(&pod(annotations), &redis(), &Defaults { ceilings, ..Defaults::default() })?;
    if let Some(settings) = &mut decision.settings {
        let timeout = settings.asked().limits.timeout.filter(|timeout| *timeout != LONGEST);
        settings.limits().timeout = timeout.and_then(|timeout| timeout.try_into().ok());
    }
    Ok(decision)
}

fn settings(key: &str, value: &str) -> Option<Settings> {
    let decision = read(&[(key, value)]).unwrap_or_else(|bad| panic!("{value}: {bad}"));
    assert_eq!(decision.source, DecisionSource::Annotation(key.to_owned()), "{value}");
    assert_eq!(decision.notes, [""; 0], "{value}");
    decision.settings
}

fn ratio(target_ratio: u8, minutes: u64) -> Option<Settings> {
    Some(Settings::of_ratio(target_ratio, Duration::from_secs(60 * minutes)))
}

/// The schedule as numalocd reads it.
fn meant(settings: Option<Settings>) -> Option<ScheduleSpec> {
    settings.map(|settings| settings.meant())
}

#[test]
fn the_contracts_annotation_is_read_as_it_is_written() {
    for (value, expected) in [
        (r#"{"policy": "bestEffort"}"#, ratio(100, 0)),
        (r#"{"policy": "BestEffort"}"#, ratio(100, 0)),
        (r#"{"policy":"BESTEFFORT","migrateIntervalMinutes":0}"#, ratio(100, 0)),
        (r#"{"policy": "bestEffort","migrateIntervalMinutes":10}"#, ratio(100, 10)),
        (
            r#"{"policy":"bestEffort","migrateIntervalMinutes":527040,"targetLocalityRatio":0}"#,
            ratio(0, 527_040),
        ),
        (r#"{"policy": "bestEffort", "targetLocalityRatio": 95, "more": {}}"#, ratio(95, 0)),
        (r#"{"Policy": "bestEffort", "TargetLocalityRatio": null}"#, ratio(100, 0)),
        (r#"{"policy": "none"}"#, None),
        (r#"{"policy": "None", "migrateIntervalMinutes": 10}"#, None),
        (r#"{"policy": "bestEffort", "migrateIntervalMinutes": "none"}"#, None),
        (r#"{"migrateIntervalMinutes": "none"}"#, None),
    ] {
        assert_eq!(meant(settings(KOORDINATOR_KEY, value)), meant(expected), "{value}");
    }
}

#[test]
fn the_contracts_annotation_without_a_policy_leaves_the_decision_to_others() {
    let defaults = Defaults { ls: ratio(90, 5), ..Defaults::default() };
    for value in ["{}", "null", r#"{"migrateIntervalMinutes": 10}"#, r#"{"policy": null}"#] {
        let decision = decide(&pod(&[(KOORDINATOR_KEY, value)]), &redis(), &defaults);
        let decision = decision.unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!(decision.source, DecisionSource::Default, "{value}");
        assert_eq!(decision.settings, ratio(90, 5), "{value}");
        let note =
            "annotation koordinator.sh/memoryLocality has no key policy, so it has no effect";
        assert_eq!(decision.notes, [note], "{value}");
    }
}

/// The fields that a policy may set and that this one does not.
fn missing(path: &str, message: &DynamicMessage) -> Vec<String> {
    let mut missing = Vec::new();
    for field in message.descriptor().fields().filter(own::is_of_policies) {
        let path = numaloc_config::written::below(path, field.name());
        let is_set = match field.containing_oneof() {
            Some(choice) => choice.fields().any(|of| message.has_field(&of)),
            None => message.has_field(&field),
        };
        if !is_set {
            missing.push(path);
        } else if let Some(inner) = message.get_field(&field).as_message() {
            // A time of whole seconds has no nanoseconds.
            if inner.descriptor().package_name() == "numaloc.v1" {
                missing.extend(self::missing(&path, inner));
            }
        }
    }
    missing
}

/// The same fields as in docs/annotations.md.
#[test]
fn our_own_annotation_has_all_that_a_schedule_has() {
    let all = r#"{
        "policy": "bestEffort",
        "spec": {
            "policy": {
                "include_shared": true, "exclude_file": true, "include_bound": true, "include_gigantic": true, "include_network": true,
                "make_room": "none", "compact": "never", "hugetlb_source": "fresh", "target_ratio_percent": 90,
                "nodes": {"node_ids": [0, 2]}, "home_rule": "busy", "near_distance": 20, "from_node_ids": [8, 65535], "reserve_bytes": "1G", "pool_reserve_percent": 10,
                "order": "damon", "profile": "gentle", "max_stall": "2500us", "node_cpu_percent_max": 80, "node_bandwidth_max_bytes_per_second": "80G", "qos_class": "be",
                "on_interrupt": "resume", "numa_balancing": "pause", "offload": "require", "emit": "always"
            },
            "limits": {"batch_bytes": 4194304, "workers": 3, "timeout": "300500ms", "rate_bytes_per_second": "512M", "hourly_budget_bytes": "6G"}
        },
        "interval": "30s",
        "jitter": "2500ms",
        "paused": true
    }"#;
    let ScheduleSpec { migration, interval, jitter, paused, .. } = samples::schedule().spec;
    // The operator's plugin sets who the tenant is.
    let policy = Policy { tenant: None, ..migration.policy };
    let migration = MigrationSpec { policy, limits: migration.limits, ..Default::default() };
    let expected = ScheduleSpec { migration, interval, jitter, paused, ..Default::default() };
    let read = settings(POLICY_KEY, all);
    assert_eq!(meant(read.clone()), Some(expected));
    let message = read.expect("it asks for one").schedule().encode_to_vec();
    let message =
        DynamicMessage::decode(own::descriptor().expect("it is there"), message.as_slice());
    let missing = missing("", &message.expect("a schedule"));
    assert_eq!(missing, [""; 0], "name each field of a policy above: it has to arrive");
    // Fields that are not set may be null.
    let unset = r#"{
        "spec": {
            "policy": {
                "target_ratio_percent": 100, "nodes": null, "home_rule": "CPUS", "from_node_ids": null, "reserve_bytes": null,
                "max_stall": null, "node_cpu_percent_max": null, "node_bandwidth_max_bytes_per_second": null, "qos_class": null, "local": {}
            },
            "limits": {"batch_bytes": null, "workers": null, "timeout": null, "rate_bytes_per_second": null}
        },
        "interval": "0s", "jitter": "0", "paused": false
    }"#;
    for value in [unset, "{}", "bestEffort", " BestEffort\n", "\"bestEffort\""] {
        assert_eq!(meant(settings(POLICY_KEY, value)), meant(ratio(100, 0)), "{value}");
    }
    for value in ["none", "\"NONE\"", r#"{"policy": "none", "interval": "10m"}"#] {
        assert_eq!(settings(POLICY_KEY, value), None, "{value}");
    }
}

#[test]
fn the_first_source_that_has_a_policy_decides_alone() {
    let sources = [
        (
            "numaloc.io/policy.container.redis",
            r#"{"spec": {"policy": {"target_ratio_percent": 1}}}"#,
        ),
        (POLICIES_KEY, r#"{"redis": {"spec": {"policy": {"target_ratio_percent": 2}}}, "web": 1}"#),
        (POLICY_KEY, r#"{"spec": {"policy": {"target_ratio_percent": 3}}, "interval": "600s"}"#),
        (KOORDINATOR_KEY, r#"{"policy": "bestEffort", "targetLocalityRatio": 4}"#),
    ];
    let expected = [ratio(1, 0), ratio(2, 0), ratio(3, 10), ratio(4, 0)];
    let expected = expected.map(|settings| {
        let mut settings = settings.expect("a policy");
        settings.limits().timeout = Ceilings::default().timeout.try_into().ok();
        Some(settings.meant())
    });
    let defaults = Defaults { ls: ratio(5, 0), ..Defaults::default() };
    let decided = |first: usize| {
        let decision = decide(&pod(&sources[first..]), &redis(), &defaults);
        let decision = decision.unwrap_or_else(|bad| panic!("{bad}"));
        (decision.source, meant(decision.settings))
    };
    for (first, ((key, _), settings)) in sources.into_iter().zip(expected).enumerate() {
        assert_eq!(decided(first), (DecisionSource::Annotation(key.to_owned()), settings));
    }
    assert_eq!(decided(sources.len()), (DecisionSource::Default, meant(ratio(5, 0))));
}

#[test]
fn what_is_for_other_containers_does_not_count() {
    for annotations in [
        &[("numaloc.io/policy.container.web", "none")][..],
        &[(POLICIES_KEY, r#"{"web": "nonsense"}"#)],
        &[(POLICIES_KEY, r#"{"redis": null}"#)],
        &[],
    ] {
        let decision = read(annotations).unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!((decision.source, decision.settings), (DecisionSource::Default, None));
        assert_eq!(decision.notes, [""; 0]);
    }
}

#[test]
fn the_default_is_that_of_the_class() {
    let [lsr, ls, be] = [ratio(1, 0), ratio(2, 0), ratio(3, 0)];
    let ceilings = Ceilings { qos_label: true, ..Ceilings::default() };
    let defaults = Defaults { lsr, ls, be, ceilings };
    for (label, class, expected) in [
        ("LSE", QosClass::Lsr, ratio(1, 0)),
        ("LS", QosClass::Ls, ratio(2, 0)),
        ("BE", QosClass::Be, ratio(3, 0)),
    ] {
        let labels = [(QOS_LABEL.to_owned(), label.to_owned())].into();
        let decision = decide(&Pod { labels, ..pod(&[]) }, &redis(), &defaults);
        let decision = decision.unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!((decision.class, decision.settings), (class, expected));
    }
}

/// Koordinator's webhook and its users set the label for other programs.
#[test]
fn a_label_alone_asks_for_nothing() {
    let labelled = |label: &str, annotations: &[(&str, &str)]| {
        let labels = [(QOS_LABEL.to_owned(), label.to_owned())].into();
        let pod = Pod { labels, ..pod(annotations) };
        decide(&pod, &redis(), &Defaults::default()).expect("it is understood").notes.len()
    };
    for (label, noted) in [("LSR", 1), ("LSE", 1), ("gold", 1), ("SYSTEM", 0), ("BE", 0)] {
        assert_eq!(labelled(label, &[]), 0, "{label}");
        assert_eq!(labelled(label, &[(POLICY_KEY, "none")]), 0, "{label}");
        assert_eq!(labelled(label, &[(POLICY_KEY, "bestEffort")]), noted, "{label}");
    }
    assert_eq!(labelled("LSR", &[("numaloc.io/polcy", "bestEffort")]), 1, "its key is a mistake");
}

#[test]
fn ceilings_bound_annotations_and_not_the_operators_defaults() {
    let fast = r#"{"spec": {"policy": {"profile": "fast"}}}"#;
    let defaults = Defaults { ls: settings(POLICY_KEY, fast), ..Defaults::default() };
    let decided = |annotations: &[(&str, &str)]| {
        let decision = decide(&pod(annotations), &redis(), &defaults).expect("it is understood");
        let profile = |settings: Settings| settings.asked().policy.options.pacing.profile;
        (decision.settings.map(profile), decision.notes)
    };
    assert_eq!(decided(&[]), (Some(Profile::Fast), Vec::new()));
    let note = "the profile is balanced; the operator of the node has set this bound".to_owned();
    assert_eq!(decided(&[(POLICY_KEY, fast)]), (Some(Profile::Balanced), vec![note]));
}

#[test]
fn a_bad_annotation_is_not_skipped_for_the_next() {
    for (key, value) in [
        ("numaloc.io/policy.container.redis", "{"),
        (POLICIES_KEY, "[]"),
        (POLICIES_KEY, r#"{"redis": 1}"#),
        (POLICY_KEY, "true"),
    ] {
        let bad = read(&[(key, value), (KOORDINATOR_KEY, r#"{"policy": "bestEffort"}"#)]);
        assert_eq!(bad.expect_err(value).key, key);
    }
}

#[test]
fn a_bad_annotation_is_named_with_its_place() {
    let found = |key: &str, value: &str| {
        let bad = read(&[(key, value)]).expect_err(value);
        assert_eq!((bad.pod.as_str(), bad.key.as_str()), ("shop/redis-0", key));
        match bad.position {
            Position::Whole => format!("whole: {}", bad.problem),
            Position::Text { line, column } => format!("{line}:{column}: {}", bad.problem),
            Position::Path(path) => format!("{path}: {}", bad.problem),
        }
    };
    let own = |value: &str| found(POLICY_KEY, value);
    let contract = |value: &str| found(KOORDINATOR_KEY, value);
    let minutes = "must be a whole number from 0 to 527040, and is";
    for (found, expected) in [
        (contract(""), "1:0: EOF while parsing a value".to_owned()),
        (contract("bestEffort"), "1:1: expected value".to_owned()),
        (contract("\"bestEffort\""), "whole: must be an object, and is text".to_owned()),
        (contract("{\"policy\":\n\"none\",}"), "2:8: trailing comma".to_owned()),
        (contract(r#"{"policy":true}"#), "policy: must be text, and is true or false".to_owned()),
        (contract(r#"{"policy":"none","Policy":"none"}"#), "policy: is there twice".to_owned()),
        (
            contract(r#"{"policy":"none","migrateIntervalMinutes":-1}"#),
            format!("migrateIntervalMinutes: {minutes} -1"),
        ),
        (
            contract(r#"{"policy":"none","migrateIntervalMinutes":"10"}"#),
            format!("migrateIntervalMinutes: {minutes} text"),
        ),
        (
            contract(r#"{"policy":"none","migrateIntervalMinutes":10.0}"#),
            format!("migrateIntervalMinutes: {minutes} a number with a fraction"),
        ),
        (
            contract(r#"{"policy":"none","targetLocalityRatio":101}"#),
            "targetLocalityRatio: must be a whole number from 0 to 100, and is 101".to_owned(),
        ),
        (own("{\"policy\":1,\"policy\":2}"), "1:20: the key policy is there twice".to_owned()),
        (own(r#"{"intervall": 1}"#), "intervall: is not known".to_owned()),
        (
            own(r#"{"spec":{"policy":{"nodes":{"node_ids":[]}}}}"#),
            "spec.policy.nodes.node_ids: is empty".to_owned(),
        ),
        // These bounds are the daemon's.
        (own(r#"{"interval":"500ms"}"#), "interval: must be from 1s to 31622400s".to_owned()),
        (
            own(r#"{"interval":"5s","jitter":"6s"}"#),
            "jitter: must not be longer than interval".to_owned(),
        ),
        (
            own(r#"{"spec":{"policy":{"max_stall":"61s"}}}"#),
            "spec.policy.max_stall: must be from 100µs to 60s".to_owned(),
        ),
        (
            own(r#"{"spec":{"limits":{"batch_bytes":1}}}"#),
            "spec.limits.batch_bytes: must be from 4096 to 1073741824".to_owned(),
        ),
        (
            found(POLICIES_KEY, r#"{"redis":{"spec":{"limits":{"timeout":"0"}}}}"#),
            "redis.spec.limits.timeout: must be from 1ns to 31622400s".to_owned(),
        ),
        (found(POLICIES_KEY, "none"), "1:2: expected ident".to_owned()),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn all_mistakes_of_an_annotation_are_named_in_one_event() {
    let text = r#"{"interval": "5x", "jitter": "1h", "spec": {"policy": {"profile": "fats", "from_node_ids": [0, -1], "exclude": 1}, "limit": {}}}"#;
    let told = |bad: BadAnnotation| (bad.to_string(), bad.event().message.len());
    let (said, length) = told(read(&[(POLICY_KEY, text)]).expect_err("it is wrong"));
    let expected = [
        "pod shop/redis-0: annotation numaloc.io/policy, interval: is \"5x\"; expected a duration such as ",
        "; also spec.limit is not known; known here: policy, limits; also spec.policy.exclude is not known; also ",
        "; also spec.policy.from_node_ids[1] must be a whole number from 0 to 2147483647, and is -1; also spec.policy.profile is \"fats\"",
        "; no memory is moved by it",
    ];
    for words in expected {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(
        !said.contains("jitter is") && !said.contains("also jitter"),
        "it may be valid: {said}"
    );
    assert_eq!(length, said.len());
    let text = r#"{"policy": "best", "migrateIntervalMinutes": -1, "TargetLocalityRatio": 101}"#;
    let (said, _) = told(read(&[(KOORDINATOR_KEY, text)]).expect_err("it is wrong"));
    for words in [
        "memoryLocality, policy: is \"best\"",
        "; also migrateIntervalMinutes must",
        "; also targetLocalityRatio must",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn all_node_lists_are_bounded_by_the_daemons_bound() {
    let many: Vec<String> = (0..1025).map(|node| node.to_string()).collect();
    let value = format!(r#"{{"spec": {{"policy": {{"from_node_ids": [{}]}}}}}}"#, many.join(","));
    let bad = read(&[(POLICY_KEY, &value)]).expect_err("too many nodes");
    assert_eq!(bad.position, Position::Path("spec.policy.from_node_ids".to_owned()));
    assert_eq!(bad.problem, "must have at most 1024 entries");
}

#[test]
fn sizes_are_bounded() {
    let long = format!("\"{}\"", "x".repeat(VALUE_MAX));
    let bad = read(&[(POLICY_KEY, &long)]).expect_err("it is too long");
    assert_eq!(bad.position, Position::Whole);
    assert_eq!(bad.problem, "is longer than 16384 bytes");
    let long = format!("\"{}\"", "x\\n".repeat(VALUE_MAX / 4));
    let said = read(&[(POLICY_KEY, &long)]).expect_err("it is unknown").to_string();
    assert!(said.len() < 1024 && !said.contains('\n'), "{said}");
}

#[test]
fn keys_of_ours_that_mean_nothing_are_noted() {
    let noted = |key: &str| {
        !read(&[(key, "none")]).map_or_else(|_| Vec::new(), |found| found.notes).is_empty()
    };
    for (key, expected) in [
        ("numaloc.io/polcy", true),
        ("numaloc.io/policy.container.", true),
        ("numaloc.io/policy.containers", true),
        ("numaloc.io/policy.container.web", false),
        ("numaloc.io/status", false),
        ("example.org/numaloc.io/policy", false),
    ] {
        assert_eq!(noted(key), expected, "{key}");
    }
    let keys: Vec<String> = (0..1000).map(|number| format!("numaloc.io/{number}")).collect();
    let many: Vec<_> = keys.iter().map(|key| (key.as_str(), "")).collect();
    assert_eq!(read(&many).map(|decision| decision.notes.len()), Ok(UNKNOWN_MAX));
}

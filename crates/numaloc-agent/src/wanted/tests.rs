//! The records that numalocd should have for a pod.

use super::*;
use crate::labels::ID;
use numaloc_node::{CONTAINER, MANAGED, STATE};
use numaloc_policy::{Defaults, EventReason, KOORDINATOR_KEY, POLICY_KEY};
use proptest::prelude::*;

fn us() -> Registrar {
    Registrar::Us { me: "uid:64100".to_owned(), lease: Duration::from_secs(300) }
}

fn facts(annotations: &[(&str, &str)]) -> Facts {
    let pod = include_str!("../../tests/pod.json");
    let mut facts = Facts::new(serde_json::from_str(pod).expect("a pod"));
    let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
    facts.pod.annotations = annotations.iter().map(owned).collect();
    facts
}

fn made(annotations: &[(&str, &str)], other: Option<&str>) -> WantedPod {
    let defaults = Defaults::default();
    let other = other.map(|what| Other { what: what.to_owned(), has_schedules: false });
    wanted(&facts(annotations), Sources::from(&defaults), &us(), other.as_ref(), None)
}

fn scheduled(wanted: &WantedPod) -> Vec<&str> {
    let scheduled = wanted.containers.iter().filter(|container| container.schedule().is_some());
    scheduled.map(|container| container.name.as_str()).collect()
}

#[test]
fn a_container_has_a_workload_and_a_schedule_by_its_pod_and_its_name() {
    let pod = made(&[(KOORDINATOR_KEY, r#"{"policy": "bestEffort"}"#), (RUN_KEY, "7")], None);
    assert_eq!((scheduled(&pod), pod.repeats), (vec!["web", "cache", "proxy"], false));
    let Wanted { id, workload, schedule, .. } = &pod.containers[0].records;
    assert_eq!(id, "agent-5f2a60c1-d3b4-4e89-8f00-000000000001-web");
    let workload = workload.as_ref().expect("it runs");
    assert_eq!((&workload.container_id, workload.cgroup.as_str()), (&"a".repeat(64), ""));
    assert_eq!(workload.qos_class(), v1::QosClass::Lsr);
    let schedule = schedule.as_ref().expect("it asks for one");
    let target = schedule.spec.as_ref().and_then(|spec| spec.target.as_ref()).expect("a target");
    let labels = target.labels.as_ref().expect("by labels");
    assert_eq!(labels.match_labels[CONTAINER_NAME], "web");
    assert_eq!(labels.match_labels[POD_UID], "5f2a60c1-d3b4-4e89-8f00-000000000001");
    assert_eq!(target.workload_creators, ["uid:64100"]);
    for (key, value) in [
        (MANAGED, "agent"),
        (ID, id.as_str()),
        (CONTAINER, "web"),
        (DECIDED_BY, "annotation koordinator.sh/memoryLocality"),
        (RUN, "7"),
    ] {
        assert_eq!(schedule.labels[key], value, "{key}");
    }
}

#[test]
fn the_state_follows_the_decision_alone() {
    let state = |pod: WantedPod| {
        pod.containers[0].records.schedule.as_ref().expect("one").labels[STATE].clone()
    };
    let first = state(made(&[(POLICY_KEY, "bestEffort")], None));
    assert_eq!(first, state(made(&[(POLICY_KEY, "bestEffort"), (RUN_KEY, "7")], None)));
    assert_ne!(first, state(made(&[(POLICY_KEY, r#"{"interval": "10m"}"#)], None)));
    let mut restarted = facts(&[(POLICY_KEY, "bestEffort")]);
    restarted.containers[0].id = Some("f".repeat(64));
    let defaults = Defaults::default();
    assert_eq!(first, state(wanted(&restarted, Sources::from(&defaults), &us(), None, None)));
}

#[test]
fn what_is_switched_off_is_told_from_what_cannot_be_understood() {
    for (annotations, is_off, events) in [
        (&[][..], true, 0),
        (&[(POLICY_KEY, "none")], true, 0),
        (&[(POLICY_KEY, "{")], false, 1),
        (&[(POLICY_KEY, "none"), ("numaloc.io/policy.container.web", "{")], false, 1),
        (&[(POLICY_KEY, "{}"), ("numaloc.io/policy.container.web", "none")], false, 0),
    ] {
        let pod = made(annotations, None);
        assert_eq!((pod.is_off, pod.events.len()), (is_off, events), "{annotations:?}");
    }
    let left = made(&[(POLICY_KEY, "bestEffort")], Some("koordlet acts for it"));
    assert!(scheduled(&left).is_empty() && !left.is_off);
    assert_eq!(left.events[0].reason, EventReason::Conflict);
    // The other one acts for it no more than we would: there is nothing to say, and its status is not ours to close.
    let asks_nothing = made(&[(POLICY_KEY, "none")], Some("koordlet acts for it"));
    assert!(asks_nothing.events.is_empty() && asks_nothing.other.is_none() && !asks_nothing.is_off);
}

#[test]
fn without_a_full_id_there_is_neither_workload_nor_schedule() {
    let mut pod = facts(&[(POLICY_KEY, "bestEffort")]);
    pod.containers[0].id = Some("short".to_owned());
    // It will run again: its schedule stays.
    pod.containers[1].id = None;
    let defaults = Defaults::default();
    let made = wanted(&pod, Sources::from(&defaults), &us(), None, None);
    assert_eq!(scheduled(&made), ["cache", "proxy"]);
    let registered =
        made.containers.iter().filter(|container| container.records.workload.is_some());
    assert_eq!(registered.count(), 1);
    // An agent that waits for the plugin schedules nothing that the plugin has not registered.
    let waits =
        wanted(&pod, Sources::from(&defaults), &Registrar::Nri { creator: None }, None, None);
    assert!(scheduled(&waits).is_empty());
}

#[test]
fn every_container_has_an_id_that_numalocd_takes() {
    let (long, name) = ("0".repeat(36), "x".repeat(63));
    for (uid, container) in
        [(long.as_str(), name.as_str()), ("", ""), ("ä", "a b"), ("u", &"x".repeat(300))]
    {
        let id = agent_id(uid, container);
        assert!(WorkloadId::new(&id).is_some(), "{id}");
        assert_ne!(id, agent_id(uid, "other"));
    }
}

proptest! {
    #[test]
    fn any_pod_is_served_or_told_why_not(
        uid in r"[a-f0-9-]{0,40}|\PC{0,8}",
        name in r"[a-z0-9-]{1,63}|\PC{0,8}",
        id in prop::option::of(r"[a-f0-9]{64}|\PC{0,70}"),
        key in r"numaloc\.io/(policy|policies|status|run-now|policy\.container\.[a-z]{0,3})|koordinator\.sh/memoryLocality",
        value in r#"(\{|\}|"policy"|:|"none"|"bestEffort"|"interval"|1|,|\PC){0,20}"#,
    ) {
        let mut pod = facts(&[(key.as_str(), value.as_str())]);
        pod.pod.uid = uid;
        pod.containers[0].name = name;
        pod.containers[0].id = id;
        let defaults = Defaults::default();
        for container in wanted(&pod, Sources::from(&defaults), &us(), None, None).containers {
            prop_assert!(WorkloadId::new(&container.records.id).is_some());
            if let Some(schedule) = container.records.schedule {
                // numalocd would take it.
                prop_assert!(numaloc_api::value::ScheduleSpec::try_from(schedule).is_ok());
            }
        }
    }
}

#[test]
fn a_pod_that_is_to_be_left_alone_is_warned_of_schedules_that_continue() {
    let defaults = Defaults::default();
    for (annotation, has_schedules, warned) in [
        ("none", true, true),
        ("none", false, false),
        ("bestEffort", true, true),
        ("bestEffort", false, true),
    ] {
        let other = Other { what: "x has a schedule".to_owned(), has_schedules };
        let facts = facts(&[(POLICY_KEY, annotation)]);
        let wanted = wanted(&facts, Sources::from(&defaults), &us(), Some(&other), None);
        let reasons: Vec<_> = wanted.events.iter().map(|event| event.reason).collect();
        let expected = if warned { vec![EventReason::Conflict] } else { vec![] };
        assert_eq!(reasons, expected, "{annotation} {has_schedules}");
        assert_eq!((wanted.other.is_some(), scheduled(&wanted).len()), (warned, 0));
    }
    let other = Other { what: "x".to_owned(), has_schedules: true };
    let quiet = wanted(&facts(&[]), Sources::from(&defaults), &us(), Some(&other), None);
    assert_eq!(quiet.events, [], "it asks for nothing");
}

#[test]
fn other_cpus_of_a_resized_pod_are_another_state() {
    let state = |generation: u64, cpu: &str| {
        let mut pod: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/pod.json")).expect("JSON");
        pod["metadata"]["generation"] = generation.into();
        pod["metadata"]["annotations"] = serde_json::json!({POLICY_KEY: "bestEffort"});
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
        let facts = Facts::new(serde_json::from_value(pod).expect("a pod"));
        let defaults = Defaults::default();
        let wanted = wanted(&facts, Sources::from(&defaults), &us(), None, None);
        wanted.containers[0].records.schedule.as_ref().expect("one").labels[STATE].clone()
    };
    assert_eq!(state(1, "2"), state(1, "4"), "as before an upgrade");
    assert_eq!(state(2, "2"), state(3, "2"));
    assert_ne!(state(2, "2"), state(2, "4"));
}

#[test]
fn a_pod_that_no_program_registers_has_a_warning() {
    let defaults = Defaults::default();
    let facts = facts(&[(POLICY_KEY, "bestEffort")]);
    let nobody = Registrar::Nri { creator: None };
    let wanted = wanted(&facts, Sources::from(&defaults), &nobody, None, None);
    let [event] = &wanted.events[..] else { panic!("{:?}", wanted.events) };
    assert!(event.message.contains("register = \"never\""), "{}", event.message);
}

#[test]
fn a_first_run_waits_for_the_devices_of_its_container() {
    let policy = r#"{"spec": {"policy": {"home_rule": "devices"}}}"#;
    let (facts, defaults) = (facts(&[(POLICY_KEY, policy)]), Defaults::default());
    let sources = Sources::from(&defaults);
    let of = |devices: &Devices| {
        let mut wanted = wanted(&facts, sources, &us(), None, Some(devices));
        (wanted.needs_devices, wanted.containers.remove(0))
    };
    let mut devices = Devices::default();
    let (needs, web) = of(&devices);
    assert!(needs && web.records.schedule.is_none() && web.records.stays, "what it had stays");
    assert!(web.decided_by.ends_with("; its devices are being looked up"), "{}", web.decided_by);
    devices.fail("none");
    let (needs, web) = of(&devices);
    assert!(needs && web.records.schedule.is_some(), "it goes by what is open meanwhile");
    let ids = facts.containers.iter().filter_map(|container| container.id.clone()).collect();
    let key = [&facts.pod.namespace, &facts.pod.name, &facts.containers[0].name].map(String::clone);
    let nodes = BTreeMap::from([(key, vec![1])]);
    devices.take(Ok(nodes), ids, &[0, 1].into(), std::path::Path::new("/s"));
    let (needs, web) = of(&devices);
    let spec = web.records.schedule.and_then(|schedule| schedule.spec).unwrap_or_default();
    let placement = spec.policy.unwrap_or_default().placement;
    let expected = v1::policy::Placement::Nodes(v1::NodesPlacement { node_ids: vec![1] });
    assert_eq!((needs, placement), (false, Some(expected)));
    assert!(web.decided_by.ends_with("; its home is that of its devices"), "{}", web.decided_by);
}

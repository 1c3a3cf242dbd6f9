use super::*;
use numaloc_api::{
    Fnv,
    value::{Limits, Policy, ScheduleSpec},
};
use numaloc_policy::Defaults;
use prost::Message;
use std::hash::Hasher;

const MARK: Mark = Mark { source: "test", key: "numaloc.io/test" };

fn settings(text: &str) -> Settings {
    let defaults: Defaults =
        serde_json::from_str(&format!(r#"{{"ls": {text}}}"#)).expect("a configuration");
    defaults.ls.expect("it is not off")
}

fn schedule(settings: &Settings) -> v1::Schedule {
    let pod = Pod { uid: "7".to_owned(), name: "web-0".to_owned(), ..Pod::default() };
    let container = Container { mark: MARK, key: "k", id: "test-7", name: "web", pod: &pod };
    container.schedule(
        settings,
        Terms {
            target: v1::Target { containers: vec!["c".to_owned()], ..v1::Target::default() },
            registrar: "uid:1",
            ttl_after_gone: Duration::from_secs(60),
            labels: vec![text("more", "x")],
            state: &["0-3"],
        },
    )
}

#[test]
fn a_schedule_has_all_that_its_policy_has() {
    let settings = settings(
        r#"{"interval": "10m", "jitter": "1m", "paused": true, "spec": {
            "policy": {"target_ratio_percent": 90, "home_rule": "busy", "emit": "always", "max_stall": "2500us"},
            "limits": {"workers": 3, "rate_bytes_per_second": "512M"}}}"#,
    );
    let mut made = schedule(&settings);
    assert_eq!((made.name.as_str(), made.labels["more"].as_str()), ("schedules/test-7", "x"));
    assert_eq!(made.labels["numaloc.io/container"], "web");
    // Without what it has besides, it is the message that was read.
    (made.name, made.labels, made.ttl_after_gone) = Default::default();
    let spec = made.spec.as_mut().expect("a migration");
    let target = spec.target.take().expect("a target");
    assert_eq!(
        (target.containers, target.workload_creators),
        (vec!["c".into()], vec!["uid:1".into()])
    );
    let tenant = std::mem::take(&mut spec.policy.as_mut().expect("a policy").tenant);
    assert_eq!(tenant, "7");
    assert_eq!(made, settings.schedule());
}

#[test]
fn the_state_is_that_of_what_is_meant_and_that_of_earlier_versions() {
    let state = |text| schedule(&settings(text)).labels[STATE].clone();
    let long = r#"{"interval": "600s", "jitter": "0s", "paused": false, "spec": {"policy": {"target_ratio_percent": 100, "local": {}}}}"#;
    assert_eq!(state(r#"{"interval": "10m"}"#), state(long));
    assert_ne!(state(r#"{"interval": "10m"}"#), state(r#"{"interval": "11m"}"#));
    // Earlier versions made the message of checked values, in which each default is set.
    let made = schedule(&settings(r#"{"interval": "10m"}"#));
    let mut spec = ScheduleSpec::try_from(made.clone()).expect("numalocd takes it");
    spec.migration.policy = Policy { tenant: Some("7".to_owned()), ..Policy::default() };
    spec.migration.limits = Limits::default();
    spec.labels.remove(STATE);
    let whole = v1::Schedule { name: made.name.clone(), ..(&spec).into() };
    let mut hash = Fnv::default();
    hash.write(&whole.encode_to_vec());
    hash.write(b"0-3\0");
    assert_eq!(made.labels[STATE], format!("{:016x}", hash.finish()));
    assert_eq!(made.labels[STATE], "80bfea834df2cca7");
}

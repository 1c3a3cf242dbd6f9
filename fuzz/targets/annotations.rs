//! Annotations, labels and names of pods: whoever may create a pod writes them. And the ConfigMap of a cluster.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numaloc_policy::{
    CONTAINER_KEY, Container, Defaults, KOORDINATOR_KEY, OwnStatus, POLICIES_KEY, POLICY_KEY, Pod,
    PodStatus, QOS_LABEL, QosConfig, ThresholdConfig, decide, read_dsa_config,
};

/// Longest text that is shown of a pod.
const SAID_MAX: usize = 16 << 10;

fuzz_target!(|bytes: &[u8]| annotations(bytes));

/// The first byte says which annotation has the others as its value.
fn annotations(bytes: &[u8]) {
    let Some((&which, value)) = bytes.split_first() else { return };
    let value = String::from_utf8_lossy(value).into_owned();
    if let Err(bad) = PodStatus::read(&value) {
        shown(&bad.to_string());
    }
    let thresholds = ThresholdConfig::read(&value).err();
    let read = [QosConfig::read(&value).err(), read_dsa_config(&value).err(), thresholds];
    for bad in read.into_iter().flatten() {
        shown(&bad.to_string());
    }
    let own = OwnStatus::read(&value).to_json();
    assert!(own.len() < 2 * SAID_MAX, "{} bytes", own.len());
    let container = Container { name: "main".to_owned(), ..Container::default() };
    let own = format!("{CONTAINER_KEY}main");
    let keys = [KOORDINATOR_KEY, POLICY_KEY, POLICIES_KEY, &own, &value];
    let key = keys[usize::from(which) % keys.len()].to_owned();
    // A short one may stand anywhere else, too.
    let text: String = value.chars().take(100).collect();
    let pod = Pod {
        namespace: text.clone(),
        name: text.clone(),
        uid: text.clone(),
        labels: [(QOS_LABEL.to_owned(), text.clone())].into(),
        annotations: [(key, value)].into(),
        cgroup_parent: text,
    };
    match decide(&pod, &container, &Defaults::default()) {
        Ok(decision) => {
            shown(&decision.source.to_string());
            decision.notes.iter().for_each(|note| shown(note));
        }
        Err(bad) => shown(&bad.to_string()),
    }
}

/// What is said goes into logs and events as it is.
fn shown(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.len() < SAID_MAX, "{} bytes are said", text.len());
}

//! What numalocd is to have for a container. Pure.

use crate::{
    config::{Config, Policies},
    facts::Facts,
    labels::{CONTAINER, MANAGED, SOURCE, STATE, TOLD_BY},
};
use numaloc_api::{
    LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, v1,
    value::{ScheduleId, Target, WorkloadId, WorkloadSpec},
};
use numaloc_policy::{Decision, decide, qos_class};
use prost::Message;
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hasher,
    time::Duration,
};

/// A schedule goes this many leases after its target: a plugin that comes back within that finds it as it was.
const LEASES_AFTER_GONE: u32 = 2;

/// What numalocd is to have for a container.
#[derive(Clone, Debug)]
pub struct WantedRecords {
    pub workload: v1::Workload,
    /// The schedule; `None`: its memory stays where it is.
    pub schedule: Option<v1::Schedule>,
    /// What its operator should know: a bad annotation, or less than was asked for.
    pub notes: Vec<String>,
}

/// The id of the workload and the schedule of a container. `None`: numalocd takes no such id.
pub fn id(container: &str) -> Option<String> {
    let id = format!("nri-{container}");
    WorkloadId::new(&id).map(|_| id)
}

/// What is wanted for a container, for a caller that numalocd knows as `me`. `None`: its id is none that numalocd takes.
pub fn wanted(facts: &Facts, config: &Config, me: &str) -> Option<WantedRecords> {
    let id = id(&facts.id)?;
    let container =
        numaloc_policy::Container { name: facts.name.clone(), resources: facts.resources };
    let (mut notes, mut schedule) = (Vec::new(), None);
    if config.policies == Policies::Nri {
        match decide(&facts.pod, &container, &config.pods) {
            Ok(decision) => {
                schedule = scheduled(facts, &decision, config.lease, &id, me);
                notes = decision.notes;
            }
            Err(bad) => notes.push(bad.to_string()),
        }
    }
    let spec = WorkloadSpec {
        id: WorkloadId::new(&id)?,
        // Empty: numalocd looks for it by the container's id.
        cgroup: facts.cgroup.clone().unwrap_or_default(),
        container_id: Some(facts.id.clone()),
        pod_uid: token(&facts.pod.uid),
        namespace: token(&facts.pod.namespace),
        labels: labels(facts),
        qos_class: Some(qos_class(&facts.pod, &container, &config.pods.ceilings)),
        source: Some(SOURCE.to_owned()),
        ttl: Some(config.lease),
    };
    Some(WantedRecords { workload: (&spec).into(), schedule, notes })
}

fn scheduled(
    facts: &Facts,
    decision: &Decision,
    lease: Duration,
    id: &str,
    me: &str,
) -> Option<v1::Schedule> {
    let target = Target {
        containers: [facts.id.clone()].into(),
        // Only as we have registered it: others may have registered something else under this container's id.
        workload_creators: [me.to_owned()].into(),
        ..Target::default()
    };
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let labels = [
        text(MANAGED, SOURCE),
        text(CONTAINER, &facts.id),
        text("numaloc.io/namespace", &facts.pod.namespace),
        text("numaloc.io/pod", &facts.pod.name),
        text("numaloc.io/container", &facts.name),
    ];
    let mut spec = decision.settings.as_ref()?.schedule(target, fitting(labels));
    // Pods are served in turns, although all of their schedules are ours.
    spec.migration.policy.tenant = token(&facts.pod.uid).or_else(|| token(&facts.id));
    spec.ttl_after_gone = Some(LEASES_AFTER_GONE * lease);
    let mut schedule =
        v1::Schedule { name: format!("{}{id}", ScheduleId::PREFIX), ..(&spec).into() };
    let state = state(&schedule, facts);
    schedule.labels.insert(STATE.to_owned(), state);
    Some(schedule)
}

/// A number that differs when the schedule or the container's CPUs or nodes differ. It is stored, so it has to be the same in each
/// version: FNV-1a.
fn state(schedule: &v1::Schedule, facts: &Facts) -> String {
    let mut hash = Fnv::default();
    hash.write(&schedule.encode_to_vec());
    for list in [&facts.cpus, &facts.mems] {
        hash.write(list.as_bytes());
        hash.write(&[0]);
    }
    format!("{:016x}", hash.finish())
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// The labels of a workload: who the container is, what the runtime has set, the annotations that concern us, and the pod's own
/// labels, of all these as many as fit.
fn labels(facts: &Facts) -> BTreeMap<String, String> {
    let Facts { name, pid, pod, cpus, mems, told_by, .. } = facts;
    let pid = if *pid == 0 { String::new() } else { pid.to_string() };
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    // The kubelet's names (pkg/kubelet/types/labels.go).
    let who = [
        text("io.kubernetes.container.name", name),
        text("io.kubernetes.pod.name", &pod.name),
        text("io.kubernetes.pod.namespace", &pod.namespace),
        text("io.kubernetes.pod.uid", &pod.uid),
        text("numaloc.io/cpuset-cpus", cpus),
        text("numaloc.io/cpuset-mems", mems),
        text("numaloc.io/pid", &pid),
        text(TOLD_BY, told_by.name()),
    ];
    // Also where the runtime has set nothing: nobody else says what it has set.
    let ours: BTreeSet<String> = who.iter().map(|(key, _)| key.clone()).collect();
    let who = who.into_iter().filter(|(_, value)| !value.is_empty());
    let theirs = pod.annotations.iter().chain(&pod.labels);
    let theirs = theirs.filter(|(key, _)| !ours.contains(*key));
    fitting(who.chain(theirs.map(|(key, value)| (key.clone(), value.clone()))))
}

/// Those labels that the API takes. The first of a key counts.
fn fitting(labels: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    let mut fitting = BTreeMap::new();
    for (key, value) in labels {
        let fits = (1..=LABEL_KEY_MAX).contains(&key.len()) && value.len() <= LABEL_VALUE_MAX;
        if fits && is_plain(&key) && is_plain(&value) && fitting.len() < LABELS_MAX {
            fitting.entry(key).or_insert(value);
        }
    }
    fitting
}

/// A pod's uid or namespace, if the API takes it.
fn token(text: &str) -> Option<String> {
    // The bounds are those of an id.
    WorkloadId::new(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        facts,
        tests::samples::{container, cpuset, pod},
    };
    use nri::v1alpha1::{Container, PodSandbox};

    fn made(pod: PodSandbox, container: Container, config: &Config) -> WantedRecords {
        let facts = Facts::new(facts::pod(pod).into(), container);
        wanted(&facts, config, "uid:990").expect("its id is valid")
    }

    #[test]
    fn a_container_becomes_a_workload_and_what_it_asks_for_a_schedule() {
        let WantedRecords { workload, schedule, notes } =
            made(pod(1), container(1, "c1"), &Config::default());
        assert_eq!(workload.name, "workloads/nri-c1");
        assert_eq!(workload.cgroup, "/kubepods.slice/kubepods-pod1.slice/cri-containerd-c1.scope");
        assert_eq!((&*workload.pod_uid, &*workload.namespace), ("0000-1", "default"));
        for (key, value) in [
            ("app", "redis"),
            ("io.kubernetes.container.name", "server"),
            ("io.kubernetes.pod.name", "pod-1"),
            ("numaloc.io/cpuset-cpus", "0-3"),
            ("numaloc.io/pid", "4711"),
        ] {
            assert_eq!(workload.labels.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(workload.ttl.map(|ttl| ttl.seconds), Some(300));
        let schedule = schedule.expect("it asks for one");
        assert_eq!(schedule.name, "schedules/nri-c1");
        let seconds = |span: Option<prost_types::Duration>| span.map(|span| span.seconds);
        assert_eq!(seconds(schedule.interval), Some(60));
        assert_eq!(seconds(schedule.ttl_after_gone), Some(600));
        let spec = schedule.spec.expect("a migration");
        let tenant = spec.policy.map(|policy| policy.tenant);
        assert_eq!(tenant.as_deref(), Some("0000-1"), "pods take turns");
        let target = spec.target.expect("a target");
        assert_eq!(target.containers, ["c1"]);
        assert_eq!(target.workload_creators, ["uid:990"]);
        assert_eq!(notes, Vec::<String>::new());
    }

    #[test]
    fn who_does_not_ask_gets_no_schedule() {
        let default = Config::default();
        assert!(made(pod(2), container(2, "c"), &default).schedule.is_none());
        let bad = made(pod(3), container(3, "c"), &default);
        assert!(bad.schedule.is_none());
        let [note] = &bad.notes[..] else { panic!("{:?}", bad.notes) };
        assert!(
            note.contains("default/pod-3") && note.contains("koordinator.sh/memoryLocality"),
            "{note}"
        );
        // Somebody else decides, and says what is wrong.
        let agent = Config { policies: Policies::Agent, ..Config::default() };
        for number in 1..=3 {
            let wanted = made(pod(number), container(number, "c"), &agent);
            assert!(wanted.schedule.is_none() && wanted.notes.is_empty(), "{number}");
        }
    }

    #[test]
    fn the_state_follows_the_policy_and_the_cpus_alone() {
        let state = |pod, container| {
            let schedule = made(pod, container, &Config::default()).schedule;
            schedule.expect("it asks for one").labels[STATE].clone()
        };
        let first = state(pod(1), container(1, "c"));
        assert_eq!(first, state(pod(1), Container { pid: 1, ..container(1, "c") }));
        assert_ne!(first, state(pod(1), cpuset(container(1, "c"), "4-7")));
        let mut other = pod(1);
        other.annotations.values_mut().for_each(|value| *value = value.replace('1', "2"));
        assert_ne!(first, state(other, container(1, "c")));
    }

    #[test]
    fn labels_that_the_api_does_not_take_are_left_out() {
        let mut crowded = pod(2);
        crowded.labels = (0..100).map(|label| (format!("label-{label}"), "x".to_owned())).collect();
        crowded.labels.insert("a-long".to_owned(), "x".repeat(257));
        crowded.labels.insert("a-line".to_owned(), "x\ny".to_owned());
        crowded.labels.insert("numaloc.io/pid".to_owned(), "1".to_owned());
        let labels = made(crowded, container(2, "c"), &Config::default()).workload.labels;
        assert_eq!(labels.len(), LABELS_MAX);
        assert_eq!(labels["numaloc.io/pid"], "4711", "ours count");
        assert!(!labels.contains_key("a-long") && !labels.contains_key("a-line"));
    }

    #[test]
    fn a_pod_does_not_say_what_the_runtime_has_set() {
        let keys = ["numaloc.io/cpuset-cpus", "numaloc.io/cpuset-mems", "numaloc.io/pid", TOLD_BY];
        let claims = |value: &str| keys.map(|key| (key.to_owned(), value.to_owned())).into();
        let mut liar = pod(2);
        (liar.annotations, liar.labels) = (claims("1"), claims("2"));
        let created = Container { pid: 0, ..cpuset(container(2, "c"), "") };
        let labels = made(liar, created, &Config::default()).workload.labels;
        let told: Vec<_> = keys.map(|key| labels.get(key).map(String::as_str)).into();
        assert_eq!(told, [None, None, None, Some("nri")]);
    }

    #[test]
    fn a_pod_that_labels_itself_gets_no_better_class() {
        let mut labelled = pod(1);
        labelled.labels.insert(numaloc_policy::QOS_LABEL.to_owned(), "LSR".to_owned());
        labelled.linux.as_mut().expect("it has one").cgroup_parent =
            "kubepods-besteffort-pod1.slice".to_owned();
        let class = |config: &Config| {
            let made = made(labelled.clone(), container(1, "c"), config);
            (made.workload.qos_class(), made.notes.len())
        };
        assert_eq!(class(&Config::default()), (v1::QosClass::Be, 1));
        let mut trusting = Config::default();
        trusting.pods.ceilings.qos_label = true;
        assert_eq!(class(&trusting), (v1::QosClass::Lsr, 0));
    }

    #[test]
    fn ids_that_the_api_does_not_take_are_left_out() {
        assert_eq!(id("c1").as_deref(), Some("nri-c1"));
        for nonsense in ["a b", "ä", "a/b", &"x".repeat(125)] {
            assert_eq!(id(nonsense), None, "{nonsense}");
        }
    }
}

//! What numalocd is to have for a container. Pure.

use crate::{
    config::{Config, Policies},
    facts::Facts,
    labels::{CONTAINER, SOURCE, TOLD_BY},
};
use numaloc_api::{
    v1,
    value::{ScheduleId, Target, WorkloadId, WorkloadSpec},
};
use numaloc_node::{MANAGED, STATE, Wanted, fitting, state, token};
use numaloc_policy::{Decision, MemoryPolicy, decide, qos_class};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A schedule goes this many leases after its target: a plugin that comes back within that finds it as it was.
const LEASES_AFTER_GONE: u32 = 2;

/// The id of the workload and the schedule of a container. `None`: numalocd takes no such id.
pub fn id(container: &str) -> Option<String> {
    let id = format!("nri-{container}");
    WorkloadId::new(&id).map(|_| id)
}

/// What is wanted for a container, for a caller that numalocd knows as `me`. `None`: its id is none that numalocd takes.
pub fn wanted(facts: &Facts, config: &Config, me: &str) -> Option<Wanted> {
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
    // A bad annotation was logged when the container was created.
    if let Ok(Some(asked)) = MemoryPolicy::asked(&facts.pod, &facts.name)
        && !config.memory_policies.contains(&asked)
    {
        notes.push(format!(
            "the memory policy {} is not set: memory_policies in nri.toml does not have it",
            asked.name()
        ));
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
    Some(Wanted { id, workload: Some((&spec).into()), schedule, notes })
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
    let state = state(&schedule, &[&facts.cpus, &facts.mems]);
    schedule.labels.insert(STATE.to_owned(), state);
    Some(schedule)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        facts,
        tests::samples::{container, cpuset, pod},
    };
    use nri::v1alpha1::{Container, PodSandbox};
    use numaloc_api::LABELS_MAX;

    fn made(pod: PodSandbox, container: Container, config: &Config) -> Wanted {
        let facts = Facts::new(facts::pod(pod).into(), container);
        wanted(&facts, config, "uid:990").expect("its id is valid")
    }

    #[test]
    fn a_container_becomes_a_workload_and_what_it_asks_for_a_schedule() {
        let Wanted { workload, schedule, notes, .. } =
            made(pod(1), container(1, "c1"), &Config::default());
        let workload = workload.expect("it registers all");
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
        let labels = made(crowded, container(2, "c"), &Config::default())
            .workload
            .expect("it registers all")
            .labels;
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
        let labels =
            made(liar, created, &Config::default()).workload.expect("it registers all").labels;
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
            (made.workload.expect("it registers all").qos_class(), made.notes.len())
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

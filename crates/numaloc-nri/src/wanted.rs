//! The records that numalocd should have for a container. Pure.

use crate::{
    agent::Agent,
    config::Config,
    facts::Facts,
    labels::{MARK, TOLD_BY},
};
use numaloc_api::{v1, value::WorkloadId};
use numaloc_node::{AGENT_SOURCE, Container, Registration, Terms, Wanted, YIELDS_TO};
use numaloc_policy::{Decision, MemoryPolicy, PodBounds, decide, qos_class};
use std::time::Duration;

/// A schedule goes this many leases after its target: a plugin that comes back within that finds it as it was.
const LEASES_AFTER_GONE: u32 = 2;

/// The id of the workload and the schedule of a container. `None`: numalocd takes no such id.
pub fn id(container: &str) -> Option<String> {
    let id = format!("nri-{container}");
    WorkloadId::new(&id).map(|_| id)
}

/// Derives the records wanted for a container, for a caller that numalocd knows as `me`. `None`: numalocd does not
/// accept its id.
pub fn wanted(facts: &Facts, config: &Config, agent: &Agent, me: &str) -> Option<Wanted> {
    let id = id(&facts.id)?;
    let policed =
        numaloc_policy::Container { name: facts.name.clone(), resources: facts.resources };
    let container =
        Container { mark: MARK, key: &facts.id, id: &id, name: &facts.name, pod: &facts.pod };
    let (mut notes, mut schedule, mut bounds) = (Vec::new(), None, PodBounds::default());
    if config.policies.yields() && !agent.acts_for(facts) {
        match decide(&facts.pod, &policed, &config.pods) {
            Ok(decision) => {
                schedule = scheduled(facts, &container, &decision, config.lease, me);
                notes = decision.notes;
                // Runs begin with other CPUs, and not when the pod asks.
                bounds.containers = decision.bounds.containers;
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
    let yields_to = if config.policies.yields() { AGENT_SOURCE } else { "" };
    let theirs = facts.pod.annotations.iter().chain(&facts.pod.labels);
    let workload = container.workload(Registration {
        container_id: &facts.id,
        cgroup: facts.cgroup.as_deref().unwrap_or_default(),
        class: qos_class(&facts.pod, &policed, &config.pods.ceilings),
        lease: config.lease,
        runtime: vec![
            ("numaloc.io/cpuset-cpus", facts.cpus.clone()),
            ("numaloc.io/cpuset-mems", facts.mems.clone()),
            ("numaloc.io/pid", if facts.pid == 0 { String::new() } else { facts.pid.to_string() }),
            (TOLD_BY, facts.told_by.name().to_owned()),
            (YIELDS_TO, yields_to.to_owned()),
        ],
        pod: theirs.map(|(key, value)| (key.clone(), value.clone())).collect(),
    });
    Some(Wanted {
        id,
        workload: Some(workload),
        schedule,
        stays: false,
        stops: false,
        notes,
        bounds,
    })
}

fn scheduled(
    facts: &Facts,
    container: &Container<'_>,
    decision: &Decision,
    lease: Duration,
    me: &str,
) -> Option<v1::Schedule> {
    let settings = decision.settings.as_ref()?;
    Some(container.schedule(
        settings,
        Terms {
            target: v1::Target { containers: vec![facts.id.clone()], ..v1::Target::default() },
            registrar: me,
            ttl_after_gone: LEASES_AFTER_GONE * lease,
            labels: Vec::new(),
            state: &[&facts.cpus, &facts.mems],
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Policies,
        facts,
        tests::samples::{container, cpuset, pod},
    };
    use nri::v1alpha1::{Container, PodSandbox};
    use numaloc_api::LABELS_MAX;
    use numaloc_node::STATE;

    fn made(pod: PodSandbox, container: Container, config: &Config) -> Wanted {
        let facts = Facts::new(facts::pod(pod).into(), container);
        wanted(&facts, config, &Agent::default(), "uid:990").expect("its id is valid")
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
        // Another program decides, and reports errors.
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
        labelled.annotations.insert(numaloc_policy::POLICY_KEY.to_owned(), "bestEffort".to_owned());
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

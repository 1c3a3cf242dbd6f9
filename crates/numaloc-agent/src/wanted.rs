//! What numalocd is to have for the containers of a pod, and what is to be said about it. Pure.

use crate::{
    facts::{Container, Facts},
    labels::{CONTAINER, DECIDED_BY, ID, NAMESPACE, POD, SOURCE},
};
use numaloc_api::{
    v1,
    value::{Condition, Requirement, ScheduleId, Selector, Target, WorkloadId, WorkloadSpec},
};
use numaloc_node::{MANAGED, RUN, STATE, Wanted, fitting, hash, state, token};
use numaloc_policy::{Decision, PodEvent, RUN_KEY, Settings, Sources, decide, qos_class};
use std::{collections::BTreeMap, time::Duration};

/// The labels by which a workload's container is known (kubernetes/pkg/kubelet/types/labels.go).
const CONTAINER_NAME: &str = "io.kubernetes.container.name";
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_UID: &str = "io.kubernetes.pod.uid";
/// A schedule whose container does not run goes after a day: the agent that would remove it may be gone.
const TTL_AFTER_GONE: Duration = Duration::from_secs(24 * 3600);

/// Who registers the containers of this node with numalocd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registrar {
    /// This agent, which is known as this to numalocd, with a lease of this length.
    Us { me: String, lease: Duration },
    /// numaloc-nri, which is known as this to numalocd; `None`: it has registered nothing yet, so there is nothing to schedule.
    Nri { creator: Option<String> },
}

impl Registrar {
    fn creator(&self) -> Option<&str> {
        match self {
            Self::Us { me, .. } => Some(me),
            Self::Nri { creator } => creator.as_deref(),
        }
    }
}

/// What is wanted for a pod.
#[derive(Clone, Debug, Default)]
pub struct WantedPod {
    /// Its containers, in its order.
    pub containers: Vec<WantedContainer>,
    /// Whether any of its containers has a policy that repeats.
    pub repeats: bool,
    /// Whether it says that nothing is to be done, for any of its containers.
    pub is_off: bool,
    /// Who acts for it instead, although it asks for something.
    pub other: Option<String>,
    /// What its author should know: annotations that cannot be understood, and less than was asked for.
    pub events: Vec<PodEvent>,
}

/// What is wanted for a container.
#[derive(Clone, Debug)]
pub struct WantedContainer {
    /// Its name within the pod.
    pub name: String,
    /// Its id, if it runs.
    pub container_id: Option<String>,
    /// Which source has decided, and what is to be said about that.
    pub decided_by: String,
    /// What numalocd is to have.
    pub records: Wanted,
}

impl WantedContainer {
    /// The name of its workload, which the agent or numaloc-nri registers.
    pub fn workload(&self) -> String {
        format!("{}{}", WorkloadId::PREFIX, self.records.id)
    }

    /// The name of its schedule; `None`: its memory stays where it is.
    pub fn schedule(&self) -> Option<&str> {
        self.records.schedule.as_ref().map(|schedule| schedule.name.as_str())
    }
}

/// The id of the workload and the schedule of a container: the same after its restart.
pub fn id(uid: &str, container: &str) -> String {
    let id = format!("{SOURCE}-{uid}-{container}");
    match WorkloadId::new(&id) {
        Some(_) => id,
        None => format!("{SOURCE}-{}", hash(&[uid, container])),
    }
}

/// The ids of all containers of a pod.
pub fn ids(facts: &Facts) -> impl Iterator<Item = String> {
    facts.containers.iter().map(|container| id(&facts.pod.uid, &container.name))
}

/// What is wanted for a pod. Nothing is scheduled if somebody else (`other`) acts for it.
pub fn wanted(
    facts: &Facts,
    sources: Sources<'_>,
    registrar: &Registrar,
    other: Option<&str>,
) -> WantedPod {
    let mut wanted = WantedPod {
        is_off: other.is_none() && !facts.containers.is_empty(),
        ..WantedPod::default()
    };
    for container in &facts.containers {
        let policed = numaloc_policy::Container {
            name: container.name.clone(),
            resources: container.resources,
        };
        let id = id(&facts.pod.uid, &container.name);
        let mut records = Wanted { id: id.clone(), ..Wanted::default() };
        if let Registrar::Us { lease, .. } = registrar {
            let class = qos_class(&facts.pod, &policed, &sources.defaults.ceilings);
            records.workload = workload(facts, container, &id, *lease)
                .map(|spec| (&WorkloadSpec { qos_class: Some(class), ..spec }).into());
        }
        let decided_by = match decide(&facts.pod, &policed, sources) {
            Ok(decision) => {
                wanted.events.extend(decision.event(&container.name));
                wanted.is_off &= decision.settings.is_none();
                // Nobody stands back from a pod that asks for nothing.
                if let (Some(other), true) = (other, decision.settings.is_some())
                    && wanted.other.is_none()
                {
                    wanted.other = Some(other.to_owned());
                    wanted.events.insert(0, PodEvent::conflict(other));
                }
                if let Some(settings) = decision.settings.as_ref().filter(|_| other.is_none()) {
                    wanted.repeats |= settings.repeats();
                    records.schedule = registrar
                        .creator()
                        .map(|of| schedule(facts, container, &id, &decision, settings, of));
                }
                records.notes = decision.notes;
                decision.source.to_string()
            }
            Err(bad) => {
                wanted.is_off = false;
                // It is the same for all containers, unless it is about this one.
                let event = bad.event();
                if !wanted.events.contains(&event) {
                    wanted.events.push(event);
                }
                records.notes = vec![bad.to_string()];
                format!("annotation {}, which cannot be understood", bad.key)
            }
        };
        // A container that numalocd cannot be told of has no schedule: it would wait for ever.
        if records.workload.is_none()
            && matches!(registrar, Registrar::Us { .. })
            && container.id.is_some()
        {
            records.schedule = None;
            records
                .notes
                .push(format!("container {}: its id is none that numalocd takes", container.name));
        }
        let (name, container_id) = (container.name.clone(), container.id.clone());
        wanted.containers.push(WantedContainer { name, container_id, decided_by, records });
    }
    wanted
}

/// The workload of a container that runs.
fn workload(
    facts: &Facts,
    container: &Container,
    id: &str,
    lease: Duration,
) -> Option<WorkloadSpec> {
    let container_id = container.id.as_ref()?;
    // numalocd finds the cgroup by it.
    let is_full =
        container_id.len() == 64 && container_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pod = &facts.pod;
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let who = [
        text(CONTAINER_NAME, &container.name),
        text(POD_NAME, &pod.name),
        text(POD_NAMESPACE, &pod.namespace),
        text(POD_UID, &pod.uid),
    ];
    let theirs = pod.labels.iter().map(|(key, value)| text(key, value));
    is_full.then_some(WorkloadSpec {
        id: WorkloadId::new(id)?,
        cgroup: String::new(),
        container_id: Some(container_id.clone()),
        pod_uid: token(&pod.uid),
        namespace: token(&pod.namespace),
        labels: fitting(who.into_iter().chain(theirs)),
        qos_class: None,
        source: Some(SOURCE.to_owned()),
        ttl: Some(lease),
    })
}

fn schedule(
    facts: &Facts,
    container: &Container,
    id: &str,
    decision: &Decision,
    settings: &Settings,
    registrar: &str,
) -> v1::Schedule {
    let pod = &facts.pod;
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let is = |key: &str, value: &str| Requirement {
        key: key.to_owned(),
        condition: Condition::In([value.to_owned()].into()),
    };
    let selector = Selector {
        requirements: [is(POD_UID, &pod.uid), is(CONTAINER_NAME, &container.name)].into(),
        ..Selector::default()
    };
    let target = Target {
        labels: selector,
        // Only what the registrar has registered: others may have registered something else under these labels.
        workload_creators: [registrar.to_owned()].into(),
        ..Target::default()
    };
    let labels = [
        text(MANAGED, SOURCE),
        text(ID, id),
        text(NAMESPACE, &pod.namespace),
        text(POD, &pod.name),
        text(CONTAINER, &container.name),
        text(DECIDED_BY, &decision.source.to_string()),
    ];
    let mut spec = settings.schedule(target, fitting(labels));
    // Pods are served in turns, although all of their schedules are ours.
    spec.migration.policy.tenant = token(&pod.uid);
    spec.ttl_after_gone = Some(TTL_AFTER_GONE);
    let mut schedule =
        v1::Schedule { name: format!("{}{id}", ScheduleId::PREFIX), ..(&spec).into() };
    let state = state(&schedule, &[]);
    schedule.labels.insert(STATE.to_owned(), state);
    let run = pod.annotations.get(RUN_KEY).map(|run| (RUN.to_owned(), run.clone()));
    let run: BTreeMap<_, _> = fitting(run.filter(|(_, run)| !run.is_empty()));
    schedule.labels.extend(run);
    schedule
}

#[cfg(test)]
mod tests;

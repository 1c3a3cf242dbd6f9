//! The records that numalocd should have for the containers of a pod, and the reports about it. Pure.

use crate::{
    devices::{Devices, Found},
    facts::{self, Facts},
    labels::{DECIDED_BY, MARK, PRESENCE, SOURCE},
};
use numaloc_api::{v1, value::WorkloadId};
use numaloc_node::{
    CONTAINER_NAME, Container, POD_UID, RUN, Registration, Terms, Wanted, agent_id, fitting,
};
use numaloc_policy::{
    DecidingPolicy, Decision, DecisionSource, EventKind, EventReason, PodEvent, RUN_KEY, Settings,
    Sources, class_of, decide,
};
use std::{collections::BTreeMap, time::Duration};

/// A schedule whose container does not run goes after a day: the agent that would remove it may be gone.
const TTL_AFTER_GONE: Duration = Duration::from_secs(24 * 3600);

/// The program that registers the containers of this node with numalocd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registrar {
    /// This agent, which is known as this to numalocd, with a lease of this length.
    Us { me: String, lease: Duration },
    /// numaloc-nri, which is known as this to numalocd; `None`: it has registered nothing yet, so there is nothing to
    /// schedule.
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

/// Another program that acts for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// What it does, and how it can be kept from that.
    pub what: String,
    /// Whether it has schedules for the pod's containers, which continue where the pod is to be left alone.
    pub has_schedules: bool,
}

/// The records and reports wanted for a pod.
#[derive(Clone, Debug, Default)]
pub struct WantedPod {
    /// Its containers, in its order.
    pub containers: Vec<WantedContainer>,
    /// Whether any of its containers has a policy that repeats.
    pub repeats: bool,
    /// Whether nothing is to be done, for any of its containers.
    pub is_off: bool,
    /// The program that acts for the pod instead, although it has a policy.
    pub other: Option<String>,
    /// Whether the kubelet is to be asked for the devices of any of its containers.
    pub needs_devices: bool,
    /// Notices for its author: annotations that cannot be parsed, and requests that were reduced.
    pub events: Vec<PodEvent>,
}

/// The records wanted for a container.
#[derive(Clone, Debug)]
pub struct WantedContainer {
    /// Its name within the pod.
    pub name: String,
    /// Its id, if it runs.
    pub container_id: Option<String>,
    /// The source that has decided, and any error in it.
    pub decided_by: String,
    /// The policy of the cluster that has decided.
    pub policy: Option<DecidingPolicy>,
    /// Whether its schedule is that of an earlier decision until a first run of this one may begin.
    pub waits: bool,
    /// The records that numalocd should have.
    pub records: Wanted,
}

impl WantedContainer {
    /// The name of its workload, which the agent or numaloc-nri registers.
    pub fn workload(&self) -> String {
        format!("{}{}", WorkloadId::PREFIX, self.records.id)
    }

    /// The name of its schedule, or of the one that it may have of an earlier decision; `None`: its memory stays where
    /// it is.
    pub fn schedule(&self) -> Option<String> {
        self.records.scheduled()
    }

    /// Has its first run wait: what was decided before stays.
    pub fn wait(&mut self) {
        self.records.schedule = None;
        self.records.stays = true;
        self.decided_by.push_str("; its first run waits for its turn");
        self.waits = true;
    }

    /// Whether its schedule starts no run unasked.
    pub fn is_paused(&self) -> bool {
        self.records.schedule.as_ref().is_some_and(|schedule| schedule.paused)
    }
}

/// The ids of all containers of a pod.
pub fn ids(facts: &Facts) -> impl Iterator<Item = String> {
    facts.containers.iter().map(|container| agent_id(&facts.pod.uid, &container.name))
}

/// Derives the records wanted for a pod. Nothing is scheduled if another program (`other`) acts for it. Without `devices`,
/// homes by devices are left to numalocd.
pub fn wanted(
    facts: &Facts,
    sources: Sources<'_>,
    registrar: &Registrar,
    other: Option<&Other>,
    devices: Option<&Devices>,
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
        let id = agent_id(&facts.pod.uid, &container.name);
        let mut records = Wanted { id: id.clone(), ..Wanted::default() };
        let ours = ours(facts, container, &id);
        // Other CPUs are another home. A pod that was never changed has its first ones: its schedule stays as it is over an upgrade.
        let cpus = container.resources.cpu_shares.filter(|_| facts.is_changed);
        let cpus: Vec<String> = cpus.iter().map(u64::to_string).collect();
        if let Registrar::Us { lease, .. } = registrar {
            let class = class_of(&facts.pod, &policed, sources);
            records.workload =
                container.id.as_deref().filter(|id| is_full(id)).map(|container_id| {
                    let theirs = facts.pod.labels.iter();
                    ours.workload(Registration {
                        container_id,
                        // numalocd finds it by the id.
                        cgroup: "",
                        class,
                        lease: *lease,
                        runtime: Vec::new(),
                        pod: theirs.map(|(key, value)| (key.clone(), value.clone())).collect(),
                    })
                });
        }
        let (mut policy, mut home) = (None, "");
        let mut decided_by = match decide(&facts.pod, &policed, sources) {
            Ok(decision) => {
                wanted.events.extend(decision.event(&container.name));
                wanted.is_off &= decision.settings.is_none() && !decision.stays;
                records.stays = decision.stays;
                // A pod without a policy needs no owner. One that says that nothing is to be done does not get that from the
                // schedules of another program.
                let is_off =
                    decision.settings.is_none() && decision.source != DecisionSource::Default;
                let is_meant =
                    |other: &&Other| decision.settings.is_some() || (is_off && other.has_schedules);
                if let Some(other) = other.filter(is_meant)
                    && wanted.other.is_none()
                {
                    wanted.other = Some(other.what.clone());
                    wanted.events.insert(0, PodEvent::conflict(&other.what));
                }
                let is_alone = *registrar == Registrar::Nri { creator: None };
                if is_alone
                    && decision.settings.is_some()
                    && !wanted.events.contains(&unregistered())
                {
                    wanted.events.push(unregistered());
                }
                if let Some(settings) = decision.settings.as_ref().filter(|_| other.is_none()) {
                    wanted.repeats |= settings.repeats();
                    let by_devices = devices.filter(|_| settings.goes_by_devices());
                    let found = by_devices.map(|devices| devices.of(facts, container));
                    wanted.needs_devices |=
                        matches!(found, Some(Found::NotYet | Found::Unavailable));
                    let of_devices = match found {
                        Some(Found::Nodes(nodes)) if !nodes.is_empty() => {
                            home = "; its home is that of its devices";
                            Some(settings.clone().at(nodes))
                        }
                        _ => None,
                    };
                    let settings = of_devices.as_ref().unwrap_or(settings);
                    records.schedule = registrar
                        .creator()
                        .map(|of| schedule(&ours, &decision, settings, of, &cpus));
                    // A moment later the home may be another one.
                    if found == Some(Found::NotYet) {
                        (records.schedule, records.stays) = (None, true);
                        home = "; its devices are being looked up";
                    }
                }
                records.bounds = decision.bounds;
                records.stops = decision.policy.as_ref().is_some_and(|policy| policy.is_paused);
                policy = decision.policy;
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
                format!("annotation {}, which cannot be parsed", bad.key)
            }
        };
        decided_by.push_str(home);
        // A container that cannot be registered with numalocd has no schedule: the schedule would wait forever.
        if records.workload.is_none()
            && matches!(registrar, Registrar::Us { .. })
            && container.id.is_some()
        {
            records.schedule = None;
            records.notes.push(format!(
                "container {}: numalocd does not accept this container id",
                container.name
            ));
        }
        let (name, container_id) = (container.name.clone(), container.id.clone());
        wanted.containers.push(WantedContainer {
            name,
            container_id,
            decided_by,
            policy,
            waits: false,
            records,
        });
    }
    wanted
}

/// The event of a pod whose containers no program registers.
fn unregistered() -> PodEvent {
    let message = "numaloc-nri has registered no container, and numaloc-agent may not (register = \"never\" in its configuration): remove that key";
    let (kind, reason) = (EventKind::Warning, EventReason::Failed);
    PodEvent { kind, reason, message: message.to_owned() }
}

fn ours<'a>(facts: &'a Facts, container: &'a facts::Container, id: &'a str) -> Container<'a> {
    Container { mark: MARK, key: id, id, name: &container.name, pod: &facts.pod }
}

/// Whether numalocd finds the cgroup of a container by this id.
fn is_full(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn schedule(
    container: &Container<'_>,
    decision: &Decision,
    settings: &Settings,
    registrar: &str,
    cpus: &[String],
) -> v1::Schedule {
    let pod = container.pod;
    let match_labels = [(POD_UID, pod.uid.as_str()), (CONTAINER_NAME, container.name)];
    let match_labels = match_labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let labels = v1::LabelSelector { match_labels: match_labels.into(), ..Default::default() };
    // The agent decides what is news: it compares the containers of a pod together, and with what the pod's status says.
    let settings = match settings.repeats() {
        true => settings.clone().telling_all(),
        false => settings.clone(),
    };
    let mut schedule = container.schedule(
        &settings,
        Terms {
            target: v1::Target { labels: Some(labels), ..v1::Target::default() },
            registrar,
            ttl_after_gone: TTL_AFTER_GONE,
            labels: vec![(DECIDED_BY.to_owned(), decision.source.to_string())],
            state: &cpus.iter().map(String::as_str).collect::<Vec<_>>(),
        },
    );
    let run = pod.annotations.get(RUN_KEY).map(|run| (RUN.to_owned(), run.clone()));
    let run: BTreeMap<_, _> = fitting(run.filter(|(_, run)| !run.is_empty()));
    schedule.labels.extend(run);
    schedule
}

/// Shows numaloc-nri, where it registers all containers, that we decide about policies: a workload in a cgroup below
/// that of one of its containers, which our grant has as well. No such cgroup exists, so it names no process.
pub fn presence(cgroup: &str, lease: Duration) -> Wanted {
    let workload = v1::Workload {
        name: format!("{}{PRESENCE}", WorkloadId::PREFIX),
        cgroup: format!("{}/numaloc-agent", cgroup.trim_end_matches('/')),
        source: SOURCE.to_owned(),
        ttl: lease.try_into().ok(),
        ..v1::Workload::default()
    };
    Wanted { id: PRESENCE.to_owned(), workload: Some(workload), ..Wanted::default() }
}

#[cfg(test)]
mod tests;

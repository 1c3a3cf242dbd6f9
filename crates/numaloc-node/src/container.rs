//! The records that numalocd should have for a container of a pod. Pure.

use crate::mark::{
    AGENT_SOURCE, CONTAINER, MANAGED, Mark, NAMESPACE, POD, STATE, fitting, hash, state, token,
};
use numaloc_api::{
    v1,
    value::{QosClass, ScheduleId, WorkloadId},
};
use numaloc_policy::{Pod, Settings};
use std::{collections::BTreeMap, time::Duration};

// The kubelet's names (pkg/kubelet/types/labels.go).
/// The label of a workload with the name of its container.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The label of a workload with the uid of its pod.
pub const POD_UID: &str = "io.kubernetes.pod.uid";

/// A container of a pod, with the names of its records.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a> {
    /// The mark of its records.
    pub mark: Mark,
    /// The value of the label [`Mark::key`].
    pub key: &'a str,
    /// The id of its workload and of its schedule.
    pub id: &'a str,
    /// Its name within the pod.
    pub name: &'a str,
    pub pod: &'a Pod,
}

/// The parts of a container's workload besides its pod.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    /// Its id, by which numalocd finds the cgroup where `cgroup` is empty.
    pub container_id: &'a str,
    pub cgroup: &'a str,
    pub class: QosClass,
    /// Time that numalocd keeps it if it is not renewed.
    pub lease: Duration,
    /// Labels whose values only the runtime knows. An empty value is left out, and the pod does not set it either.
    pub runtime: Vec<(&'static str, String)>,
    /// Labels of the pod, as many of them as fit.
    pub pod: Vec<(String, String)>,
}

/// The parts of a container's schedule besides its policy.
#[derive(Clone, Debug)]
pub struct Terms<'a> {
    /// The processes that it is for.
    pub target: v1::Target,
    /// The client that has registered the container: others may have registered something else under its names.
    pub registrar: &'a str,
    /// Time that it stays after its target has gone.
    pub ttl_after_gone: Duration,
    /// Labels besides those of all containers.
    pub labels: Vec<(String, String)>,
    /// The state that starts a run when it changes, besides the schedule itself.
    pub state: &'a [&'a str],
}

/// The id of the records that numaloc-agent has for a container: the same after its restart.
pub fn agent_id(uid: &str, container: &str) -> String {
    let id = format!("{AGENT_SOURCE}-{uid}-{container}");
    match WorkloadId::new(&id) {
        Some(_) => id,
        None => format!("{AGENT_SOURCE}-{}", hash(&[uid, container])),
    }
}

fn text(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

impl Container<'_> {
    pub fn workload(&self, of: Registration<'_>) -> v1::Workload {
        let Registration { container_id, cgroup, class, lease, runtime, pod: theirs } = of;
        let Self { mark, id, name, pod, .. } = *self;
        let kubelet = [
            (CONTAINER_NAME, name),
            (POD_NAME, &pod.name),
            (POD_NAMESPACE, &pod.namespace),
            (POD_UID, &pod.uid),
        ];
        let runtime = runtime.iter().map(|(key, value)| (*key, value.as_str()));
        let ours: BTreeMap<_, _> = kubelet.into_iter().chain(runtime).collect();
        let known = ours.iter().filter(|(_, value)| !value.is_empty());
        let known = known.map(|(key, value)| text(key, value));
        let theirs = theirs.into_iter().filter(|(key, _)| !ours.contains_key(key.as_str()));
        v1::Workload {
            name: format!("{}{id}", WorkloadId::PREFIX),
            cgroup: cgroup.to_owned(),
            container_id: container_id.to_owned(),
            pod_uid: token(&pod.uid).unwrap_or_default(),
            namespace: token(&pod.namespace).unwrap_or_default(),
            labels: fitting(known.chain(theirs)),
            qos_class: v1::QosClass::from(class).into(),
            source: mark.source.to_owned(),
            ttl: lease.try_into().ok(),
            ..v1::Workload::default()
        }
    }

    /// The schedule of a policy.
    pub fn schedule(&self, settings: &Settings, of: Terms<'_>) -> v1::Schedule {
        let Terms { target, registrar, ttl_after_gone, labels, state: more } = of;
        let Self { mark, key, id, name, pod } = *self;
        let ours = [
            text(MANAGED, mark.source),
            text(mark.key, key),
            text(NAMESPACE, &pod.namespace),
            text(POD, &pod.name),
            text(CONTAINER, name),
        ];
        let mut schedule = settings.schedule();
        let spec = schedule.spec.get_or_insert_default();
        spec.target = Some(v1::Target { workload_creators: vec![registrar.to_owned()], ..target });
        // Pods are served in turns, although all of their schedules are of one client.
        let tenant = token(&pod.uid).or_else(|| token(key)).unwrap_or_default();
        spec.policy.get_or_insert_default().tenant = tenant;
        schedule.name = format!("{}{id}", ScheduleId::PREFIX);
        schedule.ttl_after_gone = ttl_after_gone.try_into().ok();
        schedule.labels = fitting(ours.into_iter().chain(labels));
        schedule.labels.insert(STATE.to_owned(), state(&schedule, more));
        schedule
    }
}

#[cfg(test)]
mod tests;

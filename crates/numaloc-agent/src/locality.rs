//! How much memory of the node is where it belongs, for those who look at the whole cluster: its NodeMemoryLocality. Pure but for the slot
//! in which the newest one waits for the writer.

use crate::facts::Facts;
use numaloc_policy::{Condition, NodeLocality, NumaNodeLocality, RemoteContainer};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};
use tokio::sync::Notify;

/// The condition that says whether numalocd answers.
const REACHABLE: &str = "DaemonReachable";
/// The condition that says whether all policies can be understood.
const ACCEPTED: &str = "PoliciesAccepted";

/// What is known of the node besides its memory.
#[derive(Clone, Debug, Default)]
pub struct Surroundings<'a> {
    /// Its pods.
    pub pods: Vec<&'a Facts>,
    /// Containers whose memory is brought home.
    pub managed: u64,
    /// What of the cluster's policies cannot be understood: the first of them.
    pub problem: Option<String>,
}

/// Since when the conditions have been as they are.
#[derive(Clone, Debug, Default)]
pub struct Since(BTreeMap<&'static str, (bool, SystemTime)>);

impl Since {
    fn condition(
        &mut self,
        kind: &'static str,
        why_not: Option<(&str, &str)>,
        now: SystemTime,
    ) -> Condition {
        let holds = why_not.is_none();
        let (was, since) = self.0.entry(kind).or_insert((holds, now));
        if *was != holds {
            (*was, *since) = (holds, now);
        }
        let (reason, message) = why_not.unwrap_or(("Ok", ""));
        Condition::new(kind, holds, reason, message, *since)
    }
}

/// The node's memory by the metrics of numalocd, or why there are none.
pub fn locality(
    metrics: Result<&str, &str>,
    around: &Surroundings<'_>,
    since: &mut Since,
    now: SystemTime,
) -> NodeLocality {
    let text = metrics.unwrap_or_default();
    let mut nodes: BTreeMap<u32, NumaNodeLocality> = BTreeMap::new();
    for (labels, bytes) in samples(text, "numaloc_host_memory_bytes") {
        let Some(id) = labels.get("node").and_then(|node| node.parse().ok()) else { continue };
        let new = NumaNodeLocality { id, local_bytes: 0, remote_bytes: 0 };
        let node = nodes.entry(id).or_insert(new);
        match labels.get("place").copied() {
            Some("local") => node.local_bytes += bytes,
            Some("remote") => node.remote_bytes += bytes,
            _ => {}
        }
    }
    let sum = |of: fn(&NumaNodeLocality) -> u64| nodes.values().map(of).sum();
    let problem = around.problem.as_deref().map(|problem| ("Invalid", problem));
    let version = samples(text, "numaloc_build_info").next();
    let version = version.and_then(|(labels, _)| labels.get("version").map(|it| (*it).to_owned()));
    NodeLocality {
        local_bytes: sum(|node| node.local_bytes),
        remote_bytes: sum(|node| node.remote_bytes),
        containers: around.pods.iter().map(|pod| pod.containers.len() as u64).sum(),
        managed_containers: around.managed,
        top_remote: remote(text, &around.pods),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        daemon_version: version.unwrap_or_default(),
        conditions: vec![
            since.condition(REACHABLE, metrics.err().map(|why| ("Unreachable", why)), now),
            since.condition(ACCEPTED, problem, now),
        ],
        numa_nodes: nodes.into_values().collect(),
    }
}

/// The containers that have series of their own: those with most remote memory.
fn remote(text: &str, pods: &[&Facts]) -> Vec<RemoteContainer> {
    let mut bytes: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (labels, value) in samples(text, "numaloc_host_container_memory_bytes") {
        let Some(id) = labels.get("container") else { continue };
        let of = bytes.entry(id).or_default();
        match labels.get("place").copied() {
            Some("local") => of[0] += value,
            Some("remote") => of[1] += value,
            _ => {}
        }
    }
    let all = pods.iter().flat_map(|&facts| {
        facts
            .containers
            .iter()
            .filter_map(move |container| Some((facts, container, container.id.as_deref()?)))
    });
    let named = all.filter_map(|(facts, container, id)| {
        let &[local, remote] = bytes.get(id)?;
        let (namespace, pod) = (&facts.pod.namespace, &facts.pod.name);
        Some(RemoteContainer::new(namespace, pod, &container.name, local, remote))
    });
    named.collect()
}

/// The samples of a metric in OpenMetrics text whose labels have no quotes in their values, as ids, numbers and versions have none.
fn samples<'t>(
    text: &'t str,
    name: &'t str,
) -> impl Iterator<Item = (BTreeMap<&'t str, &'t str>, u64)> {
    text.lines().filter_map(move |line| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?;
        let pairs = labels.split(',').filter_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            Some((key, value.strip_prefix('"')?.strip_suffix('"')?))
        });
        let value: f64 = value.split(' ').next()?.parse().ok()?;
        // Bytes are whole, and no host has 2^53 of them.
        Some((pairs.collect(), value as u64))
    })
}

/// The newest one, until the writer takes it.
#[derive(Debug, Default)]
pub struct Slot {
    newest: Mutex<Option<(NodeLocality, String)>>,
    filled: Notify,
}

impl Slot {
    /// Puts one in place of an older one, for the node with this uid.
    pub fn put(&self, locality: NodeLocality, node_uid: String) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some((locality, node_uid));
        self.filled.notify_one();
    }

    /// Waits for one, and takes it.
    pub async fn take(&self) -> (NodeLocality, String) {
        loop {
            let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(newest) = newest {
                return newest;
            }
            self.filled.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::samples::{container_id, pod};
    use std::time::UNIX_EPOCH;

    #[test]
    fn figures_are_those_of_the_daemon_by_pod() {
        let facts = Facts::new(serde_json::from_value(pod(1)).expect("a pod"));
        let id = container_id(1, 'a');
        let text = format!(
            "# TYPE numaloc_build info\nnumaloc_build_info{{version=\"0.1.0\"}} 1\n\
             numaloc_host_memory_bytes{{node=\"0\",place=\"local\"}} 300\nnumaloc_host_memory_bytes{{node=\"0\",place=\"unpinned\"}} 7\n\
             numaloc_host_memory_bytes{{node=\"2\",place=\"remote\"}} 100\n\
             numaloc_host_container_memory_bytes{{container=\"{id}\",place=\"local\"}} 60\n\
             numaloc_host_container_memory_bytes{{container=\"{id}\",place=\"remote\"}} 40\n\
             numaloc_host_container_memory_bytes{{container=\"other\",place=\"remote\"}} 9\n"
        );
        let around = Surroundings { pods: vec![&facts], managed: 1, problem: None };
        let found = locality(Ok(&text), &around, &mut Since::default(), UNIX_EPOCH);
        assert_eq!((found.local_bytes, found.remote_bytes, found.local_percent()), (300, 100, 75));
        assert_eq!(found.top_remote, [RemoteContainer::new("shop", "web-1", "web", 60, 40)]);
        assert_eq!((found.containers, found.managed_containers), (2, 1));
        assert_eq!(found.daemon_version, "0.1.0");
        assert!(found.conditions.iter().all(|condition| condition.status == "True"));
    }

    #[test]
    fn conditions_say_since_when() {
        let (mut since, around) = (Since::default(), Surroundings::default());
        let after = |seconds| UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let mut times = Vec::new();
        for (metrics, seconds) in
            [(Ok(""), 1), (Err("no socket"), 2), (Err("no socket"), 3), (Ok(""), 4)]
        {
            let found = locality(metrics, &around, &mut since, after(seconds));
            let reachable = &found.conditions[0];
            times.push((reachable.status.clone(), reachable.last_transition_time.clone()));
        }
        let expected = [("True", 1), ("False", 2), ("False", 2), ("True", 4)];
        let expected = expected
            .map(|(status, second)| (status.to_owned(), format!("1970-01-01T00:00:0{second}Z")));
        assert_eq!(times, expected);
    }
}

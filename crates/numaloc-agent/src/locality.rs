//! The node's memory by where it belongs, for observers of the whole cluster: its NodeMemoryLocality. Pure but for the
//! slot in which the newest one waits for the writer.

use crate::{
    facts::Facts,
    health::Renewal,
    reading::{Places, Reading},
};
use numaloc_policy::{Condition, NodeLocality, NumaNodeLocality, PolicyReach, RemoteContainer};
use parking_lot::Mutex;
use std::{collections::BTreeMap, time::SystemTime};
use tokio::sync::Notify;

/// The condition that reports whether numalocd answers.
const REACHABLE: &str = "DaemonReachable";
/// The condition that reports whether all policies can be parsed.
const ACCEPTED: &str = "PoliciesAccepted";
/// The condition that reports whether numalocd provides its figures.
const READ: &str = "FiguresRead";

/// The condition that reports whether the API server takes events and statuses.
const POSTED: &str = "ResultsPosted";
/// The condition that reports whether the API server is read.
const CLUSTER: &str = "ClusterRead";
/// The condition that reports whether the agent renews its token, where it has to.
const RENEWED: &str = "CredentialsRenewed";

/// The facts about the node besides its memory.
#[derive(Clone, Debug, Default)]
pub struct Surroundings<'a> {
    pub pods: Vec<&'a Facts>,
    /// Containers whose memory is brought home.
    pub managed: u64,
    /// What the policies of the cluster have reached.
    pub policies: Vec<PolicyReach>,
    /// The first of the cluster's policies that cannot be parsed.
    pub problem: Option<String>,
    /// Events or statuses that the API server refuses, and why.
    pub refused: Option<String>,
    /// A kind of the cluster that is not read, and why.
    pub unread: Option<String>,
    /// Whether the agent renews its token.
    pub renewal: Renewal,
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

/// The reason why numalocd's figures are unknown.
#[derive(Clone, Copy, Debug)]
pub enum Unread<'a> {
    /// It does not answer.
    Lost(&'a str),
    /// It refuses to provide them: it is older, or its grant does not allow it.
    Refused(&'a str),
}

/// The node's memory by the metrics of numalocd, or why there are none.
pub fn locality(
    reading: Result<&Reading, Unread<'_>>,
    around: &Surroundings<'_>,
    since: &mut Since,
    now: SystemTime,
) -> NodeLocality {
    let (lost, unread) = match reading {
        Ok(_) => (None, None),
        // Reported once: the object is bounded.
        Err(Unread::Lost(why)) => (Some(("Unreachable", why)), Some(("Unreachable", ""))),
        Err(Unread::Refused(why)) => (None, Some(("Refused", why))),
    };
    let problem = around.problem.as_deref().map(|problem| ("Invalid", problem));
    let refused = around.refused.as_deref().map(|refused| ("Refused", refused));
    let cluster = around.unread.as_deref().map(|unread| ("Unread", unread));
    let mut conditions = vec![
        since.condition(REACHABLE, lost, now),
        since.condition(ACCEPTED, problem, now),
        since.condition(READ, unread, now),
        since.condition(POSTED, refused, now),
        since.condition(CLUSTER, cluster, now),
    ];
    let unrenewed = match &around.renewal {
        Renewal::Others => None,
        Renewal::Done => Some(None),
        Renewal::Failed(why) | Renewal::Ended(why) => Some(Some(("Failed", why.as_str()))),
    };
    conditions.extend(unrenewed.map(|why| since.condition(RENEWED, why, now)));
    let nothing = Reading::default();
    let reading = reading.unwrap_or(&nothing);
    let nodes = reading.nodes.iter();
    let nodes = nodes.map(|(&id, &Places { local, remote, .. })| NumaNodeLocality {
        id,
        local_bytes: local,
        remote_bytes: remote,
    });
    let all = reading.nodes.values().fold(Places::default(), |all, node| all.and(*node));
    let top = reading.of_pods(around.pods.iter().copied()).into_iter();
    let top = top.map(|(facts, container, places)| {
        let (namespace, pod) = (&facts.pod.namespace, &facts.pod.name);
        RemoteContainer::new(namespace, pod, &container.name, places.local, places.remote)
    });
    NodeLocality {
        local_bytes: all.local,
        remote_bytes: all.remote,
        numa_nodes: nodes.collect(),
        containers: around.pods.iter().map(|pod| pod.containers.len() as u64).sum(),
        managed_containers: around.managed,
        top_remote: top.collect(),
        policies: around.policies.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        daemon_version: reading.version.clone(),
        conditions,
    }
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
        *self.newest.lock() = Some((locality, node_uid));
        self.filled.notify_one();
    }

    /// Waits for one, and takes it.
    pub async fn take(&self) -> (NodeLocality, String) {
        loop {
            let newest = self.newest.lock().take();
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
        let around = Surroundings { pods: vec![&facts], managed: 1, ..Surroundings::default() };
        let reading = Reading::of(&text);
        let found = locality(Ok(&reading), &around, &mut Since::default(), UNIX_EPOCH);
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
        let (reading, lost) = (Reading::default(), Err(Unread::Lost("no socket")));
        for (metrics, seconds) in [(Ok(&reading), 1), (lost, 2), (lost, 3), (Ok(&reading), 4)] {
            let found = locality(metrics, &around, &mut since, after(seconds));
            let reachable = &found.conditions[0];
            times.push((reachable.status.clone(), reachable.last_transition_time.clone()));
        }
        let expected = [("True", 1), ("False", 2), ("False", 2), ("True", 4)];
        let expected = expected
            .map(|(status, second)| (status.to_owned(), format!("1970-01-01T00:00:0{second}Z")));
        assert_eq!(times, expected);
    }

    #[test]
    fn only_an_agent_that_has_to_reports_whether_it_renews_its_token() {
        let reading = Reading::default();
        for (renewal, expected) in [
            (Renewal::Others, None),
            (Renewal::Done, Some(("True", ""))),
            (Renewal::Failed("no right".to_owned()), Some(("False", "no right"))),
        ] {
            let around = Surroundings { renewal, ..Surroundings::default() };
            let found = locality(Ok(&reading), &around, &mut Since::default(), UNIX_EPOCH);
            let mut conditions = found.conditions.iter().filter(|found| found.kind == RENEWED);
            let found = conditions.next();
            assert_eq!(
                found.map(|found| (found.status.as_str(), found.message.as_str())),
                expected
            );
        }
    }

    #[test]
    fn a_daemon_that_refuses_its_figures_is_reachable() {
        let refused = Err(Unread::Refused("your role is none"));
        let quota = "events of shop: exceeded quota";
        let blind = Some("pods, for 200 s: forbidden".to_owned());
        let around = Surroundings {
            refused: Some(quota.to_owned()),
            unread: blind.clone(),
            ..Surroundings::default()
        };
        let found = locality(refused, &around, &mut Since::default(), UNIX_EPOCH);
        let condition = |kind| {
            let found = found.conditions.iter().find(|condition| condition.kind == kind);
            found
                .map(|found| (found.status.as_str(), found.reason.as_str(), found.message.as_str()))
        };
        assert_eq!(condition(REACHABLE), Some(("True", "Ok", "")));
        assert_eq!(condition(READ), Some(("False", "Refused", "your role is none")));
        assert_eq!(condition(POSTED), Some(("False", "Refused", quota)));
        assert_eq!(condition(CLUSTER), Some(("False", "Unread", blind.as_deref().expect("one"))));
    }
}

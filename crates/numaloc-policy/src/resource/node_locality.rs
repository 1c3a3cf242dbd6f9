//! `NodeMemoryLocality`: an agent's report about its node, for observers of the whole cluster.

use super::{
    condition::{Condition, conditions, keyed},
    group::{GROUP, VERSION},
    status::{self, PolicyReach},
};
use crate::time;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

pub const NODE_KIND: &str = "NodeMemoryLocality";
/// As in the path of the API.
pub const NODES_PLURAL: &str = "nodememorylocalities";

/// Most NUMA nodes that are listed, those with the most remote memory first.
const NODES_MAX: usize = 16;
/// Most containers that are listed.
const TOP_MAX: usize = 10;
/// Shortest time between two writes without a change of a condition.
const WRITE_GAP: Duration = Duration::from_secs(60);
/// An object that says the same is written again after this time: who reads it sees that the agent lives.
const HEARTBEAT: Duration = Duration::from_secs(600);

/// Most policies that are listed: those with containers that wait or run first, before those with most pods.
const POLICIES_MAX: usize = 12;

/// The memory of a node, as one object of the cluster. At most 16 KiB, whatever runs there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLocality {
    /// Bytes of pinned processes on the nodes of their CPUs.
    pub local_bytes: u64,
    /// Bytes of pinned processes on other nodes.
    pub remote_bytes: u64,
    pub numa_nodes: Vec<NumaNodeLocality>,
    /// Number of running containers.
    pub containers: u64,
    /// Those of them whose memory is brought home by a policy.
    pub managed_containers: u64,
    /// The containers with the most remote memory.
    pub top_remote: Vec<RemoteContainer>,
    /// What policies of the cluster have reached here.
    pub policies: Vec<PolicyReach>,
    pub agent_version: String,
    /// Version of the daemon; empty if it cannot be reached.
    pub daemon_version: String,
    /// What the agent can do here.
    pub conditions: Vec<Condition>,
}

/// The memory of pinned processes on a NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NumaNodeLocality {
    /// The kernel's number of the node.
    pub id: u32,
    /// Bytes of processes that are pinned to its CPUs.
    pub local_bytes: u64,
    /// Bytes of processes that are pinned to CPUs of other nodes.
    pub remote_bytes: u64,
}

/// A container with remote memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteContainer {
    /// Namespace of its pod.
    pub namespace: String,
    /// Name of its pod.
    pub pod: String,
    pub container: String,
    /// Bytes on other nodes than its home.
    pub remote_bytes: u64,
    /// Bytes at home, in percent of both, rounded down.
    pub local_percent: u64,
}

impl NodeLocality {
    /// Bytes at home, in percent of all, rounded down; 100 if there are none.
    pub fn local_percent(&self) -> u64 {
        percent(self.local_bytes, self.remote_bytes)
    }

    /// Whether this is to be written after `last` was, this long ago: at once if a condition has changed, else in
    /// intervals, and only if a figure has changed by a point, or by a sixteenth.
    pub fn is_due(&self, last: &Self, ago: Duration) -> bool {
        let says =
            |of: &Self| of.conditions.iter().map(Condition::says).map(owned).collect::<Vec<_>>();
        let turns = |of: &Self| of.policies.iter().map(PolicyReach::turn).collect::<Vec<_>>();
        if says(self) != says(last) || turns(self) != turns(last) || ago >= HEARTBEAT {
            return true;
        }
        let has_changed = self.local_percent() != last.local_percent()
            || self.containers != last.containers
            || self.managed_containers != last.managed_containers
            || self.policies != last.policies
            || self.remote_bytes.abs_diff(last.remote_bytes) > last.remote_bytes / 16
            || (&self.agent_version, &self.daemon_version)
                != (&last.agent_version, &last.daemon_version);
        ago >= WRITE_GAP && has_changed
    }

    /// The object for the node of this name and uid, which owns it: it goes with the node.
    pub fn object(&self, node: &str, node_uid: &str, now: SystemTime) -> Value {
        let mut bounded = self.clone();
        bounded.numa_nodes.sort_by_key(|node| (std::cmp::Reverse(node.remote_bytes), node.id));
        bounded.numa_nodes.truncate(NODES_MAX);
        bounded.numa_nodes.sort_by_key(|node| node.id);
        bounded.top_remote.retain(|container| container.remote_bytes > 0);
        bounded.top_remote.sort_by(|a, b| {
            let order = b.remote_bytes.cmp(&a.remote_bytes);
            order.then_with(|| {
                (&a.namespace, &a.pod, &a.container).cmp(&(&b.namespace, &b.pod, &b.container))
            })
        });
        bounded.top_remote.truncate(TOP_MAX);
        bounded.policies.sort_by_key(|of| (std::cmp::Reverse(of.weight()), of.uid.clone()));
        bounded.policies.truncate(POLICIES_MAX);
        bounded.policies.iter_mut().for_each(PolicyReach::bound);
        // Numbers, texts and lists: nothing in it can fail.
        let mut status = serde_json::to_value(&bounded).unwrap_or_default();
        status["localPercent"] = self.local_percent().into();
        status["observedTime"] = time::written(now).into();
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": NODE_KIND,
            "metadata": {
                "name": node,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}],
            },
            "status": status,
        })
    }
}

impl RemoteContainer {
    /// A container with this much memory at home and elsewhere.
    pub fn new(namespace: &str, pod: &str, container: &str, local: u64, remote: u64) -> Self {
        let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
        let local_percent = percent(local, remote);
        Self { namespace, pod, container, remote_bytes: remote, local_percent }
    }
}

fn owned((kind, status, reason): (&str, &str, &str)) -> [String; 3] {
    [kind, status, reason].map(str::to_owned)
}

fn percent(local: u64, remote: u64) -> u64 {
    let (local, all) = (u128::from(local), u128::from(local) + u128::from(remote));
    let percent = (local * 100).checked_div(all).and_then(|percent| u64::try_from(percent).ok());
    percent.unwrap_or(100)
}

pub fn definition() -> Value {
    let column =
        |name: &str, path: &str, sort: &str| json!({"name": name, "type": sort, "jsonPath": path});
    let text = |longest: u32| json!({"type": "string", "maxLength": longest});
    let bytes = || json!({"type": "integer", "format": "int64", "minimum": 0});
    let percent = || json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 100});
    let numa_node = json!({
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer", "format": "int32"}, "localBytes": bytes(), "remoteBytes": bytes()},
    });
    let container = json!({
        "type": "object",
        "properties": {
            "namespace": text(63), "pod": text(253), "container": text(63), "remoteBytes": bytes(), "localPercent": percent(),
        },
    });
    let status = json!({
        "type": "object",
        "properties": {
            "observedTime": {"type": "string", "format": "date-time"},
            "localPercent": percent(), "localBytes": bytes(), "remoteBytes": bytes(), "containers": bytes(), "managedContainers": bytes(),
            "numaNodes": keyed("id", NODES_MAX, numa_node),
            "topRemote": {"type": "array", "maxItems": TOP_MAX, "x-kubernetes-list-type": "atomic", "items": container},
            "agentVersion": text(64), "daemonVersion": text(64),
            "policies": keyed("uid", POLICIES_MAX, status::reach_definition()),
            "conditions": conditions(),
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{NODES_PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": NODE_KIND, "listKind": format!("{NODE_KIND}List"), "plural": NODES_PLURAL,
                "singular": "nodememorylocality", "shortNames": ["nml"],
            },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "additionalPrinterColumns": [
                    column("Local%", ".status.localPercent", "integer"),
                    column("Remote", ".status.remoteBytes", "integer"),
                    column("Containers", ".status.containers", "integer"),
                    column("Managed", ".status.managedContainers", "integer"),
                    column("Daemon", ".status.conditions[?(@.type==\"DaemonReachable\")].status", "string"),
                    column("Observed", ".status.observedTime", "date"),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "How much memory of the pinned processes of a node is on the NUMA nodes of their CPUs. The agent of \
                        the node writes it.",
                    "properties": {
                        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "status": status,
                    },
                }},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(local: u64, remote: u64, reachable: bool) -> NodeLocality {
        let conditions = vec![Condition::new(
            "DaemonReachable",
            reachable,
            "Answers",
            "",
            SystemTime::UNIX_EPOCH,
        )];
        NodeLocality {
            local_bytes: local,
            remote_bytes: remote,
            conditions,
            ..NodeLocality::default()
        }
    }

    #[test]
    fn it_is_written_when_it_has_news() {
        const MINUTE: Duration = Duration::from_secs(60);
        let (last, same) = (node(900, 100, true), node(901, 100, true));
        let (lost, moved) = (node(900, 100, false), node(960, 40, true));
        for (new, ago, expected) in [
            (&same, MINUTE, false),
            (&same, HEARTBEAT, true),
            (&lost, Duration::ZERO, true),
            (&moved, Duration::from_secs(59), false),
            (&moved, MINUTE, true),
        ] {
            assert_eq!(new.is_due(&last, ago), expected, "{new:?} after {ago:?}");
        }
    }

    #[test]
    fn an_object_has_the_most_remote_containers_first() {
        let container =
            |name: &str, remote| RemoteContainer::new("shop", name, "redis", 100, remote);
        let mut node = node(1, 2, true);
        node.top_remote = (0..20).map(|at| container(&format!("p{at:02}"), at)).collect();
        let object = node.object("n1", "5f1c", SystemTime::UNIX_EPOCH);
        let top = object["status"]["topRemote"].as_array().expect("a list");
        let pods: Vec<_> = top.iter().filter_map(|each| each["pod"].as_str()).collect();
        assert_eq!(pods, ["p19", "p18", "p17", "p16", "p15", "p14", "p13", "p12", "p11", "p10"]);
        assert_eq!(top[0]["localPercent"], 84);
        assert_eq!(object["status"]["localPercent"], 33);
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "5f1c");
    }

    proptest! {
        #[test]
        fn an_object_stays_below_16_kib(
            nodes in 0..1024_u32, containers in 0..500_u64, name in "[a-z]{253}", message in ".{0,2000}",
        ) {
            let numa = |id| NumaNodeLocality { id, local_bytes: u64::MAX, remote_bytes: u64::MAX };
            let container = |remote| RemoteContainer::new(&name[..63], &name, &name[..63], 1, u64::MAX - remote);
            let condition = |kind: &str, message: &str| Condition::new(kind, false, "Unreachable", message, SystemTime::UNIX_EPOCH);
            // FiguresRead does not repeat why the daemon is unreachable.
            let conditions = [("DaemonReachable", &*message), ("PoliciesAccepted", &*message), ("FiguresRead", ""), ("ResultsPosted", &*message), ("ClusterRead", &*message), ("CredentialsRenewed", &*message)];
            let conditions = conditions.map(|(kind, message)| condition(kind, message));
            let node = NodeLocality {
                local_bytes: u64::MAX,
                remote_bytes: u64::MAX,
                numa_nodes: (0..nodes).map(numa).collect(),
                containers,
                managed_containers: containers,
                top_remote: (0..containers).map(container).collect(),
                policies: (0..containers).map(|at| PolicyReach {
                    uid: format!("{at:08}-0000-0000-0000-000000000000"),
                    pods: containers,
                    waiting_pods: containers,
                    waiting: (0..containers).map(|at| format!("{at:016x}")).collect(),
                    running: (0..containers).map(|at| format!("{at:016x}")).collect(),
                    done_turn: u64::MAX,
                    error: message.clone(),
                }).collect(),
                agent_version: "10.20.30".to_owned(),
                daemon_version: "10.20.30".to_owned(),
                conditions: conditions.into(),
            };
            let text = node.object(&name, "0e9be5a6-0000-0000-0000-000000000000", SystemTime::UNIX_EPOCH).to_string();
            prop_assert!(text.len() <= 16 << 10, "{} bytes", text.len());
        }
    }
}

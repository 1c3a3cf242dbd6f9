//! Homes by devices, with a kubelet that is not real. Its socket is, and so is the time.

use super::{Agent, BEST, Cluster, Fake, ids, until};
use crate::{config::Config, labels::MARK, tests::samples::pod};
use numaloc_api::v1::{self, policy::Placement};
use numaloc_policy::{KOORDINATOR_KEY, POLICY_KEY};
use podresources::fake::Kubelet;
use std::{collections::BTreeMap, path::Path};

const BY_DEVICES: &str = r#"{"spec": {"policy": {"home_rule": "devices"}}}"#;

/// A node with a pod of this policy, and its agent.
fn node(policy: (&str, &str), socket: &Path) -> (Cluster, Fake, Agent) {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[policy]);
    let config = Config { pod_resources: Some(socket.to_owned()), ..Config::default() };
    let agent = Agent::with(config, &cluster, fake.clone());
    (cluster, fake, agent)
}

/// The nodes that schedules name, and whether homes are left to what is open, by container.
fn homes(fake: &Fake) -> BTreeMap<String, (Vec<i32>, bool)> {
    let home = |schedule: v1::Schedule| {
        let policy = schedule.spec.unwrap_or_default().policy.unwrap_or_default();
        let is_open = policy.home_rule() == v1::HomeRule::Devices;
        let nodes = match policy.placement {
            Some(Placement::Nodes(nodes)) => nodes.node_ids,
            _ => Vec::new(),
        };
        (schedule.name.rsplit('-').next().unwrap_or_default().to_owned(), (nodes, is_open))
    };
    fake.schedules().into_values().map(home).collect()
}

fn by_open_files() -> BTreeMap<String, (Vec<i32>, bool)> {
    ["proxy", "web"].map(|name| (name.to_owned(), (Vec::new(), true))).into()
}

#[tokio::test]
async fn memory_goes_to_the_nodes_of_devices_that_nobody_has_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    let (socket, kubelet) = (directory.path().join("kubelet.sock"), Kubelet::default());
    // The fake machine has the nodes 0 and 1.
    kubelet.give("shop", "web-1", "web", &[("example.org/gpu", &[1]), ("example.org/nic", &[7])]);
    kubelet.give("shop", "web-1", "proxy", &[]);
    kubelet.give("shop", "web-2", "web", &[("example.org/gpu", &[0])]);
    kubelet.listen(&socket);
    let (_cluster, fake, _agent) = node((POLICY_KEY, BY_DEVICES), &socket);
    let expected = [("proxy", (vec![], true)), ("web", (vec![1], false))];
    let expected: BTreeMap<_, _> = expected.map(|(name, home)| (name.to_owned(), home)).into();
    until(async || homes(&fake) == expected).await;
    assert_eq!(kubelet.lists(), 1);
}

#[tokio::test]
async fn without_a_kubelet_homes_go_by_what_is_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_cluster, fake, _agent) =
        node((POLICY_KEY, BY_DEVICES), &directory.path().join("kubelet.sock"));
    until(async || homes(&fake) == by_open_files()).await;
}

#[tokio::test]
async fn it_is_not_asked_for_what_numalocd_would_refuse_or_no_policy_needs() {
    let directory = tempfile::tempdir().expect("a directory");
    let (socket, kubelet) = (directory.path().join("kubelet.sock"), Kubelet::default());
    kubelet.give("shop", "web-1", "web", &[("example.org/gpu", &[1])]);
    kubelet.listen(&socket);
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    fake.forbid_nodes(true);
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, BY_DEVICES)]);
    let config = Config { pod_resources: Some(socket.clone()), ..Config::default() };
    let _agent = Agent::with(config, &cluster, fake.clone());
    until(async || homes(&fake) == by_open_files()).await;
    let (_cluster, fake, _agent) = node((KOORDINATOR_KEY, BEST), &socket);
    until(async || fake.names().1 == ids(1)).await;
    assert_eq!(kubelet.lists(), 0);
}

//! The agent with the real numalocd, in this process.

use super::{Agent, Cluster, ids, samples};
use crate::labels::MARK;
use numaloc_api::{NRI_SOURCE, v1};
use numaloc_node::{AGENT_SOURCE, Daemon, Grpc, Mark};
use numaloc_policy::{KOORDINATOR_KEY, POLICY_KEY};
use std::{path::Path, thread, time::Duration};
use tokio::time::{Instant, sleep};

/// Starts numalocd. It ends with this process.
fn start(dir: &Path) -> String {
    let socket = dir.join("n.sock");
    let file = dir.join("numalocd.toml");
    std::fs::write(&file, "").expect("room");
    let args = numalocd::cli::Args {
        socket: Some(socket.clone()),
        state_dir: Some(dir.join("state")),
        config: Some(file),
        ..Default::default()
    };
    thread::spawn(move || numalocd::daemon::start(args).expect("it starts"));
    format!("unix://{}", socket.display())
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never comes");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The ids of the schedules of the agent.
async fn scheduled(endpoint: &str) -> Vec<String> {
    let mut daemon = Grpc::new(endpoint, MARK).expect("an address");
    let Ok(me) = daemon.connect().await else { return Vec::new() };
    let schedules = daemon.schedules(me).await.expect("an answer").into_iter();
    let id = |name: String| name.strip_prefix("schedules/agent-").expect("ours").to_owned();
    let mut ids: Vec<_> = schedules.map(|schedule| id(schedule.name)).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn numalocd_takes_what_the_agent_asks_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let endpoint = start(dir.path());
    let cluster = Cluster::new();
    // Its containers have no cgroups here, so it is the plugin that has registered them.
    let nri = Mark { source: NRI_SOURCE, key: "numaloc.io/container-id" };
    let mut plugin = Grpc::new(&endpoint, nri).expect("an address");
    until(async || plugin.connect().await.is_ok()).await;
    let workload = v1::Workload {
        name: "workloads/nri-1".to_owned(),
        cgroup: "/kubepods/1".to_owned(),
        source: NRI_SOURCE.to_owned(),
        ..v1::Workload::default()
    };
    plugin.register(workload).await.expect("it is registered");
    let mut pod = samples::pod(1);
    pod["metadata"]["annotations"][POLICY_KEY] = r#"{"interval": "10m"}"#.into();
    cluster.pod(pod);
    let agent = || {
        let grpc = Grpc::new(&endpoint, MARK).expect("an address");
        Agent::start(&cluster, grpc)
    };
    let first = agent();
    until(async || scheduled(&endpoint).await == ids(1)).await;
    let seen = plugin.others(AGENT_SOURCE).await.expect("an answer").workloads;
    let seen: Vec<_> = seen.iter().map(|of| (of.name.as_str(), of.cgroup.as_str())).collect();
    assert_eq!(seen, [("workloads/agent-decides", "/kubepods/1/numaloc-agent")]);
    cluster.annotate("shop/web-1", &[("numaloc.io/policy.container.proxy", "none")]);
    until(async || scheduled(&endpoint).await == ids(1)[1..]).await;
    // Another policy while the agent is away.
    drop(first);
    cluster.annotate("shop/web-1", &[("numaloc.io/policy.container.proxy", "{}")]);
    let second = agent();
    until(async || scheduled(&endpoint).await == ids(1)).await;
    drop(second);
    cluster.remove("/api/v1/pods", "shop/web-1");
    let third = agent();
    until(async || scheduled(&endpoint).await.is_empty()).await;

    // Without the plugin the agent registers containers. One without a cgroup has no schedule, and blocks no other: the
    // other one is between two runs, so it is not looked for.
    let mut pod = samples::pod(2);
    pod["metadata"]["annotations"][KOORDINATOR_KEY] = super::BEST.into();
    pod["status"]["containerStatuses"][0]["state"] = serde_json::json!({"waiting": {}});
    cluster.pod(pod);
    drop(third);
    plugin.unregister("workloads/nri-1".to_owned()).await.expect("it is there");
    let _fourth = agent();
    until(async || scheduled(&endpoint).await == ids(2)[1..]).await;
}

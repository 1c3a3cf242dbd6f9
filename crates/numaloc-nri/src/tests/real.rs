//! The keeper with the real numalocd, in this process.

use super::{
    Plugin,
    samples::{config, container, cpuset, pod},
};
use crate::{align::MachineNodes, config::Config, labels::MARK};
use nri::{fake::Generation, v1alpha1::Event};
use numaloc_api::v1;
use numaloc_node::{AGENT_SOURCE, Daemon, Grpc, Mark, STATE};
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

async fn schedules(endpoint: &str) -> Vec<v1::Schedule> {
    let mut daemon = Grpc::new(endpoint, MARK).expect("an address");
    let Ok(me) = daemon.connect().await else { return Vec::new() };
    daemon.schedules(me).await.expect("an answer")
}

async fn names(endpoint: &str) -> Vec<String> {
    let mut names: Vec<_> =
        schedules(endpoint).await.into_iter().map(|schedule| schedule.name).collect();
    names.sort();
    names
}

async fn workloads(endpoint: &str) -> usize {
    let mut daemon = Grpc::new(endpoint, MARK).expect("an address");
    daemon.connect().await.expect("it is there");
    daemon.renew().await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn numalocd_takes_what_the_keeper_asks_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let endpoint = start(dir.path());
    let ids = ["a", "b"].map(|id| id.repeat(64));
    let [a, b] = ids.each_ref().map(|id| format!("schedules/nri-{id}"));
    let plugin = || {
        let grpc = Grpc::new(&endpoint, MARK).expect("an address");
        Plugin::start(
            Config { endpoint: endpoint.clone(), ..config() },
            grpc,
            MachineNodes::default(),
        )
    };
    let containers = |cpus| ids.iter().map(|id| cpuset(container(1, id), cpus)).collect::<Vec<_>>();
    let mut first = plugin();
    let mut runtime = first.connect(Generation::Calls, &config(), MachineNodes::default()).await;
    runtime.synchronize(vec![(vec![pod(1)], containers("0-3"))]).await.expect("it answers");
    until(async || names(&endpoint).await == [a.clone(), b.clone()]).await;
    assert_eq!(workloads(&endpoint).await, 2);
    let before = schedules(&endpoint).await;
    let made = &before[0];
    assert_eq!(made.interval.map(|interval| interval.seconds), Some(60));

    // It comes back after containers have got other CPUs: the same schedules, with other states.
    drop(first);
    let mut second = plugin();
    let mut runtime =
        second.connect(Generation::StateChange, &config(), MachineNodes::default()).await;
    runtime.synchronize(vec![(vec![pod(1)], containers("4-7"))]).await.expect("it answers");
    let state = |schedule: &v1::Schedule| schedule.labels[STATE].clone();
    until(async || {
        let now = schedules(&endpoint).await;
        now.len() == 2
            && now.iter().all(|now| before.iter().all(|before| state(before) != state(now)))
    })
    .await;
    assert_eq!(names(&endpoint).await, [a.clone(), b.clone()]);

    // One stops, the other one is gone after a restart.
    let gone = container(1, &ids[0]);
    runtime.tell(Event::StopContainer, &pod(1), Some(&gone)).await.expect("it answers");
    until(async || names(&endpoint).await == [b.clone()]).await;
    until(async || workloads(&endpoint).await == 1).await;
    drop(second);
    let mut third = plugin();
    let mut runtime = third.connect(Generation::Calls, &config(), MachineNodes::default()).await;
    runtime.synchronize(vec![(vec![], vec![])]).await.expect("it answers");
    until(async || names(&endpoint).await.is_empty()).await;
    assert_eq!(workloads(&endpoint).await, 0);
    drop(third);
    agent_comes_and_goes(&endpoint).await;
}

/// numalocd shows the plugin that the agent is there.
async fn agent_comes_and_goes(endpoint: &str) {
    let id = "a".repeat(64);
    let schedule = [format!("schedules/nri-{id}")];
    // It is looked for each second.
    let config =
        Config { endpoint: endpoint.to_owned(), lease: Duration::from_secs(3), ..config() };
    let nodes = MachineNodes::default();
    let grpc = Grpc::new(endpoint, MARK).expect("an address");
    let mut plugin = Plugin::start(config.clone(), grpc, nodes.clone());
    let mut runtime = plugin.connect(Generation::Calls, &config, nodes).await;
    let all = vec![(vec![pod(1)], vec![container(1, &id)])];
    runtime.synchronize(all).await.expect("it answers");
    until(async || names(endpoint).await == schedule).await;
    let mark = Mark { source: AGENT_SOURCE, key: "numaloc.io/schedule" };
    let mut agent = Grpc::new(endpoint, mark).expect("an address");
    agent.connect().await.expect("it is there");
    let workload = v1::Workload {
        name: "workloads/agent-decides".to_owned(),
        cgroup: "/kubepods/1/numaloc-agent".to_owned(),
        source: AGENT_SOURCE.to_owned(),
        ..v1::Workload::default()
    };
    agent.register(workload.clone()).await.expect("it is registered");
    until(async || names(endpoint).await.is_empty()).await;
    assert_eq!(workloads(endpoint).await, 1);
    agent.unregister(workload.name).await.expect("it is there");
    until(async || names(endpoint).await == schedule).await;
}

//! The agent between an API server that is not real and a numalocd that is not real, or is.

mod abuse;
mod bad_input;
mod cluster;
mod devices;
mod figures;
mod history;
mod policies;
mod real;
mod recorded;
mod reports;
mod restarts;
mod rollout;
pub(crate) mod samples;
mod waits;

use crate::{
    cluster::api::Api,
    config::{Config, Register},
    labels::{ID, MARK},
    work,
};
use cluster::{Cluster, NODE};
use numaloc_api::{NRI_SOURCE, v1};
use numaloc_node::{Daemon, Others, RUN, YIELDS_TO, fake::Fake};
use numaloc_policy::{KOORDINATOR_KEY, POLICY_KEY, RUN_KEY};
use samples::{config_map, pod};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

/// An agent at work, which ends with it.
struct Agent(JoinHandle<()>);

impl Agent {
    fn start(cluster: &Cluster, daemon: impl Daemon + Send + 'static) -> Self {
        Self::with(Config::default(), cluster, daemon)
    }

    fn with(config: Config, cluster: &Cluster, daemon: impl Daemon + Send + 'static) -> Self {
        Self::of_api(config, cluster.api(), daemon)
    }

    fn of_api(config: Config, api: Api, daemon: impl Daemon + Send + 'static) -> Self {
        Self::on(NODE, config, api, daemon)
    }

    fn on(node: &str, config: Config, api: Api, daemon: impl Daemon + Send + 'static) -> Self {
        // The tests have addresses of their own.
        let (node, config) = (node.to_owned(), Arc::new(Config { listen: None, ..config }));
        Self(tokio::spawn(async move {
            work(config, node, api, None, daemon).await.expect("it does not end");
        }))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until something is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < Duration::from_secs(300), "it never comes");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A condition of the node's object.
fn condition(cluster: &Cluster, kind: &str) -> Option<serde_json::Value> {
    let object = cluster.node_locality()?;
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind).cloned()
}

const BEST: &str = r#"{"policy": "bestEffort"}"#;

/// The ids of the containers of the pod with this number.
fn ids(number: usize) -> [String; 2] {
    ["proxy", "web"].map(|name| format!("{}-{name}", samples::uid(number)))
}

/// A cluster with two pods that have a policy, the agent, and the ids of their containers, all of which it has
/// scheduled.
async fn two_scheduled() -> (Cluster, Fake, Agent, Vec<String>) {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    for number in [1, 2] {
        cluster.pod(pod(number));
        cluster.annotate(&format!("shop/web-{number}"), &[(KOORDINATOR_KEY, BEST)]);
    }
    let agent = Agent::start(&cluster, fake.clone());
    let all = [ids(1), ids(2)].concat();
    until(async || fake.names().1 == all).await;
    (cluster, fake, agent, all)
}

#[tokio::test(start_paused = true)]
async fn what_is_annotated_while_it_runs_is_scheduled_and_ends_with_the_annotation() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().0 == ids(1)).await;
    assert!(fake.names().1.is_empty(), "nothing was asked for");
    let (begin, registrations) = (Instant::now(), fake.registrations());
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
    until(async || fake.names().1 == ids(1)).await;
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(fake.registrations(), registrations, "its containers are the same");
    // Another policy for one container, and none for the other one.
    cluster.annotate("shop/web-1", &[("numaloc.io/policy.container.proxy", "none")]);
    until(async || fake.names().1 == ids(1)[1..]).await;
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, r#"{"policy": "none"}"#)]);
    until(async || fake.names().1.is_empty()).await;
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
    until(async || fake.names().1 == ids(1)[1..]).await;
    cluster.remove("/api/v1/pods", "shop/web-1");
    until(async || fake.has(&[], &[])).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_restarts_keeps_its_schedule() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, r#"{"interval": "10m"}"#)]);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || {
        fake.has(&ids(1).each_ref().map(|id| &**id), &ids(1).each_ref().map(|id| &**id))
    })
    .await;
    let before = fake.schedules();
    cluster.change("shop/web-1", |pod| {
        let status = &mut pod["status"]["containerStatuses"][0];
        status["state"] = json!({"terminated": {"exitCode": 137}});
    });
    until(async || fake.names().0 == ids(1)[..1]).await;
    cluster.change("shop/web-1", |pod| {
        let status = &mut pod["status"]["containerStatuses"][0];
        status["containerID"] = format!("containerd://{}", "f".repeat(64)).into();
        status["state"] = json!({"running": {}});
    });
    until(async || fake.names().0 == ids(1)).await;
    sleep(Duration::from_secs(600)).await;
    assert!(fake.schedules() == before);
    assert_eq!(fake.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_decision_runs_again_and_an_id_runs_once() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, "bestEffort")]);
    let agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    assert_eq!(fake.runs(), 0, "a schedule begins with a run by itself");
    cluster.annotate(
        "shop/web-1",
        &[(POLICY_KEY, r#"{"spec": {"policy": {"target_ratio_percent": 90}}}"#)],
    );
    until(async || fake.runs() == 2).await;
    cluster.annotate("shop/web-1", &[(RUN_KEY, "now-1")]);
    until(async || fake.runs() == 4).await;
    drop(agent);
    let _agent = Agent::start(&cluster, fake.clone());
    // Neither the same id nor its end is another run.
    sleep(Duration::from_secs(600)).await;
    cluster.change("shop/web-1", |pod| {
        drop(pod["metadata"]["annotations"].as_object_mut().expect("an object").remove(RUN_KEY))
    });
    sleep(Duration::from_secs(600)).await;
    assert_eq!(fake.runs(), 4);
    let label = |schedule: &v1::Schedule| schedule.labels.get(RUN).cloned();
    assert!(fake.schedules().values().all(|schedule| label(schedule).as_deref() == Some("now-1")));
    cluster.annotate("shop/web-1", &[(RUN_KEY, "now-2")]);
    until(async || fake.runs() == 6).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_repairs_and_removes_orphans_only_after_a_complete_list() {
    let (cluster, fake, agent, all) = two_scheduled().await;
    drop(agent);
    cluster.remove("/api/v1/pods", "shop/web-1");
    cluster.hang(true);
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(fake.names().1, all, "nothing is known of the cluster");
    cluster.hang(false);
    let begin = Instant::now();
    until(async || fake.names().1 == ids(2)).await;
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn schedules_go_on_while_the_server_is_away_or_forgets() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    for number in [1, 2] {
        cluster.pod(pod(number));
        cluster.annotate(&format!("shop/web-{number}"), &[(KOORDINATOR_KEY, BEST)]);
    }
    let _agent = Agent::start(&cluster, fake.clone());
    let all = [ids(1), ids(2)].concat();
    until(async || fake.names().1 == all).await;
    let before = fake.schedules();
    // 410: all are listed again, and none is missing meanwhile.
    cluster.requests();
    cluster.expire();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(fake.schedules(), before);
    let lists =
        |requests: &[String]| requests.iter().filter(|request| !request.contains("watch=")).count();
    assert_eq!(lists(&cluster.requests()), 3, "one list each");
    for away in [Cluster::go as fn(&Cluster, bool), Cluster::hang] {
        let before = fake.schedules();
        away(&cluster, true);
        sleep(Duration::from_secs(1800)).await;
        assert!(fake.schedules() == before);
        let next =
            cluster.get("shop/web-2")["metadata"]["annotations"].get(KOORDINATOR_KEY).is_some();
        cluster.change("shop/web-2", |pod| {
            let annotations = &mut pod["metadata"]["annotations"];
            match next {
                true => {
                    drop(annotations.as_object_mut().expect("an object").remove(KOORDINATOR_KEY))
                }
                false => annotations[KOORDINATOR_KEY] = BEST.into(),
            }
        });
        away(&cluster, false);
        let begin = Instant::now();
        let expected = if next { ids(1).to_vec() } else { all.clone() };
        until(async || fake.names().1 == expected).await;
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        cluster.annotate("shop/web-2", &[(KOORDINATOR_KEY, BEST)]);
        until(async || fake.names().1 == all).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_asked_less_and_less() {
    let cluster = Cluster::new();
    let _agent = Agent::start(&cluster, Fake::new(MARK));
    // Until each watch has reported its version.
    sleep(Duration::from_secs(100)).await;
    cluster.hang(true);
    // Until all watches are given up.
    sleep(Duration::from_secs(200)).await;
    cluster.requests();
    sleep(Duration::from_secs(600)).await;
    // Five kinds, each attempt 10 s long, and then a pause of 8 s at least.
    let attempts = cluster.requests().len();
    assert!(attempts <= 5 * 600 / 18 + 5, "{attempts} attempts within 600 s");
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_silent_until_it_ends() {
    let cluster = Cluster::new();
    cluster.be_silent();
    cluster.define();
    let _agent = Agent::start(&cluster, Fake::new(MARK));
    sleep(Duration::from_secs(60)).await;
    cluster.requests();
    sleep(Duration::from_secs(3600)).await;
    // This server never ends one: each is given up after its time and two minutes more.
    let requests = cluster.requests().len();
    assert!(requests <= 5 * 3600 / 420, "{requests} requests in an hour");
}

#[tokio::test(start_paused = true)]
async fn in_the_steady_state_there_is_neither_a_get_nor_a_list() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.define();
    for number in 0..500 {
        cluster.pod(pod(number));
    }
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().0.len() == 1000).await;
    let begin = Instant::now();
    for number in 0..500 {
        cluster.annotate(&format!("shop/web-{number}"), &[(POLICY_KEY, r#"{"interval": "1m"}"#)]);
    }
    until(async || fake.names().1.len() == 1000).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    cluster.requests();
    let (declared, writes) = (fake.declared(), cluster.node_writes());
    sleep(Duration::from_secs(3600)).await;
    let requests = cluster.requests();
    // The object of the node shows every ten minutes that the agent lives.
    let writes = cluster.node_writes() - writes;
    assert!((5..=7).contains(&writes), "{writes} writes in an hour");
    assert!(requests.iter().all(|request| request.contains("watch=true")), "{requests:?}");
    assert!(requests.len() <= 60, "{} in an hour", requests.len());
    assert_eq!(fake.declared(), declared);
}

#[tokio::test(start_paused = true)]
async fn the_configmap_decides_for_pods_that_name_their_class() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    let mut labelled = pod(1);
    labelled["metadata"]["labels"]["koordinator.sh/qosClass"] = "LS".into();
    cluster.pod(labelled);
    cluster.pod(pod(2));
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().0.len() == 4).await;
    let path = "/api/v1/namespaces/kube-system/configmaps";
    let put = |text: &str| cluster.put(path, "kube-system/ack-slo-config", config_map(text));
    put(r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}}"#);
    until(async || fake.names().1 == ids(1)).await;
    // It breaks: the last valid version holds, and there is one event.
    put("{");
    until(async || cluster.events("kube-system/ack-slo-config").len() == 1).await;
    assert_eq!(fake.names().1, ids(1));
    // This node has a strategy of its own.
    put(
        r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}, "nodeStrategies": [
        {"nodeSelector": {"matchLabels": {"pool": "db"}}, "lsClass": {"memoryLocality": {"policy": "none"}}}]}"#,
    );
    until(async || fake.names().1.is_empty()).await;
    cluster.put(
        "/api/v1/nodes",
        NODE,
        json!({"metadata": {"name": NODE, "labels": {"pool": "web"}}}),
    );
    until(async || fake.names().1 == ids(1)).await;
    cluster.remove(path, "kube-system/ack-slo-config");
    until(async || fake.names().1.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn where_the_plugin_registers_the_agent_does_not_and_one_of_two_schedulers_acts() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
    let workload = v1::Workload { creator: "uid:991".to_owned(), ..v1::Workload::default() };
    fake.set_others(Others { workloads: vec![workload.clone()], schedules: Vec::new() });
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    assert_eq!(fake.names().0, ["decides"], "it shows that it is here, and no more");
    let targets =
        fake.schedules().into_values().map(|schedule| schedule.spec.and_then(|spec| spec.target));
    assert!(targets.flatten().all(|target| target.workload_creators == ["uid:991"]));
    // It is uninstalled: the next renewal sees it.
    fake.set_others(Others::default());
    until(async || {
        fake.has(&ids(1).each_ref().map(|id| &**id), &ids(1).each_ref().map(|id| &**id))
    })
    .await;
    // It is back, and has a schedule of its own for one of the containers.
    let labels = [
        ("numaloc.io/managed-by", NRI_SOURCE),
        ("numaloc.io/container-id", &samples::container_id(1, 'a')),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let schedules = vec![v1::Schedule { labels, ..v1::Schedule::default() }];
    fake.set_others(Others { workloads: vec![workload], schedules });
    until(async || fake.has(&["decides"], &[])).await;
    until(async || cluster.annotation("shop/web-1", "numaloc.io/status").is_some()).await;
    let events = cluster.events("shop/web-1");
    assert!(
        matches!(&events[..], [event] if event.starts_with("MemoryLocalityConflict: numaloc-nri has a schedule")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_yields_is_no_conflict_unless_it_cannot_see_the_agent() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
    let owned = |labels: [(&str, &str); 1]| {
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    };
    let workload = v1::Workload {
        creator: "uid:991".to_owned(),
        cgroup: "/kubepods/1".to_owned(),
        labels: owned([(YIELDS_TO, "agent")]),
        ..v1::Workload::default()
    };
    let container = samples::container_id(1, 'a');
    let labels = owned([("numaloc.io/container-id", &container)]);
    let schedules = vec![v1::Schedule { labels, ..v1::Schedule::default() }];
    fake.set_others(Others { workloads: vec![workload], schedules });
    let agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names() == (vec!["decides".to_owned()], ids(1).to_vec())).await;
    sleep(Duration::from_secs(200)).await;
    assert_eq!(cluster.events("shop/web-1"), [""; 0]);
    // numalocd does not let it show that it is here, so the plugin keeps its schedule.
    drop(agent);
    fake.refuse("agent-decides");
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.has(&[], &[])).await;
    until(async || !cluster.events("shop/web-1").is_empty()).await;
    let events = cluster.events("shop/web-1");
    assert!(
        events[0].starts_with("MemoryLocalityConflict: numaloc-nri has a schedule"),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_registers_can_be_chosen() {
    for (register, registered, creators) in [
        (Register::Always, ids(1).to_vec(), vec!["uid:990"]),
        (Register::Never, vec!["decides".to_owned()], vec!["uid:991"]),
    ] {
        let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
        let workload = v1::Workload { creator: "uid:991".to_owned(), ..v1::Workload::default() };
        fake.set_others(Others { workloads: vec![workload], schedules: Vec::new() });
        cluster.pod(pod(1));
        cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
        let config = Config { register, ..Config::default() };
        let _agent = Agent::with(config, &cluster, fake.clone());
        until(async || fake.names() == (registered.clone(), ids(1).to_vec())).await;
        // The schedules mean the workloads of one of the two.
        let targets = fake.schedules().into_values().map(|schedule| schedule.spec?.target);
        assert!(
            targets.flatten().all(|target| target.workload_creators == creators),
            "{register:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn numalocd_comes_and_goes() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    fake.fail(30, 1);
    for number in 0..20 {
        cluster.pod(pod(number));
        cluster.annotate(&format!("shop/web-{number}"), &[(KOORDINATOR_KEY, BEST)]);
    }
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(60)).await;
    for number in 0..10 {
        cluster.remove("/api/v1/pods", &format!("shop/web-{number}"));
    }
    sleep(Duration::from_secs(60)).await;
    fake.fail(0, 1);
    let mut all: Vec<_> = (10..20).flat_map(ids).collect();
    all.sort();
    until(async || fake.names() == (all.clone(), all.clone())).await;
    assert!(fake.schedules().values().all(|schedule| schedule.labels.contains_key(ID)));
}

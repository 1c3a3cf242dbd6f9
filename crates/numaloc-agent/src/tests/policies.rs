//! Policies as objects of the cluster.

use super::*;
use serde_json::Value;
use std::time::SystemTime;

/// A cluster that defines the kinds, with a pod that asks for nothing, and the agent.
fn begun() -> (Cluster, Fake, Agent) {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.define();
    cluster.pod(pod(1));
    let agent = Agent::start(&cluster, fake.clone());
    (cluster, fake, agent)
}

/// A policy with an interval of this number of minutes.
fn each(minutes: u64) -> Value {
    json!({"schedule": {"interval": format!("{minutes}m")}})
}

/// The intervals of the schedules that there are, in minutes.
fn intervals(fake: &Fake) -> Vec<i64> {
    let interval = |schedule: &v1::Schedule| schedule.interval.map_or(0, |it| it.seconds / 60);
    fake.schedules().values().map(interval).collect()
}

#[tokio::test(start_paused = true)]
async fn a_policy_decides_for_pods_that_run_until_it_goes() {
    let (cluster, fake, _agent) = begun();
    until(async || fake.names().0 == ids(1)).await;
    cluster.policy("", "all", &each(20));
    until(async || intervals(&fake) == [20, 20]).await;
    // The namespace's policy decides before it, and an annotation before both.
    cluster.policy("shop", "mine", &each(30));
    until(async || intervals(&fake) == [30, 30]).await;
    cluster
        .annotate("shop/web-1", &[("numaloc.io/policy.container.web", r#"{"interval": "40m"}"#)]);
    until(async || intervals(&fake) == [30, 40]).await;
    let mut enforced = each(50);
    enforced["enforce"] = true.into();
    cluster.policy("", "all", &enforced);
    until(async || intervals(&fake) == [50, 50]).await;
    cluster.remove("/apis/numaloc.io/v1alpha1/clustermemorylocalitypolicies", "/all");
    until(async || intervals(&fake) == [30, 40]).await;
    cluster.remove("/apis/numaloc.io/v1alpha1/memorylocalitypolicies", "shop/mine");
    until(async || intervals(&fake) == [40]).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_for_the_pods_and_nodes_that_it_selects() {
    let (cluster, fake, _agent) = begun();
    for (key, value) in [
        ("namespaces", json!({"exclude": ["shop"]})),
        ("podSelector", json!({"matchLabels": {"app": "another"}})),
        ("nodeSelector", json!({"matchLabels": {"pool": "another"}})),
        ("rolloutPercent", json!(0)),
    ] {
        let mut policy = each(20);
        policy[key] = value;
        cluster.policy("", key, &policy);
    }
    cluster.policy("another", "x", &each(20));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(intervals(&fake), [0; 0]);
    let mut selecting = each(25);
    selecting["nodeSelector"] = json!({"matchLabels": {"pool": "db"}});
    selecting["containers"] = json!(["web"]);
    cluster.policy("", "selecting", &selecting);
    until(async || intervals(&fake) == [25]).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_selects_namespaces_by_labels() {
    const NAMESPACES: &str = "/api/v1/namespaces";
    let (cluster, fake, _agent) = begun();
    let namespace = |team: &str| {
        let labels = json!({"team": team});
        cluster.put(NAMESPACES, "shop", json!({"metadata": {"name": "shop", "labels": labels}}));
    };
    let is_asked =
        |requests: Vec<String>| requests.iter().any(|it| it == &format!("GET {NAMESPACES}"));
    namespace("web");
    cluster.policy("shop", "own", &each(30));
    until(async || intervals(&fake) == [30, 30]).await;
    assert!(!is_asked(cluster.requests()), "no policy needs their labels");
    let mut policy = each(20);
    policy["enforce"] = true.into();
    policy["namespaceSelector"] = json!({"matchLabels": {"team": "db"}});
    cluster.policy("", "databases", &policy);
    until(async || is_asked(cluster.requests())).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(intervals(&fake), [30, 30]);
    namespace("db");
    until(async || intervals(&fake) == [20, 20]).await;
    namespace("web");
    until(async || intervals(&fake) == [30, 30]).await;
}

#[tokio::test(start_paused = true)]
async fn labels_of_namespaces_that_may_not_be_listed_stop_new_decisions_and_are_reported() {
    let (cluster, fake, _agent) = begun();
    cluster.policy("shop", "own", &each(30));
    until(async || intervals(&fake) == [30, 30]).await;
    cluster.forbid_list("/api/v1/namespaces");
    let mut policy = each(20);
    policy["namespaceSelector"] = json!({"matchLabels": {"team": "db"}});
    cluster.policy("", "databases", &policy);
    cluster.policy("shop", "own", &each(40));
    let is_reported = |read: Value| {
        read["status"] == "False" && read["message"].to_string().contains("namespaces")
    };
    until(async || condition(&cluster, "ClusterRead").is_some_and(is_reported)).await;
    assert_eq!(intervals(&fake), [30, 30], "the last decision is in force");
    cluster.remove("/apis/numaloc.io/v1alpha1/clustermemorylocalitypolicies", "/databases");
    until(async || intervals(&fake) == [40, 40]).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_selects_pods_by_the_kind_of_their_workload() {
    let (cluster, fake, _agent) = begun();
    let mut policy = each(20);
    policy["ownerKinds"] = json!(["StatefulSet", "Deployment"]);
    cluster.policy("shop", "sets", &policy);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(intervals(&fake), [0; 0], "it is a pod without one");
    cluster.change("shop/web-1", |pod| {
        pod["metadata"]["labels"] = json!({"pod-template-hash": "5d9"});
        pod["metadata"]["ownerReferences"] =
            json!([{"kind": "ReplicaSet", "name": "web-5d9", "controller": true}]);
    });
    until(async || intervals(&fake) == [20, 20]).await;
}

#[tokio::test]
async fn a_policy_ends_at_its_time() {
    let (cluster, fake, _agent) = begun();
    let mut policy = each(20);
    // The clock of the host does not stand still, so this test waits. On a busy machine the end comes before the agent has declared the
    // schedules: then the policy gets a later one.
    let mut lasts = Duration::from_millis(750);
    let mut end = SystemTime::now();
    until(async || {
        if SystemTime::now() >= end {
            lasts *= 2;
            end = SystemTime::now() + lasts;
            policy["expires"] = numaloc_api::timestamp(end).to_string().into();
            cluster.policy("", "short", &policy);
        }
        intervals(&fake) == [20, 20]
    })
    .await;
    until(async || intervals(&fake).is_empty()).await;
    assert!(SystemTime::now() >= end);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_understood_is_named_once_and_decides_nothing() {
    let (cluster, fake, agent) = begun();
    cluster.policy("", "broken", &json!({"schedule": {"intervall": "1m"}}));
    cluster.policy("shop", "broken", &json!({"schedule": "none"}));
    let expected = "MemoryLocalityFailed: ClusterMemoryLocalityPolicy broken: spec.schedule.intervall is not known; known here: policy, \
        spec, interval, jitter, paused; it is ignored";
    until(async || cluster.events("/broken") == [expected]).await;
    let expected = "MemoryLocalityFailed: MemoryLocalityPolicy shop/broken: spec.schedule must be an object, and is text; it is ignored";
    until(async || cluster.events("shop/broken") == [expected]).await;
    drop(agent);
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(60)).await;
    assert_eq!((cluster.events("/broken").len(), intervals(&fake)), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_may_do_without_these_kinds_and_define_them_later() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, r#"{"interval": "10m"}"#)]);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || intervals(&fake) == [10, 10]).await;
    cluster.requests();
    sleep(Duration::from_secs(3600)).await;
    let asked = cluster.requests().into_iter().filter(|it| it.starts_with("GET /apis/")).count();
    assert!(asked <= 2 * 12, "{asked}");
    cluster.define();
    let mut enforced = each(50);
    enforced["enforce"] = true.into();
    cluster.policy("", "all", &enforced);
    sleep(Duration::from_secs(660)).await;
    until(async || intervals(&fake) == [50, 50]).await;
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_missing_for_a_moment_change_nothing() {
    let (cluster, fake, _agent) = begun();
    cluster.policy("", "all", &each(20));
    until(async || intervals(&fake) == [20, 20]).await;
    let before = fake.schedules();
    cluster.undefine();
    cluster.expire();
    sleep(Duration::from_secs(20)).await;
    cluster.define();
    sleep(Duration::from_secs(60)).await;
    assert!(fake.schedules() == before);
    cluster.undefine();
    cluster.expire();
    until(async || intervals(&fake).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn the_node_has_one_object_about_its_memory() {
    let (cluster, fake, _agent) = begun();
    until(async || cluster.node_locality().is_some()).await;
    cluster.policy("", "all", &each(20));
    until(async || intervals(&fake) == [20, 20]).await;
    sleep(Duration::from_secs(130)).await;
    let object = cluster.node_locality().expect("it is there");
    let status = &object["status"];
    assert_eq!((&status["localBytes"], &status["localPercent"]), (&json!(4096), &json!(100)));
    assert_eq!((&status["containers"], &status["managedContainers"]), (&json!(2), &json!(2)));
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "node-uid");
    cluster.policy("", "broken", &json!({}));
    sleep(Duration::from_secs(61)).await;
    let object = cluster.node_locality().expect("it is there");
    assert_eq!(object["status"]["conditions"][1]["status"], "False", "{object}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_breaks_keeps_what_was_read_last_and_a_broken_kill_switch_stops() {
    let (cluster, fake, agent) = begun();
    cluster.policy("", "all", &each(20));
    until(async || intervals(&fake) == [20, 20]).await;
    let before = fake.schedules();
    cluster.policy("", "all", &json!({"schedule": {"interval": "20 minutes"}}));
    until(async || cluster.events("/all").len() == 1).await;
    sleep(Duration::from_secs(120)).await;
    assert!(fake.schedules() == before);
    let event = &cluster.events("/all")[0];
    assert!(event.ends_with("; what was read of it last stays in force"), "{event}");
    cluster.annotate("shop/web-1", &[(POLICY_KEY, r#"{"interval": "10m"}"#)]);
    until(async || intervals(&fake) == [10, 10]).await;
    let stop = json!({
        "enforce": true, "priority": 9, "schedule": {"policy": "none", "interval": "30 minutes"}, "bounds": {"min_interval": "30m"},
    });
    cluster.policy("", "stop", &stop);
    until(async || intervals(&fake).is_empty()).await;
    drop(agent);
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(600)).await;
    assert_eq!(intervals(&fake), [0; 0], "nothing was read of it before this start");
}

//! Objects that are broken, contradict each other, or are there in another form than before: the last decision stays,
//! or the policy is off, and one event names the error.

use super::*;
use numaloc_policy::STATUS_KEY;
use samples::end;

const MAP: &str = "kube-system/ack-slo-config";

/// Each container of a schedule has a run that ends at this time.
fn all_end(fake: &Fake, seconds: u64) {
    for (at, schedule) in fake.schedules().values().enumerate() {
        fake.happens(end(schedule, 10 * seconds + at as u64, seconds, true, (100, 0)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_configmap_that_flips_has_one_event_and_what_was_read_last_holds() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    let mut labelled = pod(1);
    labelled["metadata"]["labels"]["koordinator.sh/qosClass"] = "LS".into();
    cluster.pod(labelled);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().0.len() == 2).await;
    let path = "/api/v1/namespaces/kube-system/configmaps";
    let good = r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}}"#;
    let deep = format!(r#"{{"clusterStrategy": {}"#, "[".repeat(10_000));
    cluster.put(path, MAP, config_map(good));
    until(async || fake.names().1 == ids(1)).await;
    let before = fake.schedules();
    for (count, bad) in [(1, "{"), (1, "{"), (2, &deep), (2, "{")] {
        cluster.put(path, MAP, config_map(bad));
        sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster.events(MAP).len(), count);
        cluster.put(path, MAP, config_map(good));
        sleep(Duration::from_secs(10)).await;
        assert!(fake.schedules() == before);
    }
    let events = cluster.events(MAP);
    let named = "ConfigMap kube-system/ack-slo-config, key resource-qos-config, line 1 column ";
    assert!(events.iter().all(|event| event.contains(named)), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_may_be_bare_and_their_names_as_long_as_allowed() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    let (long, name) = ("x".repeat(253), "c".repeat(63));
    let mut pod = pod(1);
    pod["metadata"]["name"] = long.clone().into();
    pod["spec"]["containers"][0]["name"] = name.clone().into();
    let statuses = pod.as_object_mut().and_then(|pod| pod.remove("status")).expect("it is there");
    cluster.pod(pod);
    cluster.pod(json!({"metadata": {"name": "bare", "namespace": "shop", "uid": "bare"}}));
    let key = format!("shop/{long}");
    let policies = format!(r#"{{"{name}": {{"interval": "10m"}}}}"#);
    cluster.annotate(&key, &[("numaloc.io/policies", &policies)]);
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(60)).await;
    assert!(fake.has(&[], &[]), "nothing runs");
    cluster.change(&key, |pod| {
        pod["status"] = statuses;
        pod["status"]["containerStatuses"][0]["name"] = name.clone().into();
    });
    until(async || fake.names().1.len() == 1).await;
    sleep(Duration::from_secs(1)).await;
    all_end(&fake, 100);
    until(async || cluster.annotation(&key, STATUS_KEY).is_some()).await;
    assert_eq!(cluster.events(&key).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_another_pod_has_by_now_is_that_of_the_other_pod() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    let put = |number: usize| {
        let mut pod = pod(number);
        pod["metadata"]["name"] = "db-0".into();
        pod["metadata"]["annotations"][KOORDINATOR_KEY] = BEST.into();
        cluster.pod(pod);
    };
    put(1);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    sleep(Duration::from_secs(1)).await;
    all_end(&fake, 100);
    until(async || cluster.annotation("shop/db-0", STATUS_KEY).is_some()).await;
    // At once, and then in one list.
    put(2);
    until(async || fake.names().1 == ids(2)).await;
    assert_eq!(cluster.annotation("shop/db-0", STATUS_KEY), None, "it has not run");
    cluster.go(true);
    cluster.remove("/api/v1/pods", "shop/db-0");
    put(3);
    cluster.expire();
    cluster.go(false);
    until(async || {
        fake.has(&ids(3).each_ref().map(|id| &**id), &ids(3).each_ref().map(|id| &**id))
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    all_end(&fake, 200);
    until(async || cluster.annotation("shop/db-0", STATUS_KEY).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_there_has_no_object_and_its_pods_are_served() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.define();
    cluster.remove("/api/v1/nodes", NODE);
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, r#"{"interval": "10m"}"#)]);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.node_locality(), None, "nobody owns it");
    // It registers, and is replaced by one of the same name.
    for uid in ["one", "two"] {
        cluster.put("/api/v1/nodes", NODE, json!({"metadata": {"name": NODE, "uid": uid}}));
        until(async || {
            let object = cluster.node_locality();
            object.is_some_and(|it| it["metadata"]["ownerReferences"][0]["uid"] == uid)
        })
        .await;
    }
    assert_eq!(fake.names().1, ids(1));
}

#[tokio::test(start_paused = true)]
async fn what_numalocd_refuses_is_said_once_and_tried_again() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
    fake.refuse("-web");
    let agent = Agent::start(&cluster, fake.clone());
    until(async || cluster.events("shop/web-1").len() == 1).await;
    sleep(Duration::from_secs(600)).await;
    let expected = "MemoryLocalityFailed: Container web: numalocd refuses it: its cgroup is not yours (PermissionDenied); \
        it is tried again each minute";
    assert_eq!(cluster.events("shop/web-1"), [expected]);
    assert_eq!(fake.names().1, ids(1)[..1], "the other one is served");
    // Another agent has it from the pod's annotation.
    drop(agent);
    cluster.requests();
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(600)).await;
    assert!(cluster.requests().iter().all(|request| request.starts_with("GET")));
    fake.refuse("");
    until(async || fake.names().1 == ids(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_loses_nothing() {
    let (cluster, fake, _agent, all) = two_scheduled().await;
    sleep(Duration::from_secs(1)).await;
    cluster.refuse_token(true);
    all_end(&fake, 100);
    cluster.remove("/api/v1/pods", "shop/web-2");
    sleep(Duration::from_secs(300)).await;
    assert_eq!(fake.names().1, all, "nothing is known of the cluster");
    cluster.refuse_token(false);
    let begin = Instant::now();
    until(async || {
        fake.names().1 == ids(1) && cluster.annotation("shop/web-1", STATUS_KEY).is_some()
    })
    .await;
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(cluster.events("shop/web-1").len(), 1);
}

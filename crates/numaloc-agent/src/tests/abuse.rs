//! Pods and objects that ask for too much, or have what others have written.

use super::*;
use numaloc_policy::STATUS_KEY;
use samples::end;
use serde_json::Value;

fn status(cluster: &Cluster) -> Option<Value> {
    let text = cluster.annotation("shop/web-1", STATUS_KEY)?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

/// Each container of a schedule has a run that ends at this time.
fn all_end(fake: &Fake, seconds: u64) {
    for (at, schedule) in fake.schedules().values().enumerate() {
        fake.happens(end(schedule, 10 * seconds + at as u64, seconds, true, (100, 0)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_pod_is_served_and_its_old_status_replaced() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    let mut restored = pod(1);
    let key = format!("f:{STATUS_KEY}");
    restored["metadata"]["creationTimestamp"] = "2026-05-28T20:00:00Z".into();
    restored["metadata"]["managedFields"] = json!([{
        "manager": "velero-server", "time": "2026-11-26T12:00:00Z",
        "fieldsV1": {"f:metadata": {"f:annotations": {key: {}}}},
    }]);
    cluster.pod(restored);
    let old = r#"{"phase":"Completed","lastResult":{"completedTime":"2026-05-28T19:00:00Z","result":"MemoryLocalityCompleted"}}"#;
    // Its jobs have the numbers of another node.
    let own = r#"{"containers":[{"name":"web","result":"x","job":"jobs/1000"},{"name":"proxy","result":"x","job":"jobs/1001"}]}"#;
    cluster.annotate(
        "shop/web-1",
        &[(KOORDINATOR_KEY, BEST), (STATUS_KEY, old), ("numaloc.io/status", own)],
    );
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    sleep(Duration::from_secs(1)).await;
    all_end(&fake, 100);
    until(async || cluster.events("shop/web-1").len() == 1).await;
    let written = |status: &Value| status["lastResult"]["completedTime"] == "2026-05-28T20:28:20Z";
    until(async || status(&cluster).as_ref().is_some_and(written)).await;
}

#[tokio::test(start_paused = true)]
async fn runs_on_request_keep_to_the_shortest_interval() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, "bestEffort")]);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    let begin = Instant::now();
    let mut asked = 0;
    while begin.elapsed() < Duration::from_secs(300) {
        asked += 1;
        cluster.annotate("shop/web-1", &[(RUN_KEY, &asked.to_string())]);
        sleep(Duration::from_millis(1200)).await;
    }
    let runs = fake.runs();
    assert!((8..=10).contains(&runs), "{runs} runs of two containers in five minutes");
    // The last one that was asked for is the one that is done in the end.
    sleep(Duration::from_secs(120)).await;
    let label = |schedule: &v1::Schedule| schedule.labels.get(RUN).cloned();
    let last = asked.to_string();
    assert!(fake.schedules().values().all(|schedule| label(schedule).as_ref() == Some(&last)));
    let events = cluster.events("shop/web-1");
    assert!(events.iter().all(|event| event.starts_with("MemoryLocalityBounded")), "{events:?}");
    assert!((1..=25).contains(&events.len()), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_flips_runs_no_more_often() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, "bestEffort")]);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    cluster.annotate("shop/web-1", &[(POLICY_KEY, "none")]);
    until(async || fake.names().1.is_empty()).await;
    let begin = Instant::now();
    cluster.annotate("shop/web-1", &[(POLICY_KEY, "bestEffort")]);
    until(async || fake.names().1 == ids(1)).await;
    let waited = begin.elapsed();
    assert!((50..=61).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_refuses_keeps_no_other_waiting() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    for (number, namespace) in [(1, "ci"), (2, "shop")] {
        let mut pod = pod(number);
        pod["metadata"]["namespace"] = namespace.into();
        pod["metadata"]["annotations"][KOORDINATOR_KEY] = BEST.into();
        cluster.pod(pod);
    }
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1.len() == 4).await;
    sleep(Duration::from_secs(1)).await;
    cluster.forbid_in("ci");
    let begin = Instant::now();
    all_end(&fake, 100);
    until(async || cluster.annotation("shop/web-2", STATUS_KEY).is_some()).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(cluster.events("shop/web-2").len(), 1);
    assert_eq!(cluster.events("ci/web-1").len(), 0);
    // The right comes back in time.
    cluster.forbid_in("");
    until(async || cluster.annotation("ci/web-1", STATUS_KEY).is_some()).await;
    assert_eq!(cluster.events("ci/web-1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_configmap_that_breaks_changes_nothing_over_a_restart_either() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    for number in [1, 2] {
        let mut labelled = pod(number);
        labelled["metadata"]["labels"]["koordinator.sh/qosClass"] = "LS".into();
        cluster.pod(labelled);
    }
    let path = "/api/v1/namespaces/kube-system/configmaps";
    let put = |text: &str| cluster.put(path, "kube-system/ack-slo-config", config_map(text));
    let good = r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}}"#;
    put(good);
    let agent = Agent::start(&cluster, fake.clone());
    let all = [ids(1), ids(2)].concat();
    until(async || fake.names().1 == all).await;
    all_end(&fake, 100);
    until(async || status(&cluster).is_some()).await;
    drop(agent);
    put("{");
    let before = fake.schedules();
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || cluster.events("kube-system/ack-slo-config").len() == 1).await;
    sleep(Duration::from_secs(600)).await;
    assert!(fake.schedules() == before && fake.cancelled().is_empty());
    assert_eq!(status(&cluster).expect("it was there")["phase"], "Completed");
    // A pod that is switched off by its own annotation does not wait.
    cluster.annotate("shop/web-2", &[(POLICY_KEY, "none")]);
    until(async || fake.names().1 == ids(1)).await;
    put(r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "none"}}}}"#);
    until(async || fake.names().1.is_empty()).await;
}

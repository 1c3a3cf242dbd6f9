//! Ends of runs that wait for those of a pod's other containers, and ends by clocks that are set.

use super::{
    Agent, Cluster, Fake,
    reports::{begun, schedule},
    samples, until,
};
use crate::labels::MARK;
use numaloc_api::v1;
use numaloc_policy::{KOORDINATOR_KEY, OWN_STATUS_KEY, POLICIES_KEY, STATUS_KEY};
use samples::{end, pod};
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

fn events(cluster: &Cluster) -> Vec<String> {
    cluster.events("shop/web-1")
}

#[tokio::test(start_paused = true)]
async fn a_paused_container_hides_no_result_of_another() {
    for policies in [
        r#"{"web": "bestEffort", "proxy": {"paused": true}}"#,
        r#"{"web": {"interval": "10m"}, "proxy": {"interval": "10m", "paused": true}}"#,
    ] {
        let (cluster, fake, agent) = begun(POLICIES_KEY, policies).await;
        fake.happens(end(&schedule(&fake, "web"), 1, 100, true, (100, 0)));
        until(async || cluster.annotation("shop/web-1", STATUS_KEY).is_some()).await;
        assert!(events(&cluster)[0].contains("Container web completed"), "{policies}");
        drop(agent);
        fake.happens(end(&schedule(&fake, "web"), 2, 200, false, (50, 50)));
        let _agent = Agent::start(&cluster, fake.clone());
        until(async || events(&cluster).len() == 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_never_runs_hides_the_results_of_others_for_a_while() {
    let (cluster, fake, _agent) = begun(KOORDINATOR_KEY, super::BEST).await;
    fake.happens(end(&schedule(&fake, "web"), 1, 100, true, (100, 0)));
    sleep(Duration::from_secs(500)).await;
    assert_eq!(events(&cluster), [""; 0], "the other one may have been begun");
    // It is under way, and takes its time.
    let proxy = schedule(&fake, "proxy").name;
    fake.set_state(&proxy, v1::ScheduleState::Active);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(events(&cluster), [""; 0]);
    // Its target is not there.
    fake.set_state(&proxy, v1::ScheduleState::Waiting);
    until(async || events(&cluster).len() == 1).await;
    assert!(events(&cluster)[0].contains("Container web completed"));
    // Once it has run after all, that is reported, too.
    fake.happens(end(&schedule(&fake, "proxy"), 2, 4200, true, (100, 0)));
    until(async || events(&cluster).len() == 2).await;
    assert!(events(&cluster).iter().any(|event| event.contains("Container proxy completed")));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_hides_no_result() {
    let policy = r#"{"policy": "bestEffort", "migrateIntervalMinutes": 1}"#;
    let (cluster, fake, agent) = begun(KOORDINATOR_KEY, policy).await;
    let both = |number: u64, seconds: u64, local: u64| {
        for (at, name) in ["proxy", "web"].into_iter().enumerate() {
            let pages = (local, 100 - local);
            fake.happens(end(&schedule(&fake, name), number + at as u64, seconds, true, pages));
        }
    };
    both(1, 10_000, 100);
    until(async || events(&cluster).len() == 1).await;
    both(3, 6_400, 50);
    until(async || events(&cluster).len() == 2).await;
    until(async || {
        cluster.annotation("shop/web-1", STATUS_KEY).is_some_and(|it| it.contains("50"))
    })
    .await;
    // Nor while the agent is away.
    drop(agent);
    both(5, 5_000, 80);
    let agent = Agent::start(&cluster, fake.clone());
    until(async || events(&cluster).len() == 3).await;
    sleep(Duration::from_secs(60)).await;
    // What was reported is not reported again.
    drop(agent);
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(600)).await;
    assert_eq!(events(&cluster).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_problem_stays_in_the_status_until_it_is_corrected() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    let _agent = Agent::start(&cluster, fake.clone());
    let problems = || -> Option<Value> {
        let own = cluster.annotation("shop/web-1", OWN_STATUS_KEY)?;
        serde_json::from_str::<Value>(&own).expect("JSON").get("problems").cloned()
    };
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, "{")]);
    until(async || problems().is_some()).await;
    let problem = problems().expect("it was just there")[0].to_string();
    assert!(problem.contains("line 1 column 1"), "{problem}");
    assert_eq!(events(&cluster).len(), 1);
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, r#"{"policy": "none"}"#)]);
    until(async || problems().is_none()).await;
}

//! Posted reports: events and status annotations.

use super::{Agent, BEST, Cluster, Fake, ids, samples, until};
use crate::{config::Config, labels::MARK};
use numaloc_api::v1;
use numaloc_policy::{KOORDINATOR_KEY, OWN_STATUS_KEY, POLICY_KEY, RUN_KEY, STATUS_KEY};
use samples::{end, pod};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A cluster with a pod that has this annotation, and the agent, which has scheduled it.
pub async fn begun(key: &str, policy: &str) -> (Cluster, Fake, Agent) {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(key, policy)]);
    let agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    sleep(Duration::from_secs(1)).await;
    (cluster, fake, agent)
}

/// The schedule of a container of the pod.
pub fn schedule(fake: &Fake, name: &str) -> v1::Schedule {
    let name = format!("schedules/agent-{}-{name}", samples::uid(1));
    fake.schedules().remove(&name).expect("it is there")
}

/// Both containers have a run that ends at this time.
fn both(fake: &Fake, seconds: u64, has_moved: bool, pages: (u64, u64)) {
    for (at, name) in ["proxy", "web"].into_iter().enumerate() {
        let number = 10 * seconds + at as u64;
        fake.happens(end(&schedule(fake, name), number, seconds, has_moved, pages));
    }
}

fn status(cluster: &Cluster) -> Option<Value> {
    let text = cluster.annotation("shop/web-1", STATUS_KEY)?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

/// Asserts that an agent that starts after another one writes nothing into the cluster.
async fn another_writes_nothing(cluster: &Cluster, fake: &Fake) {
    cluster.requests();
    let _agent = Agent::start(cluster, fake.clone());
    sleep(Duration::from_secs(600)).await;
    let writes = cluster.requests().into_iter().filter(|request| !request.starts_with("GET"));
    assert_eq!(writes.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_ends_is_reported_once_for_all_containers() {
    let (cluster, fake, agent) = begun(KOORDINATOR_KEY, BEST).await;
    let web = schedule(&fake, "web");
    fake.happens(end(&web, 1, 100, true, (99, 1)));
    sleep(Duration::from_secs(60)).await;
    assert!(cluster.events("shop/web-1").is_empty(), "the other container has not ended");
    fake.happens(end(&schedule(&fake, "proxy"), 2, 101, false, (100, 0)));
    until(async || status(&cluster).is_some()).await;
    let expected = "MemoryLocalityCompleted: \
        Container web completed: migrated memory from remote numa: 2,8 to local numa: 0,2\n\
        Container proxy skipped: left: 18.0 MiB pinned\\u{a}\n\
        Total: 1 container(s) completed, 0 failed, 1 skipped; cur local memory ratio 100, rest remote memory pages 1";
    assert_eq!(cluster.events("shop/web-1"), [expected]);
    let status = status(&cluster).expect("it was just there");
    assert_eq!(status["phase"], "Completed");
    assert_eq!(status["lastResult"]["completedTime"], "2026-05-28T20:28:21Z");
    assert_eq!(status["lastResult"]["completedTimeRemotePages"], 1);
    let own = cluster.annotation("shop/web-1", OWN_STATUS_KEY).expect("with it");
    let own: Value = serde_json::from_str(&own).expect("JSON");
    assert_eq!(own["containers"][0]["source"], "annotation koordinator.sh/memoryLocality");
    assert_eq!(own["containers"][1]["result"], "run 2");
    // After its restart the agent sees the same events, and posts none.
    drop(agent);
    another_writes_nothing(&cluster, &fake).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_that_nobody_has_seen_is_reported_after_a_restart() {
    let (cluster, fake, agent) = begun(KOORDINATOR_KEY, BEST).await;
    drop(agent);
    both(&fake, 100, true, (100, 0));
    let agent = Agent::start(&cluster, fake.clone());
    until(async || status(&cluster).is_some()).await;
    drop(agent);
    // The event was posted, and the status was not written any more: it has the same name again.
    cluster.change("shop/web-1", |pod| {
        let annotations = pod["metadata"]["annotations"].as_object_mut().expect("an object");
        annotations.remove(STATUS_KEY);
    });
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || status(&cluster).is_some()).await;
    assert_eq!(cluster.events("shop/web-1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_end_whose_event_is_not_stored_any_more_is_reported_once() {
    for (is_kept, reason, line) in [
        (
            true,
            "Completed",
            "Container proxy completed: migrated memory from remote numa: 2,8 to local numa: 0,2",
        ),
        (
            false,
            "Completed",
            "Container proxy skipped: it has run, and numalocd no longer keeps the result",
        ),
    ] {
        let (cluster, fake, agent) = begun(KOORDINATOR_KEY, BEST).await;
        drop(agent);
        // The event of one of the two is still there.
        fake.happens(end(&schedule(&fake, "web"), 1, 100, true, (100, 0)));
        let proxy = schedule(&fake, "proxy");
        let job = is_kept.then(|| samples::job(&proxy, 2, 90));
        fake.ended_long_ago(&proxy.name, "jobs/2", job);
        let agent = Agent::start(&cluster, fake.clone());
        until(async || status(&cluster).is_some()).await;
        let events = cluster.events("shop/web-1");
        assert!(
            matches!(&events[..], [event] if event.contains(reason) && event.contains(line)),
            "{events:?}"
        );
        assert_eq!(status(&cluster).expect("it was just there")["phase"], "Completed");
        drop(agent);
        another_writes_nothing(&cluster, &fake).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_is_told_before_a_policy_that_has_changed_since_runs_again() {
    let (cluster, fake, agent) = begun(KOORDINATOR_KEY, BEST).await;
    drop(agent);
    both(&fake, 100, true, (100, 0));
    let other = r#"{"policy": "bestEffort", "targetLocalityRatio": 90}"#;
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, other)]);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.runs() == 2 && cluster.events("shop/web-1").len() == 1).await;
    both(&fake, 200, true, (100, 0));
    until(async || cluster.events("shop/web-1").len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_gets_no_schedule_holds_up_no_other() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
    let mut config = Config::default();
    config.pods.ceilings.containers = 1;
    let _agent = Agent::with(config, &cluster, fake.clone());
    until(async || fake.names().1.len() == 1).await;
    let ends = || {
        let events = cluster.events("shop/web-1");
        events.iter().filter(|event| event.starts_with("MemoryLocalityCompleted")).count()
    };
    sleep(Duration::from_secs(1)).await;
    let (_, schedule) = fake.schedules().pop_first().expect("one");
    fake.happens(end(&schedule, 1, 100, true, (100, 0)));
    until(async || ends() == 1).await;
    // Nor is it reported again when the pod loses a container's policy.
    cluster.annotate("shop/web-1", &[("numaloc.io/policy.container.proxy", "none")]);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(
        (ends(), cluster.events("shop/web-1").len()),
        (1, 2),
        "the other is that of the one without"
    );
}

#[tokio::test(start_paused = true)]
async fn each_further_run_of_a_policy_that_ends_is_reported() {
    let (cluster, fake, _agent) = begun(KOORDINATOR_KEY, BEST).await;
    let ends = || {
        let events = cluster.events("shop/web-1");
        events.iter().filter(|event| event.starts_with("MemoryLocalityCompleted")).count()
    };
    both(&fake, 100, true, (100, 0));
    until(async || ends() == 1).await;
    cluster.annotate("shop/web-1", &[(RUN_KEY, "1")]);
    until(async || fake.runs() == 2).await;
    sleep(Duration::from_secs(1)).await;
    both(&fake, 200, true, (100, 0));
    until(async || ends() == 2).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(ends(), 2, "one for both containers");
}

#[tokio::test(start_paused = true)]
async fn what_repeats_is_reported_when_it_is_news() {
    let policy = r#"{"policy": "bestEffort", "migrateIntervalMinutes": 1}"#;
    let (cluster, fake, _agent) = begun(KOORDINATOR_KEY, policy).await;
    let events = || cluster.events("shop/web-1").len();
    let ratio = || {
        status(&cluster).map(|status| status["lastResult"]["completedTimeLocalityRatio"].clone())
    };
    for (seconds, has_moved, pages, expected, written) in [
        (100, true, (100, 0), 1, 100),
        (160, true, (95, 5), 1, 100),
        (220, true, (90, 10), 1, 100),
        // More than 10 points.
        (280, true, (89, 11), 2, 89),
        // Another reason.
        (340, false, (89, 11), 3, 89),
        // No news, and the status is old.
        (340 + 3600, false, (90, 10), 3, 90),
    ] {
        both(&fake, seconds, has_moved, pages);
        sleep(Duration::from_secs(30)).await;
        assert_eq!((events(), ratio()), (expected, Some(written.into())), "at {seconds}");
    }
    assert_eq!(status(&cluster).expect("there is one")["phase"], "InProgress");
    cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, r#"{"policy": "none"}"#)]);
    until(async || status(&cluster).expect("there is one")["phase"] == "Closed").await;
    let last = status(&cluster).expect("there is one");
    assert_eq!(last["lastResult"]["completedTimeLocalityRatio"], 90, "the last result stays");
    assert_eq!(events(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_bad_annotation_has_one_event_and_no_other_source_decides() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    let agent = Agent::start(&cluster, fake.clone());
    let huge = "x".repeat(256 << 10);
    let deep = "[".repeat(10_000);
    for (count, bad) in
        ["{", r#"{"interval": "soon"}"#, r#"{"a": 1}"#, &huge, &deep].into_iter().enumerate()
    {
        cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST), (POLICY_KEY, bad)]);
        until(async || cluster.events("shop/web-1").len() == count + 1).await;
    }
    let events = cluster.events("shop/web-1");
    assert!(
        events.iter().all(|event| event.contains("pod shop/web-1: annotation numaloc.io/policy")),
        "{events:?}"
    );
    assert!(fake.names().1.is_empty());
    // Another agent knows from the pod's status that the report was made.
    sleep(Duration::from_secs(60)).await;
    drop(agent);
    cluster.requests();
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(60)).await;
    assert!(cluster.requests().iter().all(|request| request.starts_with("GET")));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_another_agent_writes_about_is_left_to_it() {
    for (other_agent, is_left) in
        [(crate::config::OtherAgent::StandBack, true), (crate::config::OtherAgent::TakeOver, false)]
    {
        let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
        let mut other = pod(1);
        let key = format!("f:{STATUS_KEY}");
        other["metadata"]["managedFields"] = serde_json::json!([{
            "manager": "koordlet", "time": "2026-11-26T12:00:00Z",
            "fieldsV1": {"f:metadata": {"f:annotations": {key: {}}}},
        }]);
        cluster.pod(other);
        cluster.annotate("shop/web-1", &[(KOORDINATOR_KEY, BEST)]);
        let _agent =
            Agent::with(Config { other_agent, ..Config::default() }, &cluster, fake.clone());
        match is_left {
            true => {
                until(async || cluster.events("shop/web-1").len() == 1).await;
                let event = &cluster.events("shop/web-1")[0];
                assert!(event.starts_with("MemoryLocalityConflict: koordlet writes"), "{event}");
                assert!(fake.names().1.is_empty());
            }
            false => until(async || fake.names().1 == ids(1)).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_passes_to_another_agent_while_it_runs_and_one_that_asks_for_nothing_is_no_conflict()
{
    let (cluster, fake, _agent) =
        begun(KOORDINATOR_KEY, r#"{"policy": "bestEffort", "migrateIntervalMinutes": 1}"#).await;
    both(&fake, 100, true, (100, 0));
    until(async || status(&cluster).is_some()).await;
    cluster.pod(pod(2));
    let key = format!("f:{STATUS_KEY}");
    for name in ["shop/web-1", "shop/web-2"] {
        cluster.change(name, |pod| {
            pod["metadata"]["annotations"][STATUS_KEY] = r#"{"phase": "InProgress"}"#.into();
            pod["metadata"]["managedFields"] = serde_json::json!([
                {"manager": "numaloc-agent", "time": "2026-11-26T12:00:00Z", "fieldsV1": {"f:metadata": {"f:annotations": {&key: {}}}}},
                {"manager": "koordlet", "time": "2026-11-26T12:00:01Z", "fieldsV1": {"f:metadata": {"f:annotations": {&key: {}}}}},
            ]);
        });
    }
    until(async || fake.names().1.is_empty()).await;
    until(async || cluster.events("shop/web-1").len() == 2).await;
    let events = cluster.events("shop/web-1");
    let names = |event: &&String| event.starts_with("MemoryLocalityConflict: koordlet writes");
    assert_eq!(events.iter().filter(names).count(), 1, "{events:?}");
    sleep(Duration::from_secs(600)).await;
    // No agent acts for the other pod, and its status is not ours.
    assert!(cluster.events("shop/web-2").is_empty());
    let theirs = cluster.annotation("shop/web-2", STATUS_KEY);
    assert_eq!(theirs.as_deref(), Some(r#"{"phase": "InProgress"}"#));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_or_away_gets_all_later_and_the_newest_status() {
    let policy = r#"{"policy": "bestEffort", "migrateIntervalMinutes": 1}"#;
    let (cluster, fake, _agent) = begun(KOORDINATOR_KEY, policy).await;
    cluster.be_busy(3);
    both(&fake, 100, true, (100, 0));
    until(async || status(&cluster).is_some()).await;
    assert_eq!(cluster.events("shop/web-1").len(), 1);
    cluster.go(true);
    for (run, local) in [50, 80, 20].into_iter().enumerate() {
        both(&fake, 200 + 60 * run as u64, true, (local, 100 - local));
        sleep(Duration::from_secs(60)).await;
    }
    cluster.requests();
    cluster.go(false);
    let ratio = || {
        status(&cluster).map(|status| status["lastResult"]["completedTimeLocalityRatio"].clone())
    };
    until(async || ratio() == Some(20.into())).await;
    let requests = cluster.requests();
    assert_eq!(
        requests.iter().filter(|request| request.starts_with("PATCH")).count(),
        1,
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_for_a_moment_loses_nothing() {
    let (cluster, fake, _agent) = begun(KOORDINATOR_KEY, r#"{"policy": "bestEffort"}"#).await;
    cluster.forbid(4);
    both(&fake, 100, true, (100, 0));
    until(async || status(&cluster).is_some()).await;
    assert_eq!(cluster.events("shop/web-1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn statuses_keep_to_their_budget() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    for number in 0..100 {
        cluster.pod(pod(number));
        cluster.annotate(&format!("shop/web-{number}"), &[(KOORDINATOR_KEY, BEST)]);
    }
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1.len() == 200).await;
    sleep(Duration::from_secs(1)).await;
    cluster.requests();
    for (number, schedule) in fake.schedules().values().enumerate() {
        fake.happens(end(schedule, 1 + number as u64, 100, true, (100, 0)));
    }
    sleep(Duration::from_secs(10)).await;
    let requests = cluster.requests();
    let count =
        |method: &str| requests.iter().filter(|request| request.starts_with(method)).count();
    assert_eq!(count("POST"), 100, "events wait for nothing");
    assert!((20..=22).contains(&count("PATCH")), "{}", count("PATCH"));
    sleep(Duration::from_secs(80 * 5)).await;
    assert_eq!(
        cluster.requests().iter().filter(|request| request.starts_with("PATCH")).count(),
        100 - count("PATCH")
    );
}

#[tokio::test(start_paused = true)]
async fn the_statuses_of_pods_that_have_gone_hold_up_nobody() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    let config = Config { event_burst: 1000, ..Config::default() };
    let _agent = Agent::with(config, &cluster, fake.clone());
    for number in 0..200 {
        let mut pod = pod(number);
        pod["metadata"]["annotations"][KOORDINATOR_KEY] = BEST.into();
        cluster.pod(pod);
    }
    until(async || fake.names().1.len() == 400).await;
    for (at, schedule) in (1..).zip(fake.schedules().values()) {
        fake.happens(end(schedule, at, at, true, (100, 0)));
    }
    // All have an event, and 20 a status: the others wait for the budget.
    until(async || cluster.events("shop/web-199").len() == 1).await;
    sleep(Duration::from_secs(1)).await;
    for number in 0..200 {
        cluster.remove("/api/v1/pods", &format!("shop/web-{number}"));
    }
    until(async || fake.has(&[], &[])).await;
    cluster.requests();
    let mut last = pod(200);
    last["metadata"]["annotations"][KOORDINATOR_KEY] = BEST.into();
    cluster.pod(last);
    until(async || fake.names().1 == ids(200)).await;
    sleep(Duration::from_secs(1)).await;
    for (at, schedule) in (1000..).zip(fake.schedules().values()) {
        fake.happens(end(schedule, at, at, true, (100, 0)));
    }
    let begin = Instant::now();
    until(async || cluster.annotation("shop/web-200", STATUS_KEY).is_some()).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let writes = cluster.requests().into_iter().filter(|request| request.starts_with("PATCH"));
    assert_eq!(writes.count(), 1, "nothing was written to pods that have gone");
}

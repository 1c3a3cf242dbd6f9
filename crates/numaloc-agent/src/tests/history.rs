//! The last runs of a pod, in the agent's status of it.

use super::{
    Agent, Cluster,
    reports::{begun, schedule},
    samples::end,
    until,
};
use numaloc_node::fake::Fake;
use numaloc_policy::{OWN_STATUS_KEY, OwnStatus, POLICY_KEY, PastRun};
use std::time::Duration;
use tokio::time::sleep;

fn last_runs(cluster: &Cluster) -> Vec<PastRun> {
    let status = cluster.annotation("shop/web-1", OWN_STATUS_KEY).unwrap_or_default();
    OwnStatus::read(&status).last_runs
}

/// The runs of both containers that end at this time.
async fn run(fake: &Fake, seconds: u64, has_moved: bool, pages: (u64, u64)) {
    for (at, name) in ["proxy", "web"].into_iter().enumerate() {
        let number = 10 * seconds + at as u64;
        fake.happens(end(&schedule(fake, name), number, seconds, has_moved, pages));
    }
    sleep(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn the_last_five_runs_are_known_also_those_without_news() {
    let (cluster, fake, agent) = begun(POLICY_KEY, r#"{"interval": "10m"}"#).await;
    run(&fake, 100, true, (90, 10)).await;
    until(async || last_runs(&cluster).len() == 1).await;
    let first = last_runs(&cluster).remove(0);
    assert_eq!(first.result, "MemoryLocalityCompleted");
    assert_eq!(first.remote_bytes, Some(2 * 10 * 4096), "of both containers");
    assert!(first.moved_bytes > 0 && first.message.contains(": run 100"), "{first:?}");
    cluster.requests();
    for seconds in 101..108 {
        run(&fake, seconds, true, (90, 10)).await;
    }
    sleep(Duration::from_secs(60)).await;
    let writes = cluster.requests().into_iter().filter(|request| !request.starts_with("GET"));
    assert_eq!(writes.collect::<Vec<_>>(), [""; 0], "they are no news");
    run(&fake, 110, false, (50, 50)).await;
    until(async || last_runs(&cluster).len() == 5).await;
    let ended = |runs: Vec<PastRun>| runs.into_iter().map(|run| run.ended).collect::<Vec<_>>();
    let five = last_runs(&cluster);
    assert_eq!(five[0].result, "MemoryLocalitySkipped");
    assert!(five[4].message.contains("run 104"), "{five:?}");
    // Another agent continues from there.
    drop(agent);
    let _agent = Agent::start(&cluster, fake.clone());
    sleep(Duration::from_secs(5)).await;
    run(&fake, 120, true, (100, 0)).await;
    until(async || last_runs(&cluster)[0].remote_bytes == Some(0)).await;
    assert_eq!(ended(last_runs(&cluster))[1..], ended(five)[..4]);
}

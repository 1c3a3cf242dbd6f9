//! Tests of when numalocd's figures are read, and of the effects if it does not provide them.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_daemon_that_refuses_its_figures_has_all_the_rest() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.define();
    fake.refuse_metrics(true);
    cluster.pod(pod(1));
    cluster.annotate("shop/web-1", &[(POLICY_KEY, r#"{"interval": "10m"}"#)]);
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().1 == ids(1)).await;
    until(async || condition(&cluster, "FiguresRead").is_some()).await;
    let declared = fake.declared();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(fake.declared(), declared, "nothing is lost, so nothing is declared again");
    let refused = condition(&cluster, "FiguresRead").expect("it is there");
    assert_eq!((&refused["status"], &refused["reason"]), (&json!("False"), &json!("Refused")));
    let expected = "numalocd refuses GetMetrics: not known (Unimplemented)";
    assert_eq!(refused["message"], expected);
    assert_eq!(condition(&cluster, "DaemonReachable").expect("it is there")["status"], "True");
    fake.refuse_metrics(false);
    until(async || condition(&cluster, "FiguresRead").expect("it is there")["status"] == "True")
        .await;
}

#[tokio::test(start_paused = true)]
async fn figures_that_nobody_wants_are_not_read() {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    cluster.pod(pod(1));
    let _agent = Agent::start(&cluster, fake.clone());
    until(async || fake.names().0 == ids(1)).await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(fake.readings(), 0);
    cluster.define();
    // The time for which a kind that is not defined is not retried.
    sleep(Duration::from_secs(610)).await;
    let readings = fake.readings();
    assert!(readings > 0);
    sleep(Duration::from_secs(3600)).await;
    let readings = fake.readings() - readings;
    assert!((59..=61).contains(&readings), "{readings} in an hour");
    let written = cluster.node_writes();
    cluster.undefine();
    sleep(Duration::from_secs(1800)).await;
    let readings = fake.readings();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(fake.readings(), readings);
    assert!(cluster.node_writes() - written <= 2, "{}", cluster.node_writes() - written);
}

//! Workloads that end unless they are renewed.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_nobody_renews_is_forgotten() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let node = Some("node");
    rig.register(operator(), workload("stays")).await.expect("it is taken");
    rig.register(operator(), leased("short", 10)).await.expect("it is taken");
    let set = || vec![leased("a", 30), leased("b", 60), workload("c")];
    rig.replace(operator(), node, set()).await.expect("it is taken");
    sleep(9).await;
    assert_eq!(rig.ids().await, ["a", "b", "c", "short", "stays"]);
    // Registering a workload again renews its lease, though nothing changes.
    rig.register(operator(), leased("short", 10)).await.expect("it is taken");
    sleep(9).await;
    assert_eq!(rig.ids().await, ["a", "b", "c", "short", "stays"]);
    sleep(2).await;
    assert_eq!(rig.ids().await, ["a", "b", "c", "stays"]);
    // A set is renewed as a whole, and only by its own client.
    let renew = |caller| {
        let request = RenewWorkloads { source: node.map(str::to_owned) };
        rig.handle.renew_workloads(caller, request)
    };
    let before = super::super::groups::commits(&rig);
    assert_eq!(renew(operator()).await, Ok(3));
    assert_eq!(super::super::groups::commits(&rig), before, "it writes nothing");
    sleep(29).await;
    assert_eq!(renew(admin()).await, Ok(0));
    sleep(2).await;
    assert_eq!(rig.ids().await, ["b", "c", "stays"]);
    rig.replace(operator(), node, set()).await.expect("it is taken");
    sleep(31).await;
    assert_eq!(rig.ids().await, ["b", "c", "stays"]);
    // A workload without a lease stays.
    rig.replace(operator(), node, vec![workload("b")]).await.expect("it is taken");
    sleep(100).await;
    assert_eq!(rig.ids().await, ["b", "stays"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leases_outlive_a_restart_and_begin_anew() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.register(operator(), leased("a", 10)).await.expect("it is taken");
    sleep(9).await;
    rig.kill().await;
    sleep(100).await;
    let rig = Rig::at(&dir);
    sleep(9).await;
    let a = rig.handle.get_workload(id("a")).await.expect("it could not be renewed before");
    let left = a.expires.expect("it has a lease").duration_since(SystemTime::now());
    assert!(left.is_ok_and(|left| left <= Duration::from_secs(1)), "{a:?}");
    sleep(2).await;
    assert_refused!(rig.handle.get_workload(id("a")).await, Refusal::NotFound { .. });
    rig.kill().await;
    // The removal is stored.
    assert_eq!(Rig::at(&dir).ids().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_is_forgotten_later() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.register(operator(), leased("a", 10)).await.expect("it is taken");
    sleep(9).await;
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::EIO });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(rig.ids().await, ["a"]);
    sleep(1).await;
    assert_eq!(rig.ids().await, Vec::<String>::new());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_could_not_be_stored_does_not_come_into_force() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.register(operator(), leased("a", 10)).await.expect("it is taken");
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    assert_refused!(rig.register(operator(), leased("a", 1)).await, Refusal::StoreFull { .. });
    sleep(9).await;
    assert_eq!(rig.ids().await, ["a"]);
    sleep(2).await;
    assert_eq!(rig.ids().await, Vec::<String>::new());
    rig.stop().await;
}

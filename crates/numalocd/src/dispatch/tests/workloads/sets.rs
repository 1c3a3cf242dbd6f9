//! Sets of workloads that replace each other.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_set_is_what_was_declared_last() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let node = Some("node");
    let all = |ids: &[&str]| ids.iter().map(|id| workload(id)).collect::<Vec<_>>();
    // A set does not affect what the same client has registered without this source, nor what another client has.
    rig.register(operator(), workload("by-hand")).await.expect("it is taken");
    let other = caller("uid:1001", Role::Operator);
    rig.replace(other.clone(), node, all(&["theirs"])).await.expect("it is taken");
    let made = rig.replace(operator(), node, all(&["a", "b", "c"])).await;
    assert_eq!(made, Ok(done(3, 0, 0)));
    let b = rig.handle.get_workload(id("b")).await.expect("it is there");
    let changed = WorkloadSpec { pod_uid: None, ..workload("a") };
    let made = rig.replace(operator(), node, vec![workload("b"), changed, workload("d")]).await;
    assert_eq!(made, Ok(done(2, 1, 1)));
    assert_eq!(rig.ids().await, ["a", "b", "by-hand", "d", "theirs"]);
    assert_eq!(rig.handle.get_workload(id("b")).await, Ok(b), "it has not changed");
    // Also after a restart. And an empty set is a set, too.
    rig.kill().await;
    let rig = Rig::at(&dir);
    assert_eq!(rig.ids().await, ["a", "b", "by-hand", "d", "theirs"]);
    assert_eq!(rig.replace(operator(), node, Vec::new()).await, Ok(done(0, 0, 3)));
    assert_eq!(rig.replace(operator(), None, Vec::new()).await, Ok(done(0, 0, 1)));
    assert_eq!(rig.ids().await, ["theirs"]);
    assert_refused!(
        rig.replace(operator(), node, all(&["a", "theirs"])).await,
        Refusal::NotPermitted { message } if message.contains("workloads/theirs belongs to uid:1001")
    );
    // An admin cannot do that either: its set would have a workload of another client.
    assert_refused!(
        rig.replace(admin(), node, all(&["theirs"])).await,
        Refusal::NotPermitted { .. }
    );
    assert_eq!(rig.ids().await, ["theirs"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_takes_effect_as_a_whole_and_in_one_commit() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.workloads = 600;
    let rig = Rig::with(&dir, config);
    let all = |range: std::ops::Range<usize>| -> Vec<_> {
        range.map(|number| workload(&format!("w{number:04}"))).collect()
    };
    let before = super::super::groups::commits(&rig);
    assert_eq!(rig.replace(operator(), None, all(0..500)).await, Ok(done(500, 0, 0)));
    assert_eq!(super::super::groups::commits(&rig) - before, 1);
    // Removed workloads make room for new ones.
    assert_eq!(rig.replace(operator(), None, all(250..850)).await, Ok(done(350, 250, 250)));
    assert_refused!(
        rig.replace(operator(), None, all(0..601)).await,
        Refusal::Quota { what: "workloads", limit: 600, .. }
    );
    // Nothing is left of a set that cannot be stored.
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    let refused = rig.replace(operator(), None, all(0..10)).await;
    assert_refused!(refused, Refusal::StoreFull { .. });
    let ids: Vec<_> = all(250..850).iter().map(|spec| spec.id.id().to_owned()).collect();
    assert_eq!(rig.ids().await, ids);
    rig.kill().await;
    assert_eq!(Rig::at(&dir).ids().await, ids);
}

#[tokio::test(start_paused = true)]
async fn sets_and_removals_may_only_be_checked() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.replace(operator(), None, vec![workload("a"), workload("b")]).await.expect("it is taken");
    let specs = vec![workload("b"), workload("c")];
    let set = WorkloadSet { source: None, specs, validate_only: true };
    let counted =
        rig.handle.replace_workloads(operator(), set).await.expect("it could be declared");
    assert_eq!(counted, Replaced { written: 1, unchanged: 1, removed: 1 });
    let forget =
        UnregisterWorkload { id: id("a"), etag: None, allow_missing: false, validate_only: true };
    assert_eq!(rig.handle.unregister_workload(operator(), forget.clone()).await, Ok(()));
    let stranger = caller("uid:1001", Role::Operator);
    let refused = rig.handle.unregister_workload(stranger, forget).await;
    assert_refused!(refused, Refusal::NotPermitted { .. });
    assert_eq!(rig.ids().await, ["a", "b"]);
    rig.stop().await;
}

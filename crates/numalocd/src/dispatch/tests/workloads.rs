//! Workloads, and targets that name them.

use super::*;
use crate::engine::Aim;
use numaloc_api::value::{Page, QosClass, WorkloadId, WorkloadSpec};

pub(super) fn workload(id: &str) -> WorkloadSpec {
    WorkloadSpec {
        id: WorkloadId::new(id).unwrap(),
        cgroup: format!("/pods/{id}"),
        container_id: Some(format!("c-{id}")),
        pod_uid: Some("pod".into()),
        labels: [("app".to_owned(), id.to_owned())].into(),
        qos_class: Some(QosClass::Be),
    }
}

/// What an engine is to look at.
pub(super) fn targets(aim: &Aim) -> Vec<numaloc_host::Target> {
    aim.members.iter().map(|member| member.target.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn targets_name_workloads() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.handle.register_workload(admin(), workload("a")).await.unwrap();
    let lsr = WorkloadSpec { qos_class: Some(QosClass::Lsr), ..workload("b") };
    rig.handle.register_workload(admin(), lsr).await.unwrap();
    let cgroups = |names: &[&str]| {
        names
            .iter()
            .map(|name| numaloc_host::Target::Cgroup(format!("/pods/{name}")))
            .collect::<Vec<_>>()
    };
    let none = Target::default;
    for (target, expected, class) in [
        (
            Target { container_ids: ["c-a".to_owned()].into(), ..none() },
            cgroups(&["a"]),
            QosClass::Be,
        ),
        (
            Target { pod_uids: ["pod".to_owned()].into(), ..none() },
            cgroups(&["a", "b"]),
            QosClass::Lsr,
        ),
        (
            Target { labels: [("app".to_owned(), "b".to_owned())].into(), ..none() },
            cgroups(&["b"]),
            QosClass::Lsr,
        ),
        (
            Target { cgroups: ["/pods/a".to_owned()].into(), ..none() },
            cgroups(&["a"]),
            QosClass::Be,
        ),
    ] {
        let selected = rig.handle.select(target).await.unwrap();
        assert_eq!((targets(&selected.aim), selected.qos_class), (expected, Some(class)));
    }
    let one = |id: &str| Target { container_ids: [id.to_owned()].into(), ..none() };
    assert_refused!(rig.handle.select(one("x")).await, Refusal::TargetNotFound { .. });
    // What is not registered is named, and the rest is found.
    let some = Target { container_ids: ["c-a".to_owned(), "x".to_owned()].into(), ..none() };
    let selected = rig.handle.select(some).await.unwrap();
    assert_eq!(targets(&selected.aim), cgroups(&["a"]));
    assert_eq!(selected.aim.members[0].name, one("c-a"));
    let missing: Vec<_> = selected.aim.missing.iter().map(|missing| &missing.member).collect();
    assert_eq!(missing, [&one("x")]);
    rig.handle.unregister_workload(admin(), WorkloadId::new("a").unwrap()).await.unwrap();
    let gone = Target { container_ids: ["c-a".to_owned()].into(), ..none() };
    assert_refused!(rig.handle.select(gone).await, Refusal::TargetNotFound { .. });
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn names_belong_to_who_registered_them() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.handle.register_workload(operator(), workload("a")).await.unwrap();
    let other = caller("uid:1001", Role::Operator);
    assert_refused!(
        rig.handle.register_workload(other.clone(), workload("a")).await,
        Refusal::NotPermitted { .. }
    );
    let id = WorkloadId::new("a").unwrap();
    assert_refused!(
        rig.handle.unregister_workload(other, id.clone()).await,
        Refusal::NotPermitted { .. }
    );
    // An admin changes it, and it stays whose it was; over a restart too.
    let changed = WorkloadSpec { qos_class: None, ..workload("a") };
    rig.handle.register_workload(admin(), changed.clone()).await.unwrap();
    rig.stop().await;
    let rig = Rig::at(&dir);
    let listed = rig.handle.list_workloads(Page { size: 10, token: None }).await.unwrap();
    assert_eq!(listed.entries.len(), 1);
    assert_eq!(
        (&listed.entries[0].spec, listed.entries[0].creator.as_str()),
        (&changed, "uid:1000")
    );
    rig.handle.unregister_workload(operator(), id.clone()).await.unwrap();
    assert_refused!(rig.handle.unregister_workload(operator(), id).await, Refusal::NotFound { .. });
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_have_a_quota_and_pages() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.workloads = 3;
    let rig = Rig::with(&dir, config);
    for id in ["a", "c", "b"] {
        rig.handle.register_workload(operator(), workload(id)).await.unwrap();
    }
    assert_refused!(
        rig.handle.register_workload(operator(), workload("d")).await,
        Refusal::Quota { .. }
    );
    rig.handle
        .register_workload(operator(), WorkloadSpec { pod_uid: None, ..workload("a") })
        .await
        .unwrap();
    let first = rig.handle.list_workloads(Page { size: 2, token: None }).await.unwrap();
    let rest =
        rig.handle.list_workloads(Page { size: 2, token: first.next.clone() }).await.unwrap();
    let ids =
        first.entries.iter().chain(&rest.entries).map(|workload| workload.spec.id.id().to_owned());
    assert_eq!(ids.collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(rest.next, None);
    rig.stop().await;
}

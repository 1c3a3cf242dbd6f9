//! Workloads that are offered to make room for a job.

use super::*;
use numaloc_api::value::{
    CreateSchedule, QosClass, RegisterWorkload, ScheduleSpec, WorkloadId, WorkloadSpec,
};
use numaloc_core::MakeRoom;

use QosClass::{Be, Ls};

fn workload(id: &str, cgroup: &str, qos_class: Option<QosClass>) -> WorkloadSpec {
    let id = WorkloadId::new(id).expect("an id");
    WorkloadSpec { qos_class, ..WorkloadSpec::new(id, cgroup) }
}

impl Rig {
    async fn has(&self, caller: Caller, id: &str, cgroup: &str, qos_class: Option<QosClass>) {
        let spec = workload(id, cgroup, qos_class);
        let request = RegisterWorkload::new(spec);
        self.handle.register_workload(caller, request).await.expect("it is taken");
    }
}

/// A migration of a process that may exchange.
fn migration(qos_class: QosClass) -> MigrationSpec {
    let mut spec = request(&[1]).spec;
    spec.policy.options.make_room = MakeRoom::Exchange;
    spec.policy.qos_class = Some(qos_class);
    spec
}

async fn offered(rig: &Rig, caller: Caller, spec: MigrationSpec) -> Vec<String> {
    let offers = rig.handle.offers(caller, spec).await.expect("an answer").workloads;
    offers.iter().map(|offer| offer.member.name.to_string()).collect()
}

/// An operator who may have nothing moved but its own.
fn tenant() -> Caller {
    let authority = Authority::Of { uid: Some(1000), cgroups: Vec::new(), files: Vec::new() };
    Caller { authority, ..operator() }
}

#[tokio::test(start_paused = true)]
async fn best_effort_makes_room_for_better_classes_that_ask_for_it() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.has(admin(), "a", "/be/a", Some(Be)).await;
    rig.has(admin(), "b", "/ls/b", Some(Ls)).await;
    rig.has(admin(), "c", "/none/c", None).await;
    assert_eq!(offered(&rig, admin(), migration(Ls)).await, ["cgroup /be/a"]);
    assert!(offered(&rig, admin(), migration(Be)).await.is_empty());
    let mut cache = migration(Ls);
    cache.policy.options.make_room = MakeRoom::Cache;
    assert!(offered(&rig, admin(), cache).await.is_empty());
    rig.stop().await;
}

/// A client that registers many workloads does not keep those of others from being offered.
#[tokio::test(start_paused = true)]
async fn clients_take_turns_in_what_is_offered() {
    let dir = dir();
    let rig = Rig::at(&dir);
    for number in 0..600 {
        rig.has(operator(), &format!("-{number:03}"), &format!("/many/{number:03}"), Some(Be))
            .await;
    }
    rig.has(caller("uid:1001", Role::Operator), "z", "/few/z", Some(Be)).await;
    let offered = offered(&rig, admin(), migration(Ls)).await;
    assert_eq!(offered.len(), 512);
    assert!(offered.contains(&"cgroup /few/z".to_owned()));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_tenant_is_offered_its_own_alone() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.has(tenant(), "own", "/a/own", Some(Be)).await;
    rig.has(caller("uid:1001", Role::Operator), "theirs", "/a/theirs", Some(Be)).await;
    assert_eq!(offered(&rig, tenant(), migration(Ls)).await, ["cgroup /a/own"]);
    let granted =
        Authority::Of { uid: Some(1000), cgroups: vec!["/a/theirs".to_owned()], files: Vec::new() };
    let granted = Caller { authority: granted, ..operator() };
    let both = ["cgroup /a/own", "cgroup /a/theirs"];
    assert_eq!(offered(&rig, granted, migration(Ls)).await, both);
    assert_eq!(offered(&rig, admin(), migration(Ls)).await, both);
    // The client that registered a workload needs the right to it, too: the engine checks that.
    let offers = rig.handle.offers(admin(), migration(Ls)).await.expect("an answer");
    let by: Vec<_> = offers.workloads.into_iter().map(|offer| offer.by).collect();
    let registrar =
        |uid| Authority::Of { uid: Some(uid), cgroups: vec!["/".to_owned()], files: Vec::new() };
    assert_eq!(by, [registrar(1000), registrar(1001)]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_target_and_what_better_classes_or_schedules_have_is_left_alone() {
    let dir = dir();
    let rig = Rig::at(&dir);
    for (id, cgroup) in
        [("a", "/pods/a"), ("b", "/pods/b"), ("c", "/pods/c/sidecar"), ("d", "/pods/d")]
    {
        rig.has(admin(), id, cgroup, Some(Be)).await;
    }
    rig.has(admin(), "ls", "/pods/c", Some(Ls)).await;
    let schedule = MigrationSpec { target: Target::cgroup("/pods/b"), ..MigrationSpec::default() };
    let spec = ScheduleSpec { migration: schedule, ..ScheduleSpec::default() };
    let asked = CreateSchedule { spec, ..CreateSchedule::default() };
    rig.handle.create_schedule(admin(), asked, Pins::new()).await.expect("it is taken");
    let mut spec = migration(Ls);
    spec.target = Target::cgroup("/pods/d");
    assert_eq!(offered(&rig, admin(), spec).await, ["cgroup /pods/a"]);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn an_order_has_the_offers_and_their_pace() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    rig.has(admin(), "a", "/be/a", Some(Be)).await;
    let mut spec = migration(Ls);
    spec.limits.rate_bytes_per_second = Some(1 << 20);
    spec.limits.timeout = Some(Duration::from_secs(60));
    let asked = CreateJob { spec, ..CreateJob::default() };
    rig.handle.create_job(admin(), asked, pins(&[1]), found(&[1], "0")).await.expect("it is taken");
    let order = rig.order().await;
    assert_eq!(order.run.offers.workloads.len(), 1);
    assert_eq!(order.run.limits.rate_bytes_per_second, Some(1 << 20));
    assert_eq!(order.run.offers.limits.rate_bytes_per_second, Some(1 << 19), "half of it");
    let own = [&order.run.offers.limits, &order.run.limits].map(|limits| limits.timeout.is_some());
    assert_eq!(own, [false, true], "it ends with the job");
    rig.kill().await;
}

//! Workloads, and targets that name them.

mod changes;
mod leases;
mod lists;
mod sets;

use super::*;
use crate::dispatch::{RecordChange, Registering, Replaced};
use numaloc_api::value::{
    CreateSchedule, ListWorkloads, Page, QosClass, RegisterWorkload, RenewWorkloads, ScheduleSpec,
    Selector, UnregisterWorkload, Workload, WorkloadField, WorkloadFilter, WorkloadId, WorkloadSet,
    WorkloadSpec,
};
use numaloc_engine::Aim;
use numaloc_host::{NamedKind, Target as HostTarget};
use std::collections::BTreeMap;

pub(super) fn workload(id: &str) -> WorkloadSpec {
    WorkloadSpec {
        container_id: Some(format!("c-{id}")),
        pod_uid: Some("pod".into()),
        labels: [("app".to_owned(), id.to_owned())].into(),
        qos_class: Some(QosClass::Be),
        ..WorkloadSpec::new(WorkloadId::new(id).unwrap(), format!("/pods/{id}"))
    }
}

impl Rig {
    pub(super) async fn register(
        &self,
        caller: Caller,
        spec: WorkloadSpec,
    ) -> Result<Arc<Workload>, Refusal> {
        self.handle.register_workload(caller, RegisterWorkload::new(spec)).await
    }

    pub(super) async fn unregister(&self, caller: Caller, id: WorkloadId) -> Result<(), Refusal> {
        let request =
            UnregisterWorkload { id, etag: None, allow_missing: false, validate_only: false };
        self.handle.unregister_workload(caller, request).await
    }

    /// Replaces the set of `caller` and `source` by these workloads.
    pub(super) async fn replace(
        &self,
        caller: Caller,
        source: Option<&str>,
        specs: Vec<WorkloadSpec>,
    ) -> Result<Replaced, Refusal> {
        let source = source.map(str::to_owned);
        let of_source = |spec| WorkloadSpec { source: source.clone(), ..spec };
        let specs = specs.into_iter().map(of_source).collect();
        self.handle
            .replace_workloads(caller, WorkloadSet { source, specs, validate_only: false })
            .await
    }

    pub(super) async fn workloads(&self, page: Page) -> Result<Listed<Arc<Workload>>, Refusal> {
        let filter = WorkloadFilter::default();
        self.handle.list::<Workload>(ListWorkloads { filter, page }).await
    }

    /// The ids of the workloads that match a filter.
    async fn listed(&self, filter: WorkloadFilter) -> Vec<String> {
        let page = Page { size: 1000, token: None };
        let listed = self.handle.list::<Workload>(ListWorkloads { filter, page }).await;
        let entries = listed.expect("a list").entries;
        entries.iter().map(|workload| workload.spec.id.id().to_owned()).collect()
    }

    async fn ids(&self) -> Vec<String> {
        self.listed(WorkloadFilter::default()).await
    }
}

/// The targets that the engine is to look at.
pub(super) fn targets(aim: &Aim) -> Vec<numaloc_host::Target> {
    aim.members.iter().map(|member| member.target.clone()).collect()
}

fn leased(id: &str, seconds: u64) -> WorkloadSpec {
    WorkloadSpec { ttl: Some(Duration::from_secs(seconds)), ..workload(id) }
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn targets_name_workloads() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.register(admin(), workload("a")).await.unwrap();
    let lsr = WorkloadSpec { qos_class: Some(QosClass::Lsr), ..workload("b") };
    rig.register(admin(), lsr).await.unwrap();
    let cgroups = |names: &[&str]| {
        names.iter().map(|name| HostTarget::Cgroup(format!("/pods/{name}"))).collect::<Vec<_>>()
    };
    let none = Target::default;
    for (target, expected, class) in [
        (Target { containers: ["c-a".to_owned()].into(), ..none() }, cgroups(&["a"]), QosClass::Be),
        (Target { pods: ["pod".to_owned()].into(), ..none() }, cgroups(&["a", "b"]), QosClass::Lsr),
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
    let one = |id: &str| Target { containers: [id.to_owned()].into(), ..none() };
    let on_host = |kind, name: &str| HostTarget::Named { kind, name: name.to_owned() };
    let container = |name| on_host(NamedKind::Container, name);
    // Unregistered names are looked up on the host, and the rest is known.
    let some = Target { containers: ["c-a".to_owned(), "x".to_owned()].into(), ..none() };
    let selected = rig.handle.select(some.clone()).await.unwrap();
    assert_eq!(targets(&selected.aim), [cgroups(&["a"]), vec![container("x")]].concat());
    let names: Vec<_> = selected.aim.members.iter().map(|member| member.name.clone()).collect();
    assert_eq!(names, [one("c-a"), one("x")]);
    assert_eq!(selected.aim.missing, []);
    let pod = Target { pods: ["prod/web".to_owned()].into(), ..none() };
    let selected = rig.handle.select(pod).await.unwrap();
    assert_eq!(targets(&selected.aim), [on_host(NamedKind::Pod, "prod/web")]);
    // A client's workloads are never those of the host.
    let of_admin = Target { workload_creators: [admin().name].into(), ..some };
    let selected = rig.handle.select(of_admin).await.unwrap();
    assert_eq!(targets(&selected.aim), cgroups(&["a"]));
    let missing: Vec<_> = selected.aim.missing.iter().map(|missing| &missing.member).collect();
    assert_eq!(missing, [&one("x")]);
    rig.unregister(admin(), WorkloadId::new("a").unwrap()).await.unwrap();
    let gone = rig.handle.select(one("c-a")).await.unwrap();
    assert_eq!(targets(&gone.aim), [container("c-a")]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn names_belong_to_who_registered_them() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.register(operator(), workload("a")).await.unwrap();
    let other = caller("uid:1001", Role::Operator);
    assert_refused!(rig.register(other.clone(), workload("a")).await, Refusal::NotPermitted { .. });
    let id = WorkloadId::new("a").unwrap();
    assert_refused!(rig.unregister(other, id.clone()).await, Refusal::NotPermitted { .. });
    // An admin changes the workload, and its creator stays the same; also after a restart.
    let changed = WorkloadSpec { qos_class: None, ..workload("a") };
    rig.register(admin(), changed.clone()).await.unwrap();
    rig.stop().await;
    let rig = Rig::at(&dir);
    let listed = rig.workloads(Page { size: 10, token: None }).await.unwrap();
    assert_eq!(listed.entries.len(), 1);
    assert_eq!(
        (&listed.entries[0].spec, listed.entries[0].creator.as_str()),
        (&changed, "uid:1000")
    );
    rig.unregister(operator(), id.clone()).await.unwrap();
    assert_refused!(rig.unregister(operator(), id).await, Refusal::NotFound { .. });
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_have_a_quota_and_pages() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.workloads = 3;
    let rig = Rig::with(&dir, config);
    for id in ["a", "c", "b"] {
        rig.register(operator(), workload(id)).await.unwrap();
    }
    assert_refused!(rig.register(operator(), workload("d")).await, Refusal::Quota { .. });
    rig.register(operator(), WorkloadSpec { pod_uid: None, ..workload("a") }).await.unwrap();
    let first = rig.workloads(Page { size: 2, token: None }).await.unwrap();
    let rest = rig.workloads(Page { size: 2, token: first.next.clone() }).await.unwrap();
    let ids =
        first.entries.iter().chain(&rest.entries).map(|workload| workload.spec.id.id().to_owned());
    assert_eq!(ids.collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(rest.next, None);
    rig.stop().await;
}

fn id(id: &str) -> WorkloadId {
    WorkloadId::new(id).expect("an id")
}

fn done(written: usize, unchanged: usize, removed: usize) -> Replaced {
    Replaced { written, unchanged, removed }
}

#[tokio::test]
async fn a_target_of_processes_and_units_does_not_wait_for_the_dispatcher() {
    let handle = Handle::stopped();
    let none = Target::default;
    let units = ["a.service".to_owned()].into();
    let virtual_machines = ["db".to_owned()].into();
    let plain = Target { pids: [7, 3].into(), units, virtual_machines, ..none() };
    for selected in [handle.select(plain.clone()).await, handle.select_for(admin(), plain).await] {
        let selected = selected.expect("nothing has to be asked");
        let unit = HostTarget::Unit("a.service".to_owned());
        let machine = HostTarget::Named { kind: NamedKind::VirtualMachine, name: "db".to_owned() };
        let expected = [HostTarget::Pid(3), HostTarget::Pid(7), unit, machine];
        assert_eq!(targets(&selected.aim), expected);
        assert!(selected.aim.missing.is_empty() && selected.qos_class.is_none());
    }
    // These may have been registered: only the dispatcher knows.
    for asked in [
        Target { pids: [7].into(), ..Target::cgroup("/a") },
        Target::container("c"),
        Target { pods: ["pod".to_owned()].into(), ..none() },
        Target { labels: [("app".to_owned(), "a".to_owned())].into(), ..none() },
    ] {
        assert_refused!(handle.select(asked).await, Refusal::Unavailable { .. });
    }
}

#[tokio::test(start_paused = true)]
async fn schedules_run_soon_when_their_cpus_change() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    for id in ["a", "b"] {
        rig.register(operator(), workload(id)).await.expect("it is taken");
    }
    let watched = rig.handle.watched_workloads(None, 10).await.expect("an answer");
    assert_eq!(watched, [], "no schedule waits");
    let selected =
        |text: &str| Target { labels: text.parse().expect("a selector"), ..Target::default() };
    let interval = Duration::from_secs(24 * 3600);
    let mut of = BTreeMap::new();
    for target in
        [selected("app=a"), selected("app=b"), Target::cgroup("/pods"), Target::cgroup("/pod")]
    {
        let migration = MigrationSpec { target: target.clone(), ..MigrationSpec::default() };
        let spec = ScheduleSpec { migration, interval, ..ScheduleSpec::default() };
        let request = CreateSchedule { spec, ..CreateSchedule::default() };
        let made = rig.handle.create_schedule(operator(), request, Pins::new()).await;
        of.insert(made.expect("it is taken").id.clone(), target.to_string());
        // The schedule's first run.
        let Probe { schedule, etag, .. } = rig.probes.recv().await.expect("a probe");
        let found = Ok(FoundTarget::default());
        rig.probed.send(ProbeAnswer { schedule, etag, found }).expect("the dispatcher is there");
        let order = rig.order().await;
        let nothing = Planned {
            nothing: Some((JobState::Skipped, "all is local".to_owned())),
            ..planned(&[1], "0")
        };
        rig.report(EngineReport::Planned(order.job.clone(), Ok(nothing)));
        rig.reaches(&order.job, JobState::Skipped).await;
    }
    let watched = rig.handle.watched_workloads(None, 1).await.expect("an answer");
    assert_eq!(watched, [(id("a"), "/pods/a".to_owned())]);
    let watched = rig.handle.watched_workloads(Some(id("a")), 9).await.expect("an answer");
    assert_eq!(watched, [(id("b"), "/pods/b".to_owned())]);
    sleep(60).await;
    assert!(rig.probes.try_recv().is_err(), "none is due");
    rig.handle.cpusets_changed(["/pods/a".to_owned()].into()).await.expect("it is taken");
    sleep(1).await;
    let mut due = Vec::new();
    while let Ok(probe) = rig.probes.try_recv() {
        due.push(of[&probe.schedule].clone());
    }
    due.sort_unstable();
    assert_eq!(due, ["cgroup /pods", "label app=a"]);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn of_many_in_one_cgroup_the_first_names_it_and_the_best_class_counts() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let labels = [("app".to_owned(), "a".to_owned())];
    for (id, qos_class) in [("c", None), ("a", Some(QosClass::Be)), ("b", Some(QosClass::Ls))] {
        let cgroup = "/pods/one".to_owned();
        let spec =
            WorkloadSpec { cgroup, labels: labels.clone().into(), qos_class, ..workload(id) };
        rig.register(operator(), spec).await.expect("it is taken");
    }
    // Another name in the same cgroup, which the labels do not select, has its say, too.
    let other = WorkloadSpec { cgroup: "/pods/one".to_owned(), ..workload("d") };
    let lsr = WorkloadSpec { qos_class: Some(QosClass::Lsr), ..other };
    rig.register(operator(), lsr).await.expect("it is taken");
    let target = Target { labels: labels.into(), ..Target::default() };
    let select = || rig.handle.select_for(operator(), target.clone());
    let selected = select().await.expect("found");
    assert_eq!(targets(&selected.aim), [HostTarget::Cgroup("/pods/one".to_owned())]);
    assert_eq!(selected.aim.members[0].name, Target::container("c-a"));
    assert_eq!(selected.qos_class, Some(QosClass::Lsr));
    for (id, expected) in [("d", Some(QosClass::Ls)), ("b", Some(QosClass::Be)), ("a", None)] {
        rig.unregister(operator(), workload(id).id).await.expect("it is known");
        assert_eq!(select().await.expect("found").qos_class, expected);
    }
    rig.stop().await;
}

//! Workloads, and targets that name them.

use super::*;
use crate::{
    dispatch::{RecordChange, Registering, Replaced},
    order::Aim,
};
use numaloc_api::value::{
    CreateSchedule, ListWorkloads, Page, QosClass, RegisterWorkload, RenewWorkloads, ScheduleSpec,
    Selector, UnregisterWorkload, Workload, WorkloadField, WorkloadFilter, WorkloadId, WorkloadSet,
    WorkloadSpec,
};
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

/// What the engine is to look at.
pub(super) fn targets(aim: &Aim) -> Vec<numaloc_host::Target> {
    aim.members.iter().map(|member| member.target.clone()).collect()
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
    // What nobody has registered is looked up on the host, and the rest is known.
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
    // An admin cannot do that either: its set would have a workload of somebody else.
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
    let before = super::groups::commits(&rig);
    assert_eq!(rig.replace(operator(), None, all(0..500)).await, Ok(done(500, 0, 0)));
    assert_eq!(super::groups::commits(&rig) - before, 1);
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

fn leased(id: &str, seconds: u64) -> WorkloadSpec {
    WorkloadSpec { ttl: Some(Duration::from_secs(seconds)), ..workload(id) }
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

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
    let before = super::groups::commits(&rig);
    assert_eq!(renew(operator()).await, Ok(3));
    assert_eq!(super::groups::commits(&rig), before, "it writes nothing");
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

#[tokio::test(start_paused = true)]
async fn changes_may_be_bound_to_what_was_read() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let bound = |spec: WorkloadSpec, etag: &str| {
        let request =
            RegisterWorkload { etag: Some(etag.to_owned()), ..RegisterWorkload::new(spec) };
        rig.handle.register_workload(operator(), request)
    };
    let first = rig.register(operator(), workload("a")).await.expect("it is taken");
    let again = rig.register(operator(), workload("a")).await.expect("it is taken");
    assert_eq!(again.etag, first.etag, "nothing has changed");
    let changed = || WorkloadSpec { pod_uid: None, ..workload("a") };
    let second = bound(changed(), &first.etag).await.expect("it is what was read");
    assert_ne!(second.etag, first.etag);
    assert_refused!(
        bound(workload("a"), &first.etag).await,
        Refusal::Etag { name, present } if name == "workloads/a" && present == second.etag
    );
    assert_refused!(
        bound(workload("b"), &first.etag).await,
        Refusal::Etag { present, .. } if present.is_empty()
    );
    let forget = |id, etag: Option<&str>, allow_missing| {
        let request = UnregisterWorkload {
            id,
            etag: etag.map(str::to_owned),
            allow_missing,
            validate_only: false,
        };
        rig.handle.unregister_workload(operator(), request)
    };
    assert_refused!(forget(id("a"), Some(&first.etag), true).await, Refusal::Etag { .. });
    assert_eq!(forget(id("a"), Some(&second.etag), false).await, Ok(()));
    assert_refused!(forget(id("a"), None, false).await, Refusal::NotFound { .. });
    assert_eq!(forget(id("a"), None, true).await, Ok(()));
    rig.stop().await;
}

/// What the service does with a request: what it comes to is asked first.
async fn ask(
    rig: &Rig,
    caller: Caller,
    request: RegisterWorkload,
) -> Result<Arc<Workload>, Refusal> {
    match rig.handle.begin_register(caller.clone(), request.clone()).await? {
        Registering::Done(workload) => Ok(workload),
        Registering::Whole(spec, etag) => {
            let request = RegisterWorkload { spec: *spec, mask: None, etag: Some(etag), ..request };
            rig.handle.register_workload(caller, request).await
        }
    }
}

fn id_of(request: RegisterWorkload, id: &str) -> RegisterWorkload {
    RegisterWorkload { request_id: Some(id.to_owned()), ..request }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_once_and_the_request_is_known_again() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let new = |spec| RegisterWorkload { create_only: true, ..RegisterWorkload::new(spec) };
    let only = RegisterWorkload { validate_only: true, ..new(workload("a")) };
    rig.handle.register_workload(operator(), only).await.expect("it could be registered");
    assert!(rig.ids().await.is_empty(), "it was only asked");
    let made = ask(&rig, operator(), id_of(new(workload("a")), "r1")).await.expect("it is new");
    let taken = rig.handle.register_workload(operator(), new(workload("a"))).await;
    assert_refused!(taken, Refusal::NameTaken { name } if name == "workloads/a");
    let other = ask(&rig, operator(), id_of(new(workload("a")), "r2")).await;
    assert_refused!(other, Refusal::NameTaken { .. });
    // The answer to the first request was lost: it is asked again, also of the next daemon, and where the container has gone.
    rig.kill().await;
    let rig = Rig::at(&dir);
    let sought = WorkloadSpec { cgroup: String::new(), ..workload("a") };
    for spec in [workload("a"), sought] {
        let again = ask(&rig, operator(), id_of(new(spec), "r1")).await.expect("the same request");
        assert_eq!(again, made);
    }
    let changed = WorkloadSpec { pod_uid: None, ..workload("a") };
    let differs = ask(&rig, operator(), id_of(new(changed.clone()), "r1")).await;
    assert_refused!(differs, Refusal::AlreadyExists { request_id, .. } if request_id == "r1");
    // Ids are those of one client.
    let admins = id_of(RegisterWorkload::new(changed.clone()), "r1");
    let changed = ask(&rig, admin(), admins).await.expect("an admin may replace it");
    assert!(changed.etag != made.etag && changed.request_id.is_none(), "{changed:?}");
    // Once another request has changed it, the id is not known any more.
    let late = ask(&rig, operator(), id_of(new(workload("a")), "r1")).await;
    assert_refused!(late, Refusal::NameTaken { .. });
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mask_changes_what_it_names() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let asked = WorkloadSpec {
        cgroup: "/elsewhere".to_owned(),
        labels: [("tier".to_owned(), "db".to_owned())].into(),
        qos_class: Some(QosClass::Ls),
        container_id: None,
        ..workload("a")
    };
    let only = |fields: &[WorkloadField]| RegisterWorkload {
        mask: Some(fields.iter().copied().collect()),
        ..RegisterWorkload::new(asked.clone())
    };
    let labels = || only(&[WorkloadField::Labels]);
    assert_refused!(ask(&rig, operator(), labels()).await, Refusal::NotFound { .. });
    let either = RegisterWorkload { allow_missing: true, ..labels() };
    let whole = ask(&rig, operator(), either).await.expect("it is registered as a whole");
    assert_eq!(whole.spec, asked);
    let first = rig.register(operator(), workload("a")).await.expect("it is taken");
    // Two agents that each know something of it.
    let check = RegisterWorkload { validate_only: true, ..labels() };
    ask(&rig, operator(), check).await.expect("it could be changed");
    assert_eq!(rig.handle.get_workload(id("a")).await.expect("it is there").spec, first.spec);
    ask(&rig, operator(), labels()).await.expect("it is there");
    let class = only(&[WorkloadField::QosClass, WorkloadField::ContainerId]);
    let changed = ask(&rig, operator(), class).await.expect("it is there");
    let expected = WorkloadSpec {
        labels: asked.labels.clone(),
        qos_class: Some(QosClass::Ls),
        container_id: None,
        ..workload("a")
    };
    assert_eq!(changed.spec, expected);
    // Nothing says any more where it is.
    let nowhere = RegisterWorkload {
        spec: WorkloadSpec { cgroup: String::new(), ..asked.clone() },
        ..only(&[WorkloadField::Cgroup])
    };
    assert_refused!(ask(&rig, operator(), nowhere).await, Refusal::Invalid(_));
    // Somebody else has changed it since it was read, or owns it.
    let bound = RegisterWorkload { etag: Some(first.etag.clone()), ..labels() };
    assert_refused!(ask(&rig, operator(), bound).await, Refusal::Etag { .. });
    let stranger = caller("uid:1001", Role::Operator);
    assert_refused!(ask(&rig, stranger, labels()).await, Refusal::NotPermitted { .. });
    rig.stop().await;
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

#[tokio::test(start_paused = true)]
async fn lists_show_what_meets_every_condition() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let namespaced = |id, namespace: &str| WorkloadSpec {
        namespace: Some(namespace.to_owned()),
        ..workload(id)
    };
    rig.register(operator(), workload("a-1")).await.expect("it is taken");
    rig.register(operator(), namespaced("a-2", "prod")).await.expect("it is taken");
    rig.replace(admin(), Some("node"), vec![workload("a-3"), namespaced("b-1", "prod")])
        .await
        .expect("it is taken");
    let any = WorkloadFilter::default;
    let some = |text: &str| Some(text.to_owned());
    let selector = |text: &str| text.parse::<Selector>().expect("a selector");
    let prod = || Selector { namespace: some("prod"), ..Selector::default() };
    for (filter, expected) in [
        (any(), &["a-1", "a-2", "a-3", "b-1"][..]),
        (WorkloadFilter { creator: some("uid:1000"), ..any() }, &["a-1", "a-2"]),
        (WorkloadFilter { source: some("node"), ..any() }, &["a-3", "b-1"]),
        (WorkloadFilter { id_prefix: some("a-"), ..any() }, &["a-1", "a-2", "a-3"]),
        (WorkloadFilter { id_prefix: some("b"), ..any() }, &["b-1"]),
        (WorkloadFilter { id_prefix: some("c"), ..any() }, &[]),
        (WorkloadFilter { selector: prod(), ..any() }, &["a-2", "b-1"]),
        (WorkloadFilter { selector: selector("app in (a-1,b-1)"), ..any() }, &["a-1", "b-1"]),
        (WorkloadFilter { selector: prod(), id_prefix: some("a"), ..any() }, &["a-2"]),
    ] {
        assert_eq!(rig.listed(filter.clone()).await, expected, "{filter:?}");
        // The same one page at a time.
        let mut page = Page { size: 1, token: None };
        let mut found = Vec::new();
        loop {
            let request = ListWorkloads { filter: filter.clone(), page: page.clone() };
            let listed = rig.handle.list::<Workload>(request).await.expect("a page");
            found.extend(listed.entries.iter().map(|entry| entry.spec.id.id().to_owned()));
            page.token = listed.next;
            if page.token.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{filter:?}");
    }
    let first = rig.workloads(Page { size: 1, token: None }).await.expect("a page");
    let filter = WorkloadFilter { id_prefix: some("a"), ..any() };
    let page = Page { size: 1, token: first.next };
    let other = rig.handle.list::<Workload>(ListWorkloads { filter, page }).await;
    assert_refused!(other, Refusal::PageToken);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn targets_select_by_conditions_and_namespace() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let labels = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    for (id, namespace, pairs) in [
        ("a", "prod", &[("app", "redis"), ("tier", "db")][..]),
        ("b", "prod", &[("app", "redis")]),
        ("c", "test", &[("app", "web"), ("tier", "db")]),
    ] {
        let namespace = Some(namespace.to_owned());
        let spec = WorkloadSpec { namespace, labels: labels(pairs), ..workload(id) };
        rig.register(operator(), spec).await.expect("it is taken");
    }
    let selector = |text: &str| text.parse::<Selector>().expect("a selector");
    let in_prod = Selector { namespace: Some("prod".to_owned()), ..selector("tier") };
    for (labels, expected) in [
        (selector("app=redis,!tier"), &["/pods/b"][..]),
        (selector("app notin (web)"), &["/pods/a", "/pods/b"]),
        (selector("tier in (db,cache)"), &["/pods/a", "/pods/c"]),
        (in_prod, &["/pods/a"]),
    ] {
        let target = Target { labels, ..Target::default() };
        let selected = rig.handle.select(target.clone()).await.expect("found");
        let cgroups = expected.iter().map(|&path| HostTarget::Cgroup(path.to_owned()));
        assert_eq!(targets(&selected.aim), cgroups.collect::<Vec<_>>(), "{target}");
    }
    let none = Target { labels: selector("app=none"), ..Target::default() };
    assert_refused!(
        rig.handle.select(none).await,
        Refusal::TargetNotFound { message } if message.contains("label app=none")
    );
    rig.stop().await;
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

/// Changes after a number, in short form, and the number of the last one that was looked at.
async fn changes(rig: &Rig, filter: WorkloadFilter, after: u64) -> (Vec<String>, u64) {
    let read =
        rig.handle.changes_after::<Workload>(filter, after, 100).await.expect("they are known");
    let told = read.changes.iter().map(|(_, change, _)| match change {
        RecordChange::Present(workload) => format!("+{}", workload.spec.id.id()),
        RecordChange::Removed(id) => format!("-{}", id.id()),
        RecordChange::CaughtUp => unreachable!("no change"),
    });
    (told.collect(), read.seen)
}

#[tokio::test(start_paused = true)]
async fn changes_are_known_as_soon_as_they_are_stored() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let any = WorkloadFilter::default;
    for id in ["a", "b", "c"] {
        rig.register(operator(), workload(id)).await.expect("it is taken");
    }
    let (told, seen) = changes(&rig, any(), 0).await;
    assert_eq!(told, ["+a", "+b", "+c"]);
    let begun = rig.handle.begin_watch::<Workload>(None).await;
    let mut last = begun.expect("there is no token").last;
    assert_eq!(*last.borrow_and_update(), seen);
    // A renewal is not a change.
    rig.register(operator(), workload("a")).await.expect("it is taken");
    assert!(!last.has_changed().expect("it continues"));
    // Watchers are not told of a change that could not be stored.
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::EIO });
    assert_refused!(rig.unregister(operator(), id("a")).await, Refusal::Unavailable { .. });
    assert!(!last.has_changed().expect("it continues"));
    assert!(!changes(&rig, any(), seen).await.0.contains(&"-a".to_owned()));
    rig.replace(operator(), None, vec![workload("b"), leased("d", 10)]).await.expect("taken");
    assert!(last.has_changed().expect("it continues"));
    let (mut told, _) = changes(&rig, any(), seen).await;
    told.sort_unstable();
    assert_eq!(told, ["+d", "-a", "-c"]);
    let (_, seen) = changes(&rig, any(), seen).await;
    sleep(11).await;
    assert_eq!(changes(&rig, any(), seen).await.0, ["-d"], "its lease has ended");
    // A watcher with a filter gets all other workloads as removed.
    let of_b = WorkloadFilter { id_prefix: Some("b".to_owned()), ..any() };
    let (told, _) = changes(&rig, of_b, 0).await;
    assert_eq!(told.iter().filter(|told| told.starts_with('+')).collect::<Vec<_>>(), ["+b"]);
    // Another run of the daemon has numbers of its own.
    let before = rig_token(&rig).await;
    rig.kill().await;
    let rig = Rig::at(&dir);
    assert_eq!(changes(&rig, any(), 0).await.0, ["+b"]);
    let resume = |token| rig.handle.begin_watch::<Workload>(Some(token));
    assert_refused!(resume(before).await, Refusal::ResumeToken);
    let own = rig_token(&rig).await;
    assert_eq!(resume(own).await.expect("it is of this run").after, Some(1));
    rig.stop().await;
}

async fn rig_token(rig: &Rig) -> String {
    let read = rig.handle.changes_after::<Workload>(WorkloadFilter::default(), 0, 1).await;
    read.expect("they are known").token
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

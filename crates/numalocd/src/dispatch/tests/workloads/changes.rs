//! Changes that are bound to what was read, and requests that are known again.

use super::*;

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

/// Handles a request as the service does: `begin_register` comes first.
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
    // The answer to the first request was lost: it is asked again, also of the next daemon, and where the container has
    // gone.
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
    // Another client has changed it since it was read, or owns it.
    let bound = RegisterWorkload { etag: Some(first.etag.clone()), ..labels() };
    assert_refused!(ask(&rig, operator(), bound).await, Refusal::Etag { .. });
    let stranger = caller("uid:1001", Role::Operator);
    assert_refused!(ask(&rig, stranger, labels()).await, Refusal::NotPermitted { .. });
    rig.stop().await;
}

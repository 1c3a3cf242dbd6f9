//! Two tenants on one host: neither affects what the other does.

mod records;

use super::{
    workloads::{targets, workload},
    *,
};
use crate::{config::Reserved, dispatch::Selected};
use numaloc_api::value::{
    self, CreateSchedule, QosClass, ScheduleId, ScheduleSpec, ScheduleState, ScheduleUpdate,
    UpdateSchedule, WorkloadId, WorkloadSet, WorkloadSpec,
};
use numaloc_host::Target as HostTarget;

/// An operator with rights to these cgroups, as in the grants of [`config`].
fn tenant(uid: u32, cgroups: &[&str]) -> Caller {
    let cgroups = cgroups.iter().map(|&path| path.to_owned()).collect();
    let authority = Authority::Of { uid: Some(uid), cgroups, files: Vec::new() };
    Caller { authority, ..caller(&format!("uid:{uid}"), Role::Operator) }
}

fn agent() -> Caller {
    tenant(1000, &["/pods"])
}

fn other() -> Caller {
    tenant(1001, &["/other", "/pods/shared"])
}

fn config() -> Config {
    let grant = |uid, cgroups: &[&str]| Grant {
        to: Grantee::Uid(uid),
        role: Role::Operator,
        cgroups: cgroups.iter().map(|&path| path.to_owned()).collect(),
        files: Vec::new(),
        ceilings: Ceilings::NONE,
    };
    let grants = vec![grant(1000, &["/pods"]), grant(1001, &["/other", "/pods/shared"])];
    Config { grants, ..Config::default() }
}

/// A workload that says it is app=redis in container `c` of pod `p`.
fn redis(id: &str, cgroup: &str, qos_class: QosClass) -> WorkloadSpec {
    WorkloadSpec {
        cgroup: cgroup.to_owned(),
        container_id: Some("c".to_owned()),
        pod_uid: Some("p".to_owned()),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
        qos_class: Some(qos_class),
        ..workload(id)
    }
}

fn names() -> [Target; 3] {
    let none = Target::default;
    [
        Target { labels: [("app".to_owned(), "redis".to_owned())].into(), ..none() },
        Target { containers: ["c".to_owned()].into(), ..none() },
        Target { pods: ["p".to_owned()].into(), ..none() },
    ]
}

/// A rig in which both tenants have registered a workload under the same names.
async fn rig(dir: &TempDir) -> Rig {
    let rig = Rig::with(dir, config());
    let own = redis("own", "/pods/redis", QosClass::Be);
    rig.register(agent(), own).await.expect("it is taken");
    let foreign = redis("foreign", "/other/redis", QosClass::Lsr);
    rig.register(other(), foreign).await.expect("it is taken");
    rig
}

async fn select(rig: &Rig, of: Option<Caller>, target: &Target) -> Result<Selected, Refusal> {
    match of {
        Some(caller) => rig.handle.select_for(caller, target.clone()).await,
        None => rig.handle.select(target.clone()).await,
    }
}

fn cgroups(paths: &[&str]) -> Vec<HostTarget> {
    paths.iter().map(|&path| HostTarget::Cgroup(path.to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_selector_means_what_its_owner_owns_or_may_move() {
    let dir = dir();
    let rig = rig(&dir).await;
    let lsr = QosClass::Lsr;
    let shared = redis("shared", "/pods/shared/redis", lsr);
    for target in names() {
        for (who, expected, class) in [
            (Some(agent()), &["/pods/redis"][..], QosClass::Be),
            (Some(other()), &["/other/redis"], lsr),
            (Some(admin()), &["/other/redis", "/pods/redis"], lsr),
            (None, &["/other/redis", "/pods/redis"], lsr),
        ] {
            let selected = select(&rig, who.clone(), &target).await.expect("found");
            let expected = (cgroups(expected), Some(class));
            assert_eq!(
                (targets(&selected.aim), selected.qos_class),
                expected,
                "{who:?} {target:?}"
            );
        }
        let stranger = tenant(7, &[]);
        let none = select(&rig, Some(stranger), &target).await;
        match target.labels.is_empty() {
            false => assert_refused!(none, Refusal::TargetNotFound { .. }),
            // As for an unregistered name: the host may have such a container or pod.
            true => {
                let selected = none.expect("the host may have one of that name");
                let is_named = |target: &HostTarget| matches!(target, HostTarget::Named { .. });
                assert!(targets(&selected.aim).iter().all(is_named), "{selected:?}");
                assert_eq!(selected.qos_class, None);
            }
        }
        // The agent may also move workloads that the other tenant has registered in a cgroup of the agent's.
        rig.register(other(), shared.clone()).await.expect("it is taken");
        let selected = select(&rig, Some(agent()), &target).await.expect("found");
        assert_eq!(targets(&selected.aim), cgroups(&["/pods/redis", "/pods/shared/redis"]));
        assert_eq!(selected.qos_class, Some(lsr));
        rig.unregister(other(), shared.id.clone()).await.expect("it is known");
    }
    rig.stop().await;
}

/// A target that means the workloads of these clients alone.
fn of(target: &Target, creators: &[&str]) -> Target {
    let workload_creators = creators.iter().map(|&name| name.to_owned()).collect();
    Target { workload_creators, ..target.clone() }
}

#[tokio::test(start_paused = true)]
async fn a_target_may_say_whose_workloads_it_means() {
    let dir = dir();
    let rig = rig(&dir).await;
    let (lsr, be) = (QosClass::Lsr, QosClass::Be);
    let shared = redis("shared", "/pods/shared/redis", lsr);
    for target in names() {
        for (who, creators, expected, class) in [
            (Some(admin()), &["uid:1000"][..], &["/pods/redis"][..], be),
            (Some(admin()), &["uid:1001", "uid:9"], &["/other/redis"], lsr),
            (Some(admin()), &["uid:1000", "uid:1001"], &["/other/redis", "/pods/redis"], lsr),
            (None, &["uid:1000"], &["/pods/redis"], be),
            (Some(agent()), &["uid:1000"], &["/pods/redis"], be),
        ] {
            let target = of(&target, creators);
            let selected = select(&rig, who.clone(), &target).await.expect("found");
            let found = (targets(&selected.aim), selected.qos_class);
            assert_eq!(found, (cgroups(expected), Some(class)), "{who:?} {target:?}");
        }
        let none = select(&rig, Some(admin()), &of(&target, &["uid:9"])).await;
        assert_refused!(none, Refusal::TargetNotFound { message } if message.contains("of uid:9"));
        // It narrows what an operator may have moved, and gives it nothing.
        let foreign = of(&target, &["uid:1001"]);
        let none = select(&rig, Some(agent()), &foreign).await;
        assert_refused!(none, Refusal::TargetNotFound { .. });
        rig.register(other(), shared.clone()).await.expect("it is taken");
        let selected = select(&rig, Some(agent()), &foreign).await.expect("found");
        assert_eq!(targets(&selected.aim), cgroups(&["/pods/shared/redis"]));
        rig.unregister(other(), shared.id.clone()).await.expect("it is known");
        // One without cgroups has its own alone.
        let stranger = tenant(7, &[]);
        let refused = select(&rig, Some(stranger.clone()), &foreign).await;
        assert_refused!(refused, Refusal::NotPermitted { message } if message.contains("uid:1001"));
        let none = select(&rig, Some(stranger), &of(&target, &["uid:7"])).await;
        assert_refused!(none, Refusal::TargetNotFound { .. });
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_class_of_a_cgroup_is_not_the_others_to_say() {
    let dir = dir();
    let rig = Rig::with(&dir, config());
    // The other tenant may not move this one, whatever it calls it.
    let foreign = redis("foreign", "/pods/redis", QosClass::Lsr);
    rig.register(other(), foreign).await.expect("it is taken");
    let target = Target { cgroups: ["/else/redis".to_owned()].into(), ..Target::default() };
    let elsewhere = redis("elsewhere", "/else/redis", QosClass::Lsr);
    rig.register(other(), elsewhere).await.expect("it is taken");
    let selected = select(&rig, Some(agent()), &target).await.expect("named");
    assert_eq!((targets(&selected.aim), selected.qos_class), (cgroups(&["/else/redis"]), None));
    let selected = select(&rig, Some(other()), &target).await.expect("named");
    assert_eq!(selected.qos_class, Some(QosClass::Lsr));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_runs_on_its_owners_workloads_and_waits_for_no_others() {
    let dir = dir();
    let mut rig = rig(&dir).await;
    let [labels, ..] = names();
    let migration = MigrationSpec { target: labels, ..MigrationSpec::default() };
    let interval = Duration::from_secs(60);
    let spec = ScheduleSpec { migration, interval, ..ScheduleSpec::default() };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    let id =
        rig.handle.create_schedule(agent(), request, Pins::new()).await.expect("taken").id.clone();
    let probe = rig.probes.recv().await.expect("a probe");
    assert_eq!(targets(&probe.aim), cgroups(&["/pods/redis"]));
    assert_eq!(probe.creator.authority, agent().authority);
    let (schedule, etag) = (probe.schedule.clone(), probe.etag.clone());
    let found = Ok(found(&[1], "0"));
    rig.probed.send(ProbeAnswer { schedule, etag, found }).expect("the dispatcher is there");
    let order = rig.order().await;
    assert_eq!(targets(&order.run.aim), cgroups(&["/pods/redis"]));
    let job = rig.handle.get_job(order.job.clone()).await.expect("it is known");
    assert_eq!(job.spec.policy.qos_class, Some(QosClass::Be));
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    rig.report(EngineReport::Ended(order.job.clone(), Ok(outcome(4096, None))));
    rig.reaches(&order.job, JobState::Succeeded).await;
    // Without its owner's workload the schedule waits, although the other tenant's workload has the label.
    let own = WorkloadId::new("own").expect("an id");
    rig.unregister(agent(), own).await.expect("it is known");
    tokio::time::sleep(2 * interval).await;
    let known = rig.handle.get_schedule(id).await.expect("it is known");
    assert_eq!(known.state, ScheduleState::TargetGone);
    assert!(rig.probes.try_recv().is_err(), "looked at what is not its owner's");
    rig.stop().await;
}

/// A service manager or a container may give a process groups that no user database knows of.
#[tokio::test(start_paused = true)]
async fn who_was_let_in_by_its_group_is_the_same_at_the_run() {
    let dir = dir();
    let to = Grantee::Gid(500);
    let grants = vec![Grant {
        to,
        role: Role::Operator,
        cgroups: vec!["/pods".to_owned()],
        files: Vec::new(),
        ceilings: Ceilings::NONE,
    }];
    let mut rig = Rig::with(&dir, Config { grants, ..Config::default() });
    let caller = Caller { gid: Some(500), ..tenant(2000, &["/pods"]) };
    let made =
        rig.handle.create_job(caller.clone(), request(&[1]), pins(&[1]), found(&[1], "0")).await;
    let job = made.expect("it is taken").0.id.clone();
    let order = rig.order().await;
    assert_eq!((&order.job, &order.run.authority), (&job, &caller.authority));
    let migration = MigrationSpec { target: target(&[2]), ..MigrationSpec::default() };
    let spec = ScheduleSpec { migration, ..ScheduleSpec::default() };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    rig.handle.create_schedule(caller.clone(), request, pins(&[2])).await.expect("it is taken");
    assert_eq!(rig.probes.recv().await.expect("a probe").creator.authority, caller.authority);
    rig.kill().await;
    // Also after a restart.
    let grants = vec![Grant {
        to: Grantee::Gid(500),
        role: Role::Admin,
        cgroups: Vec::new(),
        files: Vec::new(),
        ceilings: Ceilings::NONE,
    }];
    let mut rig = Rig::with(&dir, Config { grants, ..Config::default() });
    assert_eq!(rig.order().await.run.authority, Authority::All);
    rig.kill().await;
}

/// Ceilings are checked when a record is made, when it is changed, and before each run, because a grant may have
/// changed.
#[tokio::test(start_paused = true)]
async fn ceilings_hold_at_each_run() {
    let dir = dir();
    let mut rig = Rig::with(&dir, with(Ceilings { workers: 4, ..Ceilings::default() }));
    let agent =
        |workers| Caller { ceilings: Ceilings { workers, ..Ceilings::default() }, ..agent() };
    let workers = |workers| value::Limits { workers: Some(workers), ..value::Limits::default() };
    let mut asked = request(&[1]);
    asked.spec.limits = workers(4);
    let made = rig.handle.create_job(agent(4), asked.clone(), pins(&[1]), found(&[1], "0")).await;
    let first = made.expect("it is taken").0.id.clone();
    let order = rig.order().await;
    assert_eq!(order.run.options.pacing.workers, Some(4));
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    let migration = MigrationSpec { limits: workers(4), ..request(&[2]).spec };
    let interval = Duration::from_secs(60);
    let spec = ScheduleSpec { migration, interval, paused: true, ..ScheduleSpec::default() };
    let schedule = CreateSchedule { spec, ..CreateSchedule::default() };
    let id = rig.handle.create_schedule(agent(4), schedule, pins(&[2])).await;
    let id = id.expect("it is taken").id.clone();
    rig.config.send_replace(Arc::new(with(Ceilings::default())));
    rig.report(EngineReport::Ended(first.clone(), Ok(outcome(4096, None))));
    rig.reaches(&first, JobState::Succeeded).await;
    // They hold for a job at its turn, and for a schedule that is resumed.
    let mut asked = request(&[3]);
    asked.spec.limits = workers(4);
    let made = rig.handle.create_job(agent(4), asked, pins(&[3]), found(&[3], "0")).await;
    let job = rig.reaches(&made.expect("it is taken").0.id, JobState::Failed).await;
    assert!(job.state_message.contains("ceiling workers"), "{}", job.state_message);
    let update =
        |update| UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
    let go_on = ScheduleUpdate { paused: Some(false), ..ScheduleUpdate::default() };
    let changed = rig.handle.update_schedule(agent(1), update(go_on), Pins::new()).await;
    changed.expect("what it asks for is not changed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let known = rig.handle.get_schedule(id.clone()).await.expect("it is known");
    assert!(known.state_message.contains("ceiling workers"), "{}", known.state_message);
    let more = ScheduleUpdate { limits: Some(workers(2)), ..ScheduleUpdate::default() };
    let refused = rig.handle.update_schedule(agent(1), update(more), Pins::new()).await;
    assert_refused!(refused, Refusal::Ceiling { ceiling: "workers", .. });
    let lsr = redis("own", "/pods/redis", QosClass::Lsr);
    let refused = rig.register(agent(1), lsr).await;
    assert_refused!(refused, Refusal::Ceiling { ceiling: "qos_class", .. });
    rig.kill().await;
}

/// One operator with these ceilings.
fn with(ceilings: Ceilings) -> Config {
    let cgroups = vec!["/pods".to_owned()];
    let grants = vec![Grant {
        to: Grantee::Uid(1000),
        role: Role::Operator,
        cgroups,
        files: Vec::new(),
        ceilings,
    }];
    Config { grants, ..Config::default() }
}

/// Lets all tasks do what does not wait for time to pass.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A planned job may wait long for a place to move, and a grant may change meanwhile.
#[tokio::test(start_paused = true)]
async fn what_is_planned_asks_again_before_it_moves() {
    let dir = dir();
    let config = |workers| {
        let mut config = with(Ceilings { workers, ..Ceilings::default() });
        config.queue.moves = 1;
        config
    };
    let mut rig = Rig::with(&dir, config(4));
    let agent = Caller { ceilings: Ceilings { workers: 4, ..Ceilings::default() }, ..agent() };
    let first = rig.create(&[1], "0").await;
    let mut asked = request(&[2]);
    asked.spec.limits.workers = Some(4);
    let made = rig.handle.create_job(agent, asked, pins(&[2]), found(&[2], "1")).await;
    let second = made.expect("it is taken").0.id.clone();
    let (begun, order) = (rig.order().await, rig.order().await);
    rig.planned(&begun, &[1], "0");
    told(begun).await;
    rig.planned(&order, &[2], "1");
    settle().await;
    let waits = rig.handle.get_job(second.clone()).await.expect("it is known");
    assert!(waits.state_message.contains("limit of moving jobs"), "{}", waits.state_message);
    rig.config.send_replace(Arc::new(config(1)));
    rig.reaches(&second, JobState::Queued).await;
    order.go.await.expect_err("it was told to move");
    rig.report(EngineReport::Ended(first.clone(), Ok(outcome(4096, None))));
    rig.reaches(&first, JobState::Succeeded).await;
    let failed = rig.reaches(&second, JobState::Failed).await;
    assert!(failed.state_message.contains("ceiling workers"), "{}", failed.state_message);
    rig.stop().await;
}

/// However a class came into a record, it is not better than its creator may ask for now.
#[tokio::test(start_paused = true)]
async fn a_class_is_bounded_wherever_it_comes_from() {
    let dir = dir();
    let config = |qos_class| with(Ceilings { qos_class, ..Ceilings::default() });
    let lsr = Ceilings { qos_class: QosClass::Lsr, ..Ceilings::default() };
    let agent = || Caller { ceilings: lsr, ..agent() };
    let mut rig = Rig::with(&dir, config(QosClass::Lsr));
    let own = redis("own", "/pods/redis", QosClass::Lsr);
    rig.register(agent(), own).await.expect("it is taken");
    // A job that asks for the class itself, and is paused before it moves.
    let mut asked = request(&[1]);
    asked.spec.policy.qos_class = Some(QosClass::Lsr);
    let made = rig.handle.create_job(agent(), asked, pins(&[1]), found(&[1], "0")).await;
    let paused = made.expect("it is taken").0.id.clone();
    let order = rig.order().await;
    assert_eq!(order.run.limits.duty_percent, None);
    rig.handle.pause_job(agent(), paused.clone()).await.expect("it is its own");
    rig.planned(&order, &[1], "0");
    rig.reaches(&paused, JobState::Paused).await;
    let [labels, ..] = names();
    for class in [QosClass::Lsr, QosClass::Ls, QosClass::Be] {
        rig.config.send_replace(Arc::new(config(class)));
        let selected = rig.handle.select(labels.clone()).await.expect("it is registered");
        assert_eq!(selected.qos_class, Some(class));
        // An admin's job on the workload gets the class that the workload's creator may ask for now. A job of another
        // caller gets at most what both may ask for.
        let selected = select(&rig, Some(admin()), &labels).await.expect("it is registered");
        assert_eq!(selected.qos_class, Some(class));
        let less = Ceilings { qos_class: QosClass::Be, ..lsr };
        let less = Caller { ceilings: less, ..agent() };
        let selected = select(&rig, Some(less), &labels).await.expect("it is registered");
        assert_eq!(selected.qos_class, Some(QosClass::Be));
    }
    // A best-effort job gets half of the time.
    rig.handle.resume_job(agent(), paused.clone()).await.expect("it is its own");
    let order = rig.order().await;
    assert!(
        order.job == paused && order.run.limits.duty_percent.is_some(),
        "{:?}",
        order.run.limits
    );
    // A creator that may not have memory moved any more has no say.
    rig.config.send_replace(Arc::new(Config::default()));
    let selected = rig.handle.select(labels).await.expect("it is registered");
    assert_eq!(selected.qos_class, None);
    rig.kill().await;
}

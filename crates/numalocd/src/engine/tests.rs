//! Orders on real processes, on a machine with any number of nodes.

use super::*;
use crate::{
    config::{Ceilings, Role},
    refusal::Unfit,
};
use nix::{
    sys::{
        memfd::{MFdFlags, memfd_create},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use numaloc_api::value::{self, JobId, JobState, MemberState, Missing};
use numaloc_core::Offload;
use numaloc_dma::Asked;
use numaloc_engine::{Ended, Member, Planned, RunOrder, fixture::Asleep};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::{Target, identify};
use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

const DEADLINE: Duration = Duration::from_secs(60);

/// An engine that does not change the settings of this machine.
fn engine(roots: Roots) -> Engine {
    let offloading = Offloading::new(roots.clone());
    Engine::new(roots.clone(), Balancing::new(roots), offloading)
}

/// A target with one member.
fn aim(target: Target) -> Aim {
    let name = value::Target { units: ["a".to_owned()].into(), ..value::Target::default() };
    Aim::of(vec![Member { target, name }])
}

/// A caller with this authority.
fn caller(authority: Authority) -> Caller {
    let (name, role) = ("uid:7".to_owned(), Role::Operator);
    Caller { name, gid: None, role, authority, ceilings: Ceilings::NONE }
}

/// A target that is this process.
fn aim_at(asleep: &Asleep) -> Aim {
    aim(Target::Pid(asleep.pid()))
}

#[tokio::test]
async fn advice_that_waits_has_no_turn() {
    let engine = engine(Roots::default());
    let advise = |of: &'static str, interval| {
        let engine = engine.clone();
        // No process has that much memory, so the looks themselves are short.
        async move { engine.advise(of, None, interval, 1 << 50).await.map(drop) }
    };
    // More than there are turns for one caller, and for all.
    let long = Duration::from_secs(3600);
    let waiting = ["a", "a", "a", "b", "b", "b"].map(|of| tokio::spawn(advise(of, long)));
    for of in ["a", "b", "c"] {
        let advised = timeout(DEADLINE, advise(of, Duration::ZERO)).await;
        advised.expect("its turn comes").expect("this machine can be read");
    }
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn advice_does_not_keep_others_from_looking() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let held = ["a", "a", "b"].map(|of| {
        let (engine, (release, held)) = (engine.clone(), std::sync::mpsc::channel::<()>());
        let work = async move { engine.advice.take(of, move |_| Ok(held.recv().ok())).await };
        (release, tokio::spawn(work))
    });
    let caller = caller(Authority::All);
    let look = engine.look(&caller, aim_at(&asleep), Options::default(), Policies::Leave);
    timeout(DEADLINE, look).await.expect("its turn comes").expect("the process is there");
    for (release, held) in held {
        drop(release);
        timeout(DEADLINE, held).await.expect("it ends").expect("no panic").expect("no error");
    }
}

/// An engine at work, with the other ends of its channels.
struct Desk {
    orders: mpsc::UnboundedSender<JobOrder>,
    reports: mpsc::UnboundedReceiver<EngineReport>,
    served: tokio::task::JoinHandle<()>,
}

impl Desk {
    fn new() -> Self {
        let (orders, ordered) = mpsc::unbounded_channel();
        let (to, reports) = mpsc::unbounded_channel();
        let served = tokio::spawn(engine(Roots::default()).serve(ordered, to));
        Self { orders, reports, served }
    }

    fn order(&self, aim: Aim, authority: Authority, cancel: bool) -> oneshot::Sender<()> {
        let (go, word) = oneshot::channel();
        let control = Control::default();
        control.cancel.store(cancel, Relaxed);
        let run = RunOrder {
            aim,
            options: Options::default(),
            limits: RunLimits::default(),
            authority,
            offers: Offers::default(),
            numa_balancing: NumaBalancing::Ignore,
            offload: Asked { policy: Offload::Off, rules: Default::default(), is_granted: false },
            trail: None,
            control: Arc::new(control),
        };
        let order = JobOrder { job: JobId::numbered(1), run, go: word };
        self.orders.send(order).expect("it is served");
        go
    }

    async fn report(&mut self) -> Option<EngineReport> {
        timeout(DEADLINE, self.reports.recv()).await.expect("a report in time")
    }

    async fn planned(&mut self) -> Result<Planned, Refusal> {
        match self.report().await {
            Some(EngineReport::Planned(job, planned)) if job == JobId::numbered(1) => planned,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the orders, waits for the engine to end, and gives back what it still reported.
    async fn close(self) -> Vec<EngineReport> {
        let Self { orders, mut reports, served } = self;
        drop(orders);
        timeout(DEADLINE, served).await.expect("it ends").expect("no panic");
        std::iter::from_fn(|| reports.try_recv().ok()).collect()
    }
}

#[tokio::test]
async fn this_machine_is_seen() {
    let topology = engine(Roots::default()).topology("a").await.expect("hwloc");
    assert!(!topology.with_memory().is_empty());
    let sys = tempfile::tempdir().expect("a directory");
    let nodes = sys.path().join("devices/system/node");
    std::fs::create_dir_all(&nodes).expect("directories");
    std::fs::write(nodes.join("online"), "x").expect("a file");
    let roots = Roots { sys: sys.path().into(), ..Roots::default() };
    let error = engine(roots).topology("a").await.expect_err("nonsense");
    assert!(matches!(&error, Refusal::Internal { message } if message.contains("node/online")));
}

#[tokio::test]
async fn mappings_are_for_those_who_may_have_the_process_moved() {
    let (asleep, engine) = (Asleep::new(), engine(Roots::default()));
    let found = identify(&Roots::default(), [asleep.pid()]).expect("it is there");
    let process = found[&asleep.pid()];
    let of = |uid| Authority::Of { uid, cgroups: Vec::new(), files: Vec::new() };
    let own = nix::unistd::getuid().as_raw();
    for (authority, expected) in [
        (Authority::All, true),
        (of(Some(own)), true),
        (of(Some(own + 1)), false),
        (of(None), false),
    ] {
        let live = engine.live(&caller(authority.clone()), Some(process)).await;
        let (now, may_see) = live.expect("this host can be read");
        assert_eq!(may_see, expected, "{authority:?}");
        assert!(!now.snapshot.nodes.is_empty());
    }
}

/// Files that a process has mapped and open: a name that is guessed right must look like one that is not.
#[tokio::test]
async fn names_of_files_are_for_those_who_may_have_the_process_moved() {
    let engine = engine(Roots::default());
    let held = File::from(memfd_create("held", MFdFlags::MFD_CLOEXEC).expect("a memfd"));
    held.write_all_at(&vec![7; 1 << 20], 0).expect("memory");
    let this = || aim(Target::Pid(std::process::id() as i32));
    let (own, policies) = (nix::unistd::getuid().as_raw(), Policies::Leave);
    let of = |uid| caller(Authority::Of { uid: Some(uid), cgroups: Vec::new(), files: Vec::new() });
    let named = |pattern: &str| Options {
        maps: vec![format!("{pattern}=home").parse().expect("a rule")],
        ..Options::default()
    };
    let held = |looked: LookedAt| looked.plan.held.iter().any(|file| file.name.contains("held"));
    let look = async |caller| {
        engine.look(&caller, this(), Options::default(), policies).await.expect("it is there")
    };
    assert!(held(look(of(own)).await));
    assert!(!held(look(of(own + 1)).await));
    for pattern in ["libc*", "none*"] {
        let refused = engine.look(&of(own + 1), this(), named(pattern), policies).await;
        let refused = refused.map(drop).expect_err(pattern);
        assert!(matches!(refused, Refusal::NotPermitted { .. }), "{pattern}: {refused:?}");
        let offers = Offers::default();
        let planned = engine.plan(&of(own + 1), this(), named(pattern), policies, offers).await;
        assert!(planned.is_err(), "{pattern}");
    }
    engine.look(&of(own), this(), named("libc*"), policies).await.map(drop).expect("it is mapped");
    let missed = engine.look(&of(own), this(), named("none*"), policies).await.map(drop);
    assert!(matches!(missed, Err(Refusal::HostCannot { .. })), "{missed:?}");
}

#[tokio::test]
async fn what_is_not_there_is_told_first() {
    let engine = engine(Roots::default());
    let mut ended = Asleep::new();
    ended.kill();
    // It stays a zombie.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(Pid::from_raw(ended.pid())), flags).expect("it ends");
    let cgroup = |path: &str| aim(Target::Cgroup(path.into()));
    for (aim, expected) in [
        (aim(Target::Pid(i32::MAX)), "TargetNotFound"),
        (cgroup("/numaloc-no-such"), "TargetNotFound"),
        (cgroup("../../etc"), "TargetNotFound"),
        (aim(Target::Unit("a b".into())), "TargetNotFound"),
        (aim_at(&ended), "TargetEmpty"),
    ] {
        let (all, options) = (caller(Authority::All), Options::default());
        let offers = Offers::default();
        for refusal in [
            engine.find(&all, aim.clone(), options.clone()).await.expect_err("refused"),
            engine
                .look(&all, aim.clone(), options.clone(), Policies::Ask)
                .await
                .expect_err("refused"),
            // On a machine with one node, too.
            engine
                .plan(&all, aim.clone(), options, Policies::AskBriefly, offers)
                .await
                .expect_err("refused"),
        ] {
            assert!(format!("{refusal:?}").starts_with(expected), "{aim:?}: {refusal:?}");
        }
    }
}

#[tokio::test]
async fn where_nothing_can_move_there_is_no_target_node() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let topology = engine.topology("a").await.expect("hwloc");
    let all = Options { to: Some(topology.with_memory()), ..Options::default() };
    let missing = Options { to: "1023".parse().ok(), ..Options::default() };
    for options in [all, missing] {
        let refusal =
            engine.find(&caller(Authority::All), aim_at(&asleep), options).await.expect_err("no");
        assert!(matches!(refusal, Refusal::NoTargetNode { .. }), "{refusal:?}");
    }
}

#[tokio::test]
async fn a_look_and_a_plan_refuse_nodes_that_do_not_exist() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let nodes = || "1023".parse().ok();
    let to = Options { to: nodes(), ..Options::default() };
    let from = Options { from: nodes(), ..Options::default() };
    for options in [to, from] {
        let all = caller(Authority::All);
        let looked = engine.look(&all, aim_at(&asleep), options.clone(), Policies::Ask).await;
        let (policies, offers) = (Policies::AskBriefly, Offers::default());
        let planned = engine.plan(&all, aim_at(&asleep), options.clone(), policies, offers).await;
        let found = engine.find(&all, aim_at(&asleep), options).await.map(drop);
        for refused in [looked.map(drop), planned.map(drop), found] {
            let named = Some(Unfit::Named(1023));
            let Err(Refusal::NoTargetNode { node, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(node, named);
        }
    }
}

#[tokio::test]
async fn a_look_needs_no_target_node_and_moves_nothing() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let all = caller(Authority::All);
    let looked = engine.look(&all, aim_at(&asleep), Options::default(), Policies::Ask).await;
    let LookedAt { plan, .. } = looked.expect("a plan");
    assert_eq!(plan.processes.len(), 1);
    assert!(plan.locality.overall.local_bytes > 0);
}

#[tokio::test]
async fn only_whose_it_is_may_have_it_moved() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let own = nix::unistd::getuid().as_raw();
    let of = |uid, cgroups: &[&str]| Authority::Of {
        uid,
        cgroups: cgroups.iter().map(|&path| path.to_owned()).collect(),
        files: Vec::new(),
    };
    let topology = engine.topology("a").await.expect("hwloc");
    let options = Options::default();
    for (authority, allowed) in [
        (Authority::All, true),
        (of(Some(own), &[]), true),
        (of(None, &["/"]), true),
        (of(None, &[]), false),
        (of(Some(own + 1), &["/numaloc-no-such"]), false),
    ] {
        let found = engine.find(&caller(authority.clone()), aim_at(&asleep), options.clone()).await;
        match found {
            Err(Refusal::NotPermitted { message }) => {
                assert!(!allowed, "{authority:?}: {message}");
                assert!(
                    message.contains(&format!("process {} (sleep)", asleep.pid())),
                    "{message}"
                );
            }
            // This is checked only after the authority. A process that may run anywhere has no target node in any case.
            Err(Refusal::NoTargetNode { .. }) => assert!(allowed, "{authority:?}"),
            Ok(_) => assert!(allowed && topology.with_memory().len() > 1, "{authority:?}"),
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
}

#[tokio::test]
async fn an_order_is_planned_and_carried_out() {
    let (mut desk, asleep) = (Desk::new(), Asleep::new());
    let go = desk.order(aim_at(&asleep), Authority::All, false);
    let planned = desk.planned().await.expect("a plan");
    assert_eq!(planned.found.processes.len(), 1);
    let [member] = &planned.found.members[..] else { panic!("{planned:?}") };
    assert_eq!((member.state, member.processes), (MemberState::Skipped, 1));
    assert!(member.reason.starts_with("no target node"), "{member:?}");
    // The process may run anywhere, so it has no target node, however many nodes there are.
    assert_eq!(planned.nothing, Some((JobState::Skipped, "no target node".to_owned())));
    go.send(()).expect("it waits");
    let Some(EngineReport::Ended(_, Ok(Ended { outcome, members, .. }))) = desk.report().await
    else {
        panic!("no outcome")
    };
    assert!(outcome.account().closes() && !outcome.is_partial(), "{outcome:?}");
    assert_eq!(members[0].account, outcome.account());
    assert_eq!((members[0].before, members[0].after), (Some(outcome.before), outcome.after));
    assert_eq!(outcome.account().moved_bytes(), 0);
    assert_eq!(outcome.processes.len(), 1);
    assert!(outcome.after.is_some());
    assert!(desk.close().await.is_empty());
}

#[tokio::test]
async fn what_is_left_of_a_process_that_ends_meanwhile_is_an_outcome() {
    let (mut desk, asleep) = (Desk::new(), Asleep::new());
    let go = desk.order(aim_at(&asleep), Authority::All, false);
    desk.planned().await.expect("a plan");
    drop(asleep);
    go.send(()).expect("it waits");
    let Some(EngineReport::Ended(_, Ok(Ended { outcome, .. }))) = desk.report().await else {
        panic!("no outcome")
    };
    assert!(outcome.after.is_none() && !outcome.is_partial(), "{outcome:?}");
}

#[tokio::test]
async fn an_order_that_is_dropped_ends_without_a_word() {
    let (mut desk, asleep) = (Desk::new(), Asleep::new());
    drop(desk.order(aim_at(&asleep), Authority::All, false));
    desk.planned().await.expect("a plan");
    let rest = desk.close().await;
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn orders_that_cannot_be_planned_say_so_and_nothing_more() {
    let asleep = Asleep::new();
    let nobody = Authority::NONE;
    for (aim, authority, cancel, expected) in [
        (aim(Target::Pid(i32::MAX)), Authority::All, false, "TargetNotFound"),
        (aim_at(&asleep), nobody, false, "NotPermitted"),
        (aim_at(&asleep), Authority::All, true, "Unavailable"),
    ] {
        let mut desk = Desk::new();
        let _go = desk.order(aim, authority, cancel);
        let refusal = desk.planned().await.expect_err("refused");
        assert!(format!("{refusal:?}").starts_with(expected), "{refusal:?}");
        assert!(desk.close().await.is_empty());
    }
}

#[tokio::test]
async fn what_is_gone_is_named_and_the_rest_is_found() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let mut whole = aim_at(&asleep);
    whole.members.extend(aim(Target::Cgroup("/numaloc-no-such".into())).members);
    // This can never be a target. That concerns only this member.
    whole.members.extend(aim(Target::Cgroup("../../etc".into())).members);
    let known = Missing {
        member: value::Target::default(),
        reason: "not registered".to_owned(),
        processes: 0,
    };
    whole.missing.push(known.clone());
    let LookedAt { plan, missing, .. } = engine
        .look(&caller(Authority::All), whole, Options::default(), Policies::Ask)
        .await
        .expect("one is there");
    assert_eq!(plan.processes.len(), 1);
    let [first, second, third] = &missing[..] else { panic!("{missing:?}") };
    assert!(third.reason.contains("../../etc"), "{third:?}");
    assert_eq!(*first, known);
    assert_eq!(second.member.to_string(), "unit a");
    assert!(second.reason.contains("/numaloc-no-such"), "{second:?}");
}

#[tokio::test]
async fn a_pinned_process_is_no_other_with_its_pid() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let pid = asleep.pid();
    let named = value::Target { pids: [pid, i32::MAX].into(), ..value::Target::default() };
    let pins = engine.pin("a", &named).await.expect("readable");
    let [(named, pin)] = &pins.iter().collect::<Vec<_>>()[..] else { panic!("{pins:?}") };
    assert_eq!((**named, pin.pid), (pid, pid));
    assert_eq!(pin.boot_id, engine.boot_id().expect("readable"));
    let process = |start_time, boot_id: &str| {
        let identity = Identity { pid, start_time };
        aim(Target::Process { identity, boot_id: boot_id.to_owned() })
    };
    let all = caller(Authority::All);
    let look = async |aim| engine.look(&all, aim, Options::default(), Policies::Ask).await;
    look(process(pin.start_time, &pin.boot_id)).await.expect("it is there");
    for other in [process(pin.start_time + 1, &pin.boot_id), process(pin.start_time, "b")] {
        let refusal = look(other).await.expect_err("it is another");
        assert!(matches!(refusal, Refusal::TargetNotFound { .. }), "{refusal:?}");
    }
}

#[tokio::test]
async fn what_a_record_is_to_be_about_is_found_in_one_turn() {
    let (engine, asleep) = (engine(Roots::default()), Asleep::new());
    let pid = asleep.pid();
    let mut whole = aim_at(&asleep);
    whole.members.extend(aim(Target::Pid(i32::MAX)).members);
    let look = async |aim| {
        let (all, options) = (caller(Authority::All), Options::default());
        engine.pin_and_find(&all, aim, options, NumaBalancing::Ignore).await.expect("readable")
    };
    let (pins, found) = look(whole).await;
    assert_eq!(pins.keys().collect::<Vec<_>>(), [&pid]);
    match found {
        Ok(found) => {
            let identities = found.processes.iter().map(|process| process.pid);
            assert_eq!(identities.collect::<Vec<_>>(), [pid]);
            let reasons: Vec<_> = found.members.iter().map(|member| &*member.reason).collect();
            assert!(reasons.iter().any(|reason| reason.contains("no process")), "{reasons:?}");
        }
        // The process may run anywhere.
        Err(refusal) => assert!(matches!(refusal, Refusal::NoTargetNode { .. }), "{refusal:?}"),
    }
    let (pins, found) = look(aim(Target::Pid(i32::MAX))).await;
    assert!(pins.is_empty());
    assert!(matches!(found, Err(Refusal::TargetNotFound { .. })), "{found:?}");
}

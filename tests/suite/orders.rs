//! Tests the daemon's engine: it takes orders and sends reports.

use crate::{
    app::{Layout, until},
    scene::{SLACK, Scene},
    settings::Cgroup,
    truth::on,
};
use numaloc_api::value::{self, JobId, Outcome};
use numaloc_core::{NumaBalancing, Offload, Options, Reason};
use numaloc_dma::{Asked, Offloading};
use numaloc_engine::{
    Aim, Authority, Ended, Member, Offers, Planned, RunOrder, balancing::Balancing,
};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::{Roots, Target};
use numalocd::{
    access::Caller,
    config::{Ceilings, Role},
    engine::Engine,
    order::{EngineReport, JobOrder},
    refusal::Refusal,
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    runtime::Runtime,
    sync::{mpsc, oneshot},
};

const MIB: u64 = 1 << 20;
/// A user that owns nothing.
const NOBODY: u32 = 65534;

/// A caller with the role of an operator and this authority.
fn caller(authority: Authority) -> Caller {
    let (name, role) = ("uid:7".to_owned(), Role::Operator);
    Caller { name, gid: None, role, authority, ceilings: Ceilings::default() }
}

/// A running engine, with the channels to it.
struct Desk {
    engine: Engine,
    orders: mpsc::UnboundedSender<JobOrder>,
    reports: mpsc::UnboundedReceiver<EngineReport>,
    runtime: Runtime,
}

/// An aim with this target, and with the name that a client would use for it.
fn aim(target: Target) -> Aim {
    let name = value::Target { units: ["a.service".to_owned()].into(), ..value::Target::default() };
    Aim::of(vec![Member { target, name }])
}

/// An order that was sent.
struct Job {
    control: Arc<Control>,
    go: oneshot::Sender<()>,
}

impl Desk {
    fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (orders, ordered) = mpsc::unbounded_channel();
        let (to, reports) = mpsc::unbounded_channel();
        let balancing = Balancing::new(Roots::default());
        let offloading = Offloading::new(Roots::default());
        let engine = Engine::new(Roots::default(), balancing, offloading);
        runtime.spawn(engine.clone().serve(ordered, to));
        Self { engine, orders, reports, runtime }
    }

    fn order(&self, target: Target, limits: RunLimits, authority: Authority) -> Job {
        let (go, word) = oneshot::channel();
        let control = Arc::new(Control::default());
        let run = RunOrder {
            aim: aim(target),
            options: Options::default(),
            limits,
            authority,
            offers: Offers::default(),
            numa_balancing: NumaBalancing::Ignore,
            offload: Asked { policy: Offload::Off, rules: Default::default(), is_granted: false },
            trail: None,
            control: control.clone(),
        };
        let order = JobOrder { job: JobId::numbered(42), run, go: word };
        self.orders.send(order).expect("it is served");
        Job { control, go }
    }

    fn report(&mut self) -> EngineReport {
        let mut report = None;
        until("a report", || {
            report = self.reports.try_recv().ok();
            report.is_some()
        });
        report.expect("just waited for")
    }

    fn planned(&mut self) -> Result<Planned, Refusal> {
        match self.report() {
            EngineReport::Planned(job, planned) if job == JobId::numbered(42) => planned,
            report => panic!("{report:?}"),
        }
    }

    fn ended(&mut self) -> Outcome {
        let report = self.report();
        let EngineReport::Ended(_, Ok(Ended { outcome, .. })) = report else {
            panic!("{report:?}")
        };
        for process in &outcome.processes {
            assert!(process.account.closes(), "{process:?}");
        }
        assert_flown(&outcome);
        (*outcome).clone()
    }

    /// Sends an order, lets it move as soon as it is planned, and waits for the end.
    fn carry_out(&mut self, target: Target, limits: RunLimits) -> Outcome {
        let job = self.order(target, limits, Authority::All);
        self.planned().expect("a plan");
        job.go.send(()).expect("it waits");
        self.ended()
    }

    /// Closes the channel for orders. Checks that no report is left.
    fn close(self) {
        let Self { orders, mut reports, engine: _, runtime } = self;
        drop(orders);
        let rest = runtime.block_on(reports.recv());
        assert!(rest.is_none(), "{rest:?}");
    }
}

fn target(scene: &Scene) -> Target {
    scene.target()[0].clone()
}

/// Small batches, so that there is time to act in the middle of the run.
fn small() -> RunLimits {
    RunLimits { batch_bytes: Some(256 << 10), ..RunLimits::default() }
}

fn assert_flown(outcome: &Outcome) {
    let flown: u64 = outcome.flows.values().sum();
    assert_eq!(flown, outcome.account().moved_bytes(), "{outcome:?}");
}

#[test]
fn an_order_is_planned_and_on_the_word_carried_out() {
    let (mut desk, scene) = (Desk::new(), Scene::remote(&["anon:64M"]));
    let job = desk.order(target(&scene), RunLimits::default(), Authority::All);
    let planned = desk.planned().expect("a plan");
    assert_eq!(planned.nothing, None);
    assert!(planned.planned_bytes >= 64 * MIB && planned.local_percent < 50.0, "{planned:?}");
    assert_eq!((planned.found.processes.len(), planned.found.nodes.to_string()), (1, "0".into()));
    scene.assert_on("anon", 1, 64 * MIB);

    job.go.send(()).expect("it waits");
    let outcome = desk.ended();
    scene.assert_on("anon", 0, 64 * MIB);
    assert!(outcome.account().moved_bytes() >= 64 * MIB && !outcome.is_partial(), "{outcome:?}");
    assert_eq!(outcome.account().moved_bytes(), job.control.moved_bytes.load(Relaxed));
    assert!(outcome.before.movable.percent() < 50.0, "{outcome:?}");
    assert!(outcome.after.expect("it lives").movable.percent() > 99.0, "{outcome:?}");
    assert_eq!(outcome.calls.times.iter().sum::<u64>(), outcome.calls.calls);
    desk.close();
    scene.finish();
}

#[test]
fn a_cancelled_order_is_continued_by_another() {
    let (mut desk, scene) = (Desk::new(), Scene::remote(&["anon:128M"]));
    let before = scene.truth().all();
    let job = desk.order(target(&scene), small(), Authority::All);
    desk.planned().expect("a plan");
    job.go.send(()).expect("it waits");
    until("something has moved", || job.control.moved_bytes.load(Relaxed) > 0);
    job.control.cancel.store(true, Relaxed);
    let first = desk.ended();
    assert!(first.is_partial() && first.account().left_for(Reason::Cancelled) > 0, "{first:?}");

    let joined = first.continued_by(&desk.carry_out(target(&scene), RunLimits::default()));
    assert_flown(&joined);
    let account = joined.account();
    assert!(account.closes() && !joined.is_partial(), "{account:?}");
    assert_eq!((account.left_for(Reason::Cancelled), joined.processes.len()), (0, 1));
    scene.assert_on("anon", 0, 128 * MIB);
    let gone = on(&before, 1) - on(&scene.truth().all(), 1);
    assert!(account.moved_bytes().abs_diff(gone) <= SLACK, "{gone} moved, {account:?}");
    // Each byte counts once, however many legs of the job have seen it.
    assert!(account.found_bytes().abs_diff(on(&before, 1)) <= SLACK, "{account:?}");
    assert_eq!(joined.before, first.before);
    assert!(joined.elapsed > first.elapsed && joined.calls.calls > first.calls.calls);
    desk.close();
    scene.finish();
}

#[test]
fn a_rate_is_kept() {
    let (mut desk, scene) = (Desk::new(), Scene::remote(&["anon:32M"]));
    let rate = 8 * MIB;
    let limits = RunLimits { rate_bytes_per_second: Some(rate), ..RunLimits::default() };
    let outcome = desk.carry_out(target(&scene), limits);
    scene.assert_on("anon", 0, 32 * MIB);
    assert!(!outcome.is_partial(), "{outcome:?}");
    let least = outcome.account().moved_bytes() as f64 / rate as f64;
    let took = outcome.elapsed.as_secs_f64();
    assert!(took >= least, "{took} s instead of {least} s or more");
    println!("{took:.2} s, at the rate exactly {least:.2} s");
    desk.close();
    scene.finish();
}

#[test]
fn neither_a_cancelled_order_nor_one_out_of_time_waits_for_its_rate() {
    let (mut desk, scene) = (Desk::new(), Scene::remote(&["anon:32M"]));
    // At this rate it would take more than two hours.
    let slow = RunLimits { rate_bytes_per_second: Some(4096), ..RunLimits::default() };
    let job = desk.order(target(&scene), slow.clone(), Authority::All);
    desk.planned().expect("a plan");
    job.go.send(()).expect("it waits");
    until("something has moved", || job.control.moved_bytes.load(Relaxed) > 0);
    job.control.cancel.store(true, Relaxed);
    let cancelled = desk.ended().account();
    assert!(cancelled.left_for(Reason::Cancelled) > 31 * MIB, "{cancelled:?}");

    let brief = RunLimits { timeout: Some(Duration::from_millis(300)), ..slow };
    let late = desk.carry_out(target(&scene), brief).account();
    assert!(late.left_for(Reason::OutOfTime) > 31 * MIB, "{late:?}");
    assert_eq!(scene.nodes("anon").values().sum::<u64>(), 32 * MIB);
    desk.close();
    scene.finish();
}

#[test]
fn an_order_that_is_dropped_moves_nothing() {
    let (mut desk, scene) = (Desk::new(), Scene::remote(&["anon:32M"]));
    let job = desk.order(target(&scene), RunLimits::default(), Authority::All);
    assert!(desk.planned().expect("a plan").planned_bytes >= 32 * MIB);
    drop(job);
    desk.close();
    scene.assert_on("anon", 1, 32 * MIB);
    scene.finish();
}

#[test]
fn memory_of_others_is_neither_found_nor_moved() {
    let (mut desk, scene) = (Desk::new(), Scene::remote(&["anon:32M"]));
    let nobody =
        Authority::Of { uid: Some(NOBODY), cgroups: vec!["/numaloc-none".into()], files: vec![] };
    let caller = caller(nobody.clone());
    let find = desk.engine.find(&caller, aim(target(&scene)), Options::default());
    let refusal = desk.runtime.block_on(find).expect_err("it is root's");
    assert!(matches!(refusal, Refusal::NotPermitted { .. }), "{refusal:?}");
    let job = desk.order(target(&scene), RunLimits::default(), nobody);
    let refusal = desk.planned().expect_err("it is root's");
    assert!(matches!(refusal, Refusal::NotPermitted { .. }), "{refusal:?}");
    until("no order waits for its go", || job.go.is_closed());
    desk.close();
    scene.assert_on("anon", 1, 32 * MIB);
    scene.finish();
}

#[test]
fn a_cgroup_that_was_given_may_be_moved() {
    let cgroup = Cgroup::new("orders");
    let (mut desk, scene) =
        (Desk::new(), Scene::of(Layout::remote(&["anon:32M"]).within(cgroup.path())));
    let given = Authority::Of { uid: None, cgroups: vec!["/numaloc-orders".into()], files: vec![] };
    let caller = caller(given.clone());
    let find = desk.engine.find(&caller, aim(cgroup.target()), Options::default());
    let found = desk.runtime.block_on(find).expect("it may");
    assert_eq!((found.processes.len(), found.nodes.to_string()), (1, "0".into()));
    let job = desk.order(cgroup.target(), RunLimits::default(), given);
    assert_eq!(desk.planned().expect("a plan").found.bare(), found.bare());
    job.go.send(()).expect("it waits");
    desk.ended();
    scene.assert_on("anon", 0, 32 * MIB);
    desk.close();
    drop(scene.finish());
}

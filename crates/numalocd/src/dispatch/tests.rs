//! The dispatcher with a real store, and an engine that the tests play themselves.

mod accounts;
mod bounds;
mod budget;
mod classes;
mod contests;
mod declared;
mod deleted;
mod files;
mod groups;
mod holds;
mod jobs;
mod joined;
mod limits;
mod members;
mod model;
mod offload;
mod partners;
mod queue;
mod reads;
mod relief;
mod resting;
mod results;
mod schedules;
mod standing;
mod stops;
mod suspects;
mod tenants;
mod working;
mod workloads;

use super::{
    Dispatcher, Ears, Edges, Handle, Listed, Lookup, Measured, Probe, ProbeAnswer, Records, start,
};
use crate::{
    access::Caller,
    accounts::Accounts,
    config::{Ceilings, Config, Grant, Grantee, Role},
    order::{EngineReport, JobOrder},
    refusal::Refusal,
    store::{DiskFault, Store},
};
use numaloc_api::{
    Stored,
    encoded::{Encoded, ListedJob},
    v1,
    value::{
        CreateJob, Event, EventFilter, Job, JobFilter, JobId, JobState, ListEvents, ListJobs,
        MigrationSpec, OnConflict, Outcome, Page, Pins, PlanSummary, ProcessOutcome, Target,
        TargetProcess,
    },
};
use numaloc_core::{Account, Identity, Locality, NodeId, NodeSet, Options, Reason, Share, planner};
use numaloc_engine::{Authority, Ended, FoundTarget, Planned, Returned, Trail};
use numaloc_executor::Control;
use prost::Message;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};
use tempfile::TempDir;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

/// A dispatcher and both ends of its channels.
pub struct Rig {
    pub handle: Handle,
    pub orders: mpsc::UnboundedReceiver<JobOrder>,
    pub reports: mpsc::UnboundedSender<EngineReport>,
    pub probes: mpsc::UnboundedReceiver<Probe>,
    pub probed: mpsc::UnboundedSender<ProbeAnswer>,
    pub lookups: mpsc::UnboundedReceiver<Lookup>,
    pub looked_up: mpsc::UnboundedSender<(JobId, Option<FoundTarget>)>,
    pub config: watch::Sender<Arc<Config>>,
    pub commits: Arc<AtomicU64>,
    /// Makes a later operation on the disk fail.
    pub fail: Box<dyn Fn(DiskFault) + Send + Sync>,
    pub accounts: Accounts,
    pub task: JoinHandle<()>,
}

impl Rig {
    /// On a state directory, with the default configuration.
    pub fn at(dir: &TempDir) -> Self {
        Self::with(dir, Config::default())
    }

    pub fn with(dir: &TempDir, config: Config) -> Self {
        Self::by(dir, config, SystemTime::now)
    }

    /// A dispatcher that reads another wall clock.
    pub fn by(dir: &TempDir, config: Config, clock: fn() -> SystemTime) -> Self {
        Self::telling(dir, config, clock, Vec::new())
    }

    /// With news of the host when it begins.
    pub fn telling(
        dir: &TempDir,
        mut config: Config,
        clock: fn() -> SystemTime,
        news: Vec<(numaloc_api::value::EventType, String)>,
    ) -> Self {
        if config.grants.is_empty() {
            config.grants = grants();
        }
        let (store, contents) = Store::open(dir.path()).expect("the store opens");
        let (orders_in, orders) = mpsc::unbounded_channel();
        let (reports, reports_out) = mpsc::unbounded_channel();
        let (probes_in, probes) = mpsc::unbounded_channel();
        let (probed, probed_out) = mpsc::unbounded_channel();
        let (lookups_in, lookups) = mpsc::unbounded_channel();
        let (looked_up, looked_up_out) = mpsc::unbounded_channel();
        let config = watch::Sender::new(Arc::new(config));
        let (commits, fail) = (Arc::new(AtomicU64::new(0)), store.failing());
        let counted = commits.clone();
        let edges = Edges {
            config: config.subscribe(),
            orders: orders_in,
            probes: probes_in,
            lookups: lookups_in,
            measured: Box::new(move |measured| {
                if matches!(measured, Measured::Commit { .. }) {
                    counted.fetch_add(1, Relaxed);
                }
            }),
            tell: Box::new(|_| ()),
            clock,
        };
        let accounts = Accounts::new(config.subscribe());
        let records = Records::new(store, contents, accounts.clone());
        let dispatcher = Dispatcher::new(edges, records).telling(news);
        let ears = Ears { reports: reports_out, probed: probed_out, looked_up: looked_up_out };
        let (handle, task) = start(dispatcher, ears, (Box::new(|| ()), Duration::from_secs(60)));
        let task = tokio::spawn(task);
        Self {
            handle,
            orders,
            reports,
            probes,
            probed,
            lookups,
            looked_up,
            config,
            commits,
            fail,
            accounts,
            task,
        }
    }

    /// Creates a job of `admin` for these pids.
    pub async fn create(&self, pids: &[i32], nodes: &str) -> JobId {
        let created =
            self.handle.create_job(admin(), request(pids), pins(pids), found(pids, nodes)).await;
        created.expect("it is taken").0.id.clone()
    }

    /// Waits for the next order.
    pub async fn order(&mut self) -> JobOrder {
        self.orders.recv().await.expect("an order")
    }

    /// Creates a job, and plays the engine until it is ordered to move.
    pub async fn moving(&mut self, pids: &[i32], nodes: &str) -> (JobId, Arc<Control>) {
        let id = self.create(pids, nodes).await;
        let order = self.order().await;
        self.planned(&order, pids, nodes);
        (id, told(order).await)
    }

    /// Asserts that no order comes. The clock of these tests is paused: it moves only when no task has anything else to
    /// do.
    pub async fn assert_no_order(&mut self) {
        let waited = tokio::time::timeout(Duration::from_millis(1), self.orders.recv()).await;
        assert!(waited.is_err(), "{waited:?}");
    }

    /// Plays the engine: plans an order.
    pub fn planned(&self, order: &JobOrder, pids: &[i32], nodes: &str) {
        self.report(EngineReport::Planned(order.job.clone(), Ok(planned(pids, nodes))));
    }

    pub fn report(&self, report: EngineReport) {
        self.reports.send(report).expect("the dispatcher is there");
    }

    /// Waits for a job to be in a state.
    pub async fn reaches(&self, id: &JobId, state: JobState) -> Arc<Job> {
        let mut watch = self.handle.watch_job(id.clone()).await.expect("the job is there");
        loop {
            let job = decoded::<Job>(&watch.borrow_and_update().encoded());
            if job.state == state {
                return job;
            }
            let changed = tokio::time::timeout(Duration::from_secs(30), watch.changed()).await;
            assert!(
                matches!(changed, Ok(Ok(()))),
                "{id} stays {:?}: {}",
                job.state,
                job.state_message
            );
        }
    }

    /// The only job, as lists show it.
    pub async fn only_listed(&self) -> Job {
        let page = Page { size: 100, token: None };
        let all = ListJobs { filter: JobFilter::default(), page };
        let listed = self.handle.list::<Job>(all).await.expect("a list");
        let [job] = listed_jobs(&listed).try_into().expect("one job");
        job
    }

    /// Stops the dispatcher and waits for its end.
    pub async fn stop(self) {
        self.handle.stop().await;
        self.task.await.expect("it ends");
    }

    /// Ends the dispatcher as SIGKILL does: it cannot do anything more.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Waits until an order is ordered to move. Gives back the control that can cancel it.
pub async fn told(order: JobOrder) -> Arc<Control> {
    order.go.await.expect("it is ordered to move");
    order.run.control
}

/// The operators in these tests may have everything moved, except uid 9, which has no grant.
fn grants() -> Vec<Grant> {
    let to = |uid| Grant {
        to: Grantee::Uid(uid),
        role: Role::Operator,
        cgroups: vec!["/".to_owned()],
        files: Vec::new(),
        ceilings: Ceilings::NONE,
    };
    [7, 1000, 1001].map(to).into()
}

pub fn caller(name: &str, role: Role) -> Caller {
    Caller {
        name: name.to_owned(),
        gid: None,
        role,
        authority: Authority::All,
        ceilings: crate::config::Ceilings::NONE,
    }
}

pub fn admin() -> Caller {
    caller("uid:0", Role::Admin)
}

pub fn operator() -> Caller {
    caller("uid:1000", Role::Operator)
}

pub fn target(pids: &[i32]) -> Target {
    Target { pids: pids.iter().copied().collect(), ..Target::default() }
}

pub fn request(pids: &[i32]) -> CreateJob {
    let spec = MigrationSpec { target: target(pids), ..MigrationSpec::default() };
    CreateJob { spec, ..CreateJob::default() }
}

pub fn identity(pid: i32) -> Identity {
    Identity { pid, start_time: 1 }
}

/// The processes that have these pids, in the boot of these tests.
pub fn pins(pids: &[i32]) -> Pins {
    let pin = |&pid: &i32| (pid, TargetProcess { pid, start_time: 1, boot_id: "b".to_owned() });
    pids.iter().map(pin).collect()
}

pub fn found(pids: &[i32], nodes: &str) -> FoundTarget {
    let nodes: NodeSet = nodes.parse().expect("nodes");
    let processes = Arc::new(pids.iter().map(|&pid| identity(pid)).collect());
    FoundTarget { processes, nodes, ..FoundTarget::default() }
}

pub fn planned(pids: &[i32], nodes: &str) -> Planned {
    let topology = numaloc_core::Topology::new([], []);
    let scene =
        planner::Scene { topology: &topology, processes: &[], caller_mems: &NodeSet::new() };
    let plan = planner::plan(scene, Vec::new(), &Options::default());
    Planned {
        summary: Arc::new(PlanSummary::from(&plan)),
        found: found(pids, nodes),
        planned_bytes: 4096,
        local_percent: 50.0,
        nothing: None,
        note: None,
        returned: None,
    }
}

fn locality(local_bytes: u64, remote_bytes: u64) -> Locality {
    let share = Share { local_bytes, remote_bytes, ..Share::default() };
    Locality { movable: share, overall: share }
}

/// An outcome in which `moved` bytes were moved and `left` were left for a reason.
pub fn outcome(moved: u64, left: Option<(Reason, u64)>) -> Ended {
    let mut account = Account::default();
    account.found(moved + left.map_or(0, |(_, bytes)| bytes));
    account.moved(moved);
    left.into_iter().for_each(|(reason, bytes)| account.left(reason, bytes));
    // Only bytes left for a shortfall are movable. Pages that processes outside of the target map, too, are not.
    let remote = left.filter(|(reason, _)| reason.is_shortfall()).map_or(0, |(_, bytes)| bytes);
    let outcome = Outcome {
        processes: vec![ProcessOutcome {
            identity: identity(1),
            comm: "app".into(),
            account,
            error: None,
        }],
        flows: [((NodeId(1), NodeId(0)), moved)].into(),
        before: locality(8192, moved + remote),
        after: Some(locality(8192 + moved, remote)),
        ..Outcome::default()
    };
    Ended { outcome: Arc::new(outcome), members: Vec::new(), trail: None }
}

/// An outcome in which `moved` bytes were moved and none were left, but `remote` bytes are remote afterwards all the
/// same.
pub fn late(moved: u64, remote: u64) -> Ended {
    let Ended { outcome, members, trail } = outcome(moved, None);
    let after = Some(locality(8192 + moved, remote));
    let outcome = Arc::new(Outcome { after, ..Outcome::clone(&outcome) });
    Ended { outcome, members, trail }
}

/// Answers as a client decodes them.
impl Handle {
    pub async fn get_job(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        Ok(decoded(&self.whole_job(id).await?))
    }

    pub async fn find_request(
        &self,
        caller: Caller,
        request: CreateJob,
    ) -> Result<Option<Arc<Job>>, Refusal> {
        let earlier = self.earlier_job(caller, request).await?;
        Ok(earlier.map(|(id, job)| {
            let job: Arc<Job> = decoded(&job);
            assert_eq!(job.id, id);
            job
        }))
    }

    pub async fn events_after(
        &self,
        filter: EventFilter,
        after: u64,
        most: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Refusal> {
        let (events, seen) = self.whole_events_after(filter, after, most).await?;
        Ok((events.iter().map(decoded).collect(), seen))
    }

    pub async fn list_events(&self, request: ListEvents) -> Result<Listed<Arc<Event>>, Refusal> {
        let Listed { entries, next } = self.whole_event_list(request).await?;
        Ok(Listed { entries: entries.iter().map(decoded).collect(), next })
    }
}

fn decoded<R: Stored>(record: &Encoded<R>) -> Arc<R> {
    Arc::new(record.decode().expect("a record"))
}

/// The jobs of a list, as a client decodes them.
pub fn listed_jobs(listed: &Listed<ListedJob>) -> Vec<Job> {
    let read = |job: &ListedJob| v1::Job::decode(job.as_ref()).expect("a message").try_into();
    listed.entries.iter().map(|job| read(job).expect("a job")).collect()
}

pub fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Asserts that an answer is a refusal that matches the pattern.
macro_rules! assert_refused {
    ($answer:expr, $pattern:pat $(if $guard:expr)?) => {
        match $answer {
            Err($pattern) $(if $guard)? => {}
            other => panic!("not refused as it should be: {other:?}"),
        }
    };
}
pub(crate) use assert_refused;

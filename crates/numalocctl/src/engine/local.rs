//! This process as the engine, for its own host.

use super::{Engine, Migrated, Next, OwnWork, VIEW_TICK};
use crate::{
    args::{MigrateArgs, OptionArgs, PlanArgs},
    check::BALANCING_ADVICE,
    exit::Failure,
    output::{announced, complain},
    picture::{self, MoveMap},
    progress::{ProgressDisplay, Wish},
    signals,
};
use numaloc_api::{
    v1,
    value::{JobId, JobProgress, MigrationSpec, Missing, Target},
};
use numaloc_core::{NodeSet, Options, Pacing};
use numaloc_dma::{Asked, Dma};
use numaloc_engine::{
    Advised, Aim, Authority, Ended, Error, Local, Look, LookedAt, Members, MoverGroup, Offer,
    Offers, OffloadAccess, Planned, PlannedRun, RunOrder, balancing::Balancing,
};
use numaloc_executor::{Control, Party, RunLimits, TierWays};
use numaloc_host::{Error as HostError, Policies, Roots, Viewer, boot_id, topology};
use std::{
    cell::OnceCell,
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, SystemTime},
};

/// Time between two looks at a run.
const TICK: Duration = Duration::from_millis(100);

/// This process, for its own host. It changes no settings of the host: nothing would put them back if it were killed.
#[derive(Clone, Debug)]
pub struct LocalEngine {
    local: Local,
    /// The machine as its last look has found it, which takes longer than a small look.
    machine: OnceCell<v1::Topology>,
    /// The migrations for views.
    work: OwnWork,
}

struct Started {
    run: PlannedRun,
    planned: Planned,
    order: RunOrder,
}

impl LocalEngine {
    /// An engine for the host with these roots.
    pub fn new(roots: Roots) -> Self {
        let local = Local {
            balancing: Balancing::new(roots.clone()),
            roots,
            offload: OffloadAccess::Observed,
            mover_group: MoverGroup::Disabled,
            words: Error::to_string,
            makes_no_room: |partner, why| complain(&format!("makes no room: {partner}: {why}")),
            tier_ways: TierWays::default(),
        };
        Self { local, machine: OnceCell::new(), work: OwnWork::default() }
    }

    /// The same, where views show its migrations as part of this work.
    pub fn with_work(self, work: OwnWork) -> Self {
        Self { work, ..self }
    }

    /// Looks at a target, or at all processes of the host, and decides what would help.
    ///
    /// # Errors
    /// The target is not found, or names what only the daemon knows; the host cannot be read.
    pub fn advise(
        &self,
        target: Option<&Target>,
        interval: Duration,
        min_bytes: u64,
    ) -> Result<Advised, Failure> {
        let aim = target.map(aim).transpose()?;
        let begun = self.local.begin_advice(aim, interval, min_bytes, &|| false)?;
        thread::sleep(interval);
        Ok(begun.end(&|| false, &self.local.roots)?)
    }

    /// Plans a migration, and holds its processes open.
    ///
    /// # Errors
    /// The target is not found or may not be read, or nothing can move on this host.
    fn start(&self, spec: &MigrationSpec, exchange_with: &[Target]) -> Result<Started, Failure> {
        let options = options(spec);
        let order = RunOrder {
            aim: aim(&spec.target)?,
            limits: limits(spec),
            authority: Authority::All,
            offers: offers(spec, exchange_with, &options.pacing),
            numa_balancing: spec.policy.numa_balancing,
            offload: Asked {
                policy: spec.policy.offload,
                rules: Dma::default(),
                is_granted: false,
            },
            trail: None,
            control: Arc::new(Control::default()),
            options,
        };
        self.announce(&order.options)?;
        let (run, planned) = self.local.plan(&order).map_err(failed)?;
        if let Some(memory) = run.memory() {
            topology::check_several(&memory.topology)?;
        }
        Ok(Started { run, planned, order })
    }

    /// Opens the processes of a target for a picture with this number of cells in a row. The picture scans them itself,
    /// so there is no plan. Also returns the members of the target that are left out.
    ///
    /// # Errors
    /// The target is not found or may not be read.
    pub fn viewer(
        &self,
        target: &Target,
        cells: u64,
        exact: bool,
    ) -> Result<(Viewer<'_>, Vec<Missing>), Failure> {
        let (topology, aim, roots) = (self.local.topology()?, aim(target)?, &self.local.roots);
        let members = Members::look(&self.local, &aim, &topology, &Authority::All, &|| false)?;
        let (processes, options) = (members.processes().cloned().collect(), Options::default());
        let viewer = Viewer::open(roots, &topology, processes, &options, cells, exact)?;
        Ok((viewer, members.missing()))
    }

    /// Says how long memory is watched for these options, if this host can do what they ask for.
    fn announce(&self, options: &Options) -> Result<(), Failure> {
        if !options.placement.watching().is_zero() {
            topology::check_options(&self.local.roots, &self.local.topology()?, options)?;
            announced(&options.placement);
        }
        Ok(())
    }

    fn look<T>(
        &self,
        target: &Target,
        options: &Options,
        policies: Policies<'_>,
        look: impl FnOnce(Look<'_>) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let (aim, authority) = (aim(target)?, &Authority::All);
        look(Look { local: &self.local, aim: &aim, options, authority, policies }).map_err(failed)
    }
}

impl Started {
    /// Moves, in a thread, and looks again. `look` is called every `tick` until that has ended. `None`: no process can
    /// be moved.
    ///
    /// # Errors
    /// The host cannot be read.
    fn execute(
        &mut self,
        tick: Duration,
        mut look: impl FnMut(&Control),
    ) -> Result<Option<Ended>, Failure> {
        if self.run.memory().is_some_and(|memory| memory.plan.is_skipped()) {
            return Ok(None);
        }
        let Self { run, order, .. } = self;
        let order = &*order;
        let ended = watched(tick, || look(&order.control), move || run.execute(order));
        Ok(Some(ended?))
    }
}

impl Engine for LocalEngine {
    fn via(&self) -> String {
        "this process".to_owned()
    }

    fn topology(&self) -> Result<v1::GetTopologyResponse, Failure> {
        let topology = match self.machine.get() {
            Some(machine) => machine.clone(),
            None => (&topology::by_hwloc(&self.local.roots)?).into(),
        };
        Ok(v1::GetTopologyResponse { topology: Some(topology) })
    }

    fn contents(&self, nodes: &NodeSet) -> Result<v1::GetNodeContentsResponse, Failure> {
        let nodes = self.local.contents(nodes)?.iter().map(Into::into).collect();
        Ok(v1::GetNodeContentsResponse { nodes })
    }

    fn best_effort(&self) -> Result<Vec<String>, Failure> {
        let message = "no target: without the daemon no best-effort work is registered: name it, for example with --cgroup";
        Err(Failure::Usage(message.into()))
    }

    fn boot_id(&self) -> Result<String, Failure> {
        Ok(boot_id(&self.local.roots)?)
    }

    fn with_memory_for(&self, options: &OptionArgs) -> Result<NodeSet, Failure> {
        match options.needs_topology() {
            true => Ok(self.local.topology()?.with_memory()),
            false => Ok(NodeSet::new()),
        }
    }

    fn check(&self, args: &PlanArgs) -> Result<(), Failure> {
        args.check_here()
    }

    fn locality(
        &self,
        target: &Target,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<v1::GetLocalityResponse, Failure> {
        let (options, policies) = (Options::default(), Policies::Leave);
        let looked = self.look(target, &options, policies, |look| look.locality(stop))?;
        self.machine.get_or_init(|| (&looked.topology).into());
        Ok(looked.locality())
    }

    fn plan(
        &self,
        spec: &MigrationSpec,
        exchange_with: &[Target],
    ) -> Result<v1::PlanMigrationResponse, Failure> {
        let (options, policies) = (options(spec), Policies::AskBriefly);
        let offers = offers(spec, exchange_with, &options.pacing);
        self.announce(&options)?;
        let looked: LookedAt =
            self.look(&spec.target, &options, policies, |look| look.plan(&offers, &|| false))?;
        self.machine.get_or_init(|| (&looked.topology).into());
        let answer = looked.planned(&spec.policy);
        let plan = answer.plan.map(|plan| plan.with_extents(&looked.plan));
        Ok(v1::PlanMigrationResponse { plan, ..answer })
    }

    fn advice(
        &self,
        target: Option<&Target>,
        interval: Duration,
        min_bytes: u64,
    ) -> Result<v1::GetAdviceResponse, Failure> {
        let advised = self.advise(target, interval, min_bytes)?;
        Ok(advised.answer(&advised.findings))
    }

    fn migrate(&self, args: &MigrateArgs) -> Result<Migrated, Failure> {
        args.plan.check_here()?;
        if args.validate_only {
            return Err(Failure::NeedsDaemon { option: "--validate-only" });
        }
        let is_of_files = args.plan.files.is_given();
        if is_of_files {
            args.check_files()?;
        }
        let file = picture::file(args.draw.draw.as_deref())?;
        let spec = args.plan.spec(&self.with_memory_for(&args.plan.options)?)?;
        let mut started = self.start(&spec, &args.plan.exchange.exchange_with)?;
        match &started.planned.note {
            None => {}
            Some(note) if is_of_files => complain(note),
            Some(_) => complain(&format!(
                "warning: kernel.numa_balancing is on: {BALANCING_ADVICE} (--numa-balancing ignore keeps quiet about it)"
            )),
        }
        let memory = started.run.memory();
        let look = |(file, memory)| MoveMap::before(&self.local.roots, memory, file, &args.draw);
        let picture = file.zip(memory).map(look).transpose()?;
        let interrupted = signals::interrupted()?;
        let mut progress =
            ProgressDisplay::new(Wish::from(args.plan.progress), started.planned.planned_bytes);
        let ended = started.execute(TICK, |control| {
            if interrupted.load(Relaxed) {
                control.cancel.store(true, Relaxed);
            }
            progress.update(control.settled_bytes.load(Relaxed), &control.held_back());
        });
        progress.finish();
        let ended = ended?;
        if let Some(picture) = picture {
            picture.after();
        }
        Ok(Migrated::Ended(Box::new(started.planned.job(&spec, ended.as_ref()))))
    }

    fn run(
        &self,
        spec: &MigrationSpec,
        look: &mut dyn FnMut(&v1::Job) -> Next,
    ) -> Result<Option<v1::Job>, Failure> {
        let mut started = self.start(spec, &[])?;
        let planned_bytes = started.planned.planned_bytes;
        let shown = self.work.begin(started.planned.found.processes.clone());
        let ended = started.execute(VIEW_TICK, |control| {
            let progress = progress(control, planned_bytes);
            shown.reach(progress.clone());
            if look(&moving(progress)) != Next::Continue {
                control.cancel.store(true, Relaxed);
            }
        })?;
        if let Some(outcome) = ended.as_ref().map(|ended| &ended.outcome) {
            shown.moved(outcome.account().moved_bytes(), &outcome.flows);
        }
        Ok(Some(started.planned.job(spec, ended.as_ref())))
    }

    fn job(&self, _: &JobId) -> Result<v1::Job, Failure> {
        Err(NO_RECORDS)
    }

    fn cancel_job(&self, _: &JobId) -> Result<(), Failure> {
        Err(NO_RECORDS)
    }
}

const NO_RECORDS: Failure = Failure::NeedsDaemon { option: "a job" };

fn progress(control: &Control, planned_bytes: u64) -> JobProgress {
    JobProgress {
        planned_bytes,
        moved_bytes: control.moved_bytes.load(Relaxed),
        settled_bytes: control.settled_bytes.load(Relaxed),
        held_back: control.held_back(),
        measured: SystemTime::now(),
    }
}

/// A run of this process as a job.
fn moving(progress: JobProgress) -> v1::Job {
    let progress = Some(progress.into());
    v1::Job { state: v1::JobState::Running.into(), progress, ..v1::Job::default() }
}

/// The aim of a target without registered workloads.
///
/// # Errors
/// It names records that only the daemon knows.
fn aim(target: &Target) -> Result<Aim, Failure> {
    let registered = [
        ("--selector", target.labels.requirements.is_empty()),
        ("--namespace", target.labels.namespace.is_none()),
        ("--workloads-of", target.workload_creators.is_empty()),
    ];
    match registered.into_iter().find(|(_, is_empty)| !is_empty) {
        Some((option, _)) => Err(Failure::NeedsDaemon { option }),
        None => Ok(Aim::unregistered(target)),
    }
}

fn failed(error: Error) -> Failure {
    match error.of_host() {
        Some(HostError::BadGoal(bad)) => Failure::no_goal(bad),
        _ => error.into(),
    }
}

fn options(spec: &MigrationSpec) -> Options {
    let options = spec.policy.options.clone();
    Options { pacing: Pacing { workers: spec.limits.workers, ..options.pacing }, ..options }
}

fn limits(spec: &MigrationSpec) -> RunLimits {
    RunLimits {
        batch_bytes: spec.limits.batch_bytes,
        timeout: spec.limits.timeout,
        budget_bytes: spec.limits.hourly_budget_bytes,
        rate_bytes_per_second: spec.limits.rate_bytes_per_second,
        ..RunLimits::default()
    }
}

/// The members of `exchange_with`, which may make room.
fn offers(spec: &MigrationSpec, exchange_with: &[Target], pacing: &Pacing) -> Offers {
    let members = exchange_with.iter().flat_map(|target| Aim::unregistered(target).members);
    let workloads = members.map(|member| Offer { member, by: Authority::All }).collect();
    Offers { workloads, limits: limits(spec).best_effort(pacing) }
}

/// Runs `work` in a thread, and calls `look` every `tick` until that has ended.
fn watched<T: Send>(tick: Duration, mut look: impl FnMut(), work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            // Dropped at the end of this closure, also after a panic. This wakes the loop below at once.
            let _done = done;
            work()
        });
        while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
            look();
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

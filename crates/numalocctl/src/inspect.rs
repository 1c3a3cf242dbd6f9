//! From a target to a plan, to a run, or to a picture: what `locality`, `plan`, `migrate` and `top` share.

use crate::{
    args::{OptionArgs, TargetArgs, name_of},
    exit::Failure,
};
use numaloc_api::{
    LocalityView, v1,
    value::{FoundAt, FoundMember, Missing, Policy},
};
use numaloc_core::{
    NodeSet, Offload, OffloadUse, Options, Plan, PlannedCell, Topology, live::CountedMemory,
};
use numaloc_dma::kernel;
use numaloc_executor::{Control, Migration, Outcome, PlannedMigration, RunLimits};
use numaloc_host::{
    Error, Found, LeftOut, Policies, Resolved, Roots, Source, Target, Viewer, resolve, topology,
};
use std::{
    sync::{mpsc, mpsc::RecvTimeoutError},
    thread,
    time::{Duration, SystemTime},
};

/// A target with the machine around it.
#[derive(Debug)]
pub struct Inspection {
    pub topology: Topology,
    pub plan: Plan,
    /// How page locations were found.
    pub source: Source,
    /// What of the target is left out.
    pub missing: Vec<Missing>,
    /// Where members of the target were found that had to be looked up.
    pub found: Vec<FoundMember>,
}

impl From<PlannedMigration<Resolved>> for Inspection {
    fn from(
        PlannedMigration { topology, plan, survey, party, .. }: PlannedMigration<Resolved>,
    ) -> Self {
        let missing = missing_of(&party.targets, &party.missing);
        let found = found(&party);
        Self { topology, plan, source: survey.page_access.source, missing, found }
    }
}

impl Inspection {
    /// Where the memory of the target is, with the kernel's counts for the named cgroups.
    pub fn locality(&self, cgroups: &[(String, CountedMemory)]) -> v1::GetLocalityResponse {
        let view = LocalityView { plan: &self.plan, time: SystemTime::now() };
        let cgroup = |(path, nodes): &(String, CountedMemory)| {
            v1::CgroupMemory::new(path, nodes, self.common_home())
        };
        let locality = v1::Locality {
            source: page_source(self.source).into(),
            cgroups: cgroups.iter().map(cgroup).collect(),
            ..view.into()
        };
        v1::GetLocalityResponse {
            locality: Some(locality),
            missing: self.missing(),
            found: self.found(),
        }
    }

    /// What a migration would do.
    pub fn plan(&self) -> v1::PlanMigrationResponse {
        let source = page_source(self.source).into();
        let plan = v1::Plan { source, ..v1::Plan::with_extents(&self.plan) };
        let policy = Policy { options: self.plan.options.clone(), ..Policy::default() };
        v1::PlanMigrationResponse {
            plan: Some(plan),
            missing: self.missing(),
            policy: Some((&policy).into()),
            found: self.found(),
        }
    }

    fn found(&self) -> Vec<v1::FoundMember> {
        self.found.iter().map(Into::into).collect()
    }

    fn missing(&self) -> Vec<v1::MissingMember> {
        self.missing.iter().map(Into::into).collect()
    }

    /// The home of all processes if they have the same one, and no memory with another one.
    fn common_home(&self) -> Option<&NodeSet> {
        let has_own = |cell: &PlannedCell| !cell.home.is_empty();
        if self.plan.processes.iter().flat_map(|process| &process.cells).any(has_own) {
            return None;
        }
        let mut homes = self.plan.processes.iter().map(|process| &process.home);
        let first = homes.next()?;
        homes.all(|home| home == first).then_some(first)
    }
}

fn page_source(source: Source) -> v1::PageSource {
    match source {
        Source::Pagemap => v1::PageSource::Pagemap,
        Source::Query => v1::PageSource::MovePages,
    }
}

/// Plans to move a target, with at most `workers` threads if there is a number.
///
/// # Errors
/// The target is not found or may not be read. If it is: the memory of this machine cannot move anywhere.
pub fn to_move(
    roots: &Roots,
    target: &TargetArgs,
    (options, workers): (&OptionArgs, Option<usize>),
    policies: Policies<'_>,
) -> Result<PlannedMigration<Resolved>, Failure> {
    // Before the host is scanned: members that only the daemon knows are found on no machine.
    target.targets()?;
    let migration = Migration::on(roots)?;
    let mut options = options.options(&migration.topology().with_memory())?;
    options.pacing.workers = workers;
    plan(migration, roots, target, &options, policies, topology::check_several)
}

/// Inspects a target on any machine, without a plan to move it.
pub fn to_see(roots: &Roots, target: &TargetArgs) -> Result<Inspection, Failure> {
    let (migration, options) = (Migration::on(roots)?, Options::default());
    let mut seen = plan(migration, roots, target, &options, Policies::Leave, |_| Ok(()))?;
    seen.find_held(&|| false)?;
    Ok(seen.into())
}

/// Plans for a target. Once that is found, `check` says whether the machine is fit for it.
fn plan(
    migration: Migration<'_>,
    roots: &Roots,
    target: &TargetArgs,
    options: &Options,
    policies: Policies<'_>,
    check: impl FnOnce(&Topology) -> Result<(), Error>,
) -> Result<PlannedMigration<Resolved>, Failure> {
    let targets = target.targets()?;
    let find = |topology: &Topology| {
        let found = resolve(roots, &targets, topology)?;
        check(topology).map(|()| found)
    };
    Ok(migration.plan(options, policies, &|| false, find)?)
}

/// Carries a plan out in a thread, and calls `look` every `tick` until that has ended. Does nothing if every process is skipped.
pub fn carry_out(
    planned: &mut PlannedMigration<Resolved>,
    limits: &RunLimits,
    tick: Duration,
    look: impl FnMut(&Control),
) -> Result<(Outcome, Vec<Outcome>), Failure> {
    if planned.plan.is_skipped() {
        return Ok(Default::default());
    }
    Ok(watched(tick, look, |control| planned.run(limits, control))?)
}

/// Runs something in a thread, and calls `look` every `tick` until that has ended.
pub fn watched<T: Send>(
    tick: Duration,
    mut look: impl FnMut(&Control),
    run: impl FnOnce(&Control) -> T + Send,
) -> T {
    let control = &Control::default();
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            // Dropped at the end of this closure, also after a panic. This wakes the loop below at once.
            let _done = done;
            run(control)
        });
        while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
            look(control);
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Opens the processes of a target for a picture with that many cells in a row. The picture looks at them by itself, so
/// there is no plan. Also returns what of the target is left out.
pub fn to_draw<'a>(
    roots: &'a Roots,
    target: &TargetArgs,
    cells: u64,
    exact: bool,
) -> Result<(Viewer<'a>, Vec<Missing>), Failure> {
    let (topology, targets) = (topology::topology(roots)?, target.targets()?);
    let Resolved { processes, missing, .. } = resolve(roots, &targets, &topology)?;
    let viewer = Viewer::open(roots, &topology, processes, &Options::default(), cells, exact)?;
    Ok((viewer, missing_of(&targets, &missing)))
}

/// What is left out of these targets, by the names that the API gives them.
pub fn missing_of(targets: &[Target], left_out: &[LeftOut]) -> Vec<Missing> {
    let missing = |left: &LeftOut| Missing {
        member: name_of(&targets[left.target]),
        reason: left.why.to_string(),
        processes: left.processes,
    };
    left_out.iter().map(missing).collect()
}

/// Where the members were found that had to be looked up.
pub fn found(party: &Resolved) -> Vec<FoundMember> {
    let member = |(index, found): &(usize, Found)| {
        let (cgroup, by) = (found.cgroup().map(str::to_owned), found.how.clone());
        FoundMember { member: name_of(&party.targets[*index]), at: FoundAt { cgroup, by } }
    };
    party.found.iter().map(member).collect()
}

/// What became of offload. Only the daemon changes these settings of the host: nobody else would put them back after a crash.
pub fn by_cpu(roots: &Roots, requested: Offload, outcome: &Outcome) -> OffloadUse {
    let folios = outcome.calls.addresses.saturating_sub(outcome.calls.retried_addresses);
    let probed = kernel::probe(roots);
    let is_off = probed.interface.is_none_or(|_| kernel::is_on(roots) == Some(false));
    let reason = match probed.reason {
        Some(reason) => format!("unavailable: {reason}"),
        None => "not allowed: only the daemon switches it on".to_owned(),
    };
    let reason = if requested == Offload::Off { String::new() } else { reason };
    let cpu_folios = is_off.then_some(folios);
    OffloadUse { requested, reason, cpu_folios, ..OffloadUse::default() }
}

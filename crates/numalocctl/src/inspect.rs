//! From a target to a plan, or to a picture: the steps that `locality`, `plan` and `migrate` share.

use crate::{
    args::{PlanArgs, TargetArgs, name_of},
    exit::Failure,
};
use numaloc_api::{
    LocalityView, v1,
    value::{Missing, Policy},
};
use numaloc_core::{NodeId, NodeSet, Offload, OffloadUse, Options, Plan, Process, Topology};
use numaloc_dma::kernel;
use numaloc_executor::Outcome;
use numaloc_host::{
    Error, Groups, Growth, LeftOut, Policies, Resolved, Roots, Source, Survey, Target, Viewer,
    heat, resolve, survey_growing, survey_unless, topology,
};
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

/// A target with the machine around it.
#[derive(Debug)]
pub struct Inspection {
    pub topology: Topology,
    pub plan: Plan,
    /// How page locations were found.
    pub source: Source,
    /// What of the target is left out.
    pub missing: Vec<Missing>,
}

impl Inspection {
    /// Where the memory of the target is, with the kernel's counts for the named cgroups.
    pub fn locality(&self, cgroups: &[(String, BTreeMap<NodeId, u64>)]) -> v1::GetLocalityResponse {
        let view = LocalityView { plan: &self.plan, time: SystemTime::now() };
        let cgroup = |(path, nodes): &(String, BTreeMap<NodeId, u64>)| {
            v1::CgroupMemory::new(path, nodes, self.common_home())
        };
        let locality = v1::Locality {
            source: page_source(self.source).into(),
            cgroups: cgroups.iter().map(cgroup).collect(),
            ..view.into()
        };
        v1::GetLocalityResponse { locality: Some(locality), missing: self.missing() }
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
        }
    }

    fn missing(&self) -> Vec<v1::MissingMember> {
        self.missing.iter().map(Into::into).collect()
    }

    /// The home of all processes if they have the same one.
    fn common_home(&self) -> Option<&NodeSet> {
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

/// Inspects a target in order to move it, with at most `workers` threads if there is a number. Fails on a machine where memory
/// cannot move anywhere. The survey keeps the target's processes open; its extents have been moved into the plan.
pub fn to_move(
    roots: &Roots,
    target: &TargetArgs,
    (options, workers): (&PlanArgs, Option<usize>),
    policies: Policies<'_>,
) -> Result<(Inspection, Survey), Failure> {
    let topology = topology::topology(roots)?;
    let mut options = options.options(&topology.with_memory())?;
    options.pacing.workers = workers;
    topology::check_options(roots, &topology, &options)?;
    topology::check_several(&topology)?;
    let (processes, missing) = found_of(roots, target, &topology)?;
    let growth = growth(roots, target, &topology, &options)?;
    let mut found = inspect(roots, topology, (processes, growth), &options, policies)?;
    check_any(&found.0, target)?;
    found.0.missing = missing;
    found.0.plan.order = heat::choose(roots, &found.0.plan)?;
    Ok(found)
}

/// Inspects a target on any machine, without a plan to move it.
pub fn to_see(roots: &Roots, target: &TargetArgs) -> Result<Inspection, Failure> {
    let topology = topology::topology(roots)?;
    let (processes, missing) = found_of(roots, target, &topology)?;
    let options = Options::default();
    let growth = growth(roots, target, &topology, &options)?;
    let found = inspect(roots, topology, (processes, growth), &options, Policies::Leave)?.0;
    check_any(&found, target)?;
    Ok(Inspection { missing, ..found })
}

/// Opens the processes of a target for a picture with that many cells in a row. The picture looks at them by itself, so
/// there is no plan. Also returns what of the target is left out.
pub fn to_draw<'a>(
    roots: &'a Roots,
    target: &TargetArgs,
    cells: u64,
    exact: bool,
) -> Result<(Viewer<'a>, Vec<Missing>), Failure> {
    let topology = topology::topology(roots)?;
    let (processes, missing) = found_of(roots, target, &topology)?;
    let viewer = Viewer::open(roots, &topology, processes, &Options::default(), cells, exact)?;
    Ok((viewer, missing))
}

/// The processes of a target, and what of it is left out. It is an error only if nothing takes part.
fn found_of(
    roots: &Roots,
    target: &TargetArgs,
    topology: &Topology,
) -> Result<(Vec<Process>, Vec<Missing>), Failure> {
    let targets = target.targets()?;
    let Resolved { processes, missing } = resolve(roots, &targets, topology)?;
    Ok((processes, missing_of(&targets, &missing)))
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

/// How processes are found that the target gets from now on; `None`: it gets none.
fn growth(
    roots: &Roots,
    target: &TargetArgs,
    topology: &Topology,
    options: &Options,
) -> Result<Option<Arc<Growth>>, Failure> {
    let groups = Groups::of(roots, topology, &target.targets()?);
    Ok(groups.map(|groups| {
        let (roots, topology, options) =
            (Arc::new(roots.clone()), topology.clone(), options.clone());
        Arc::new(Growth { roots, topology, options, arrivals: Arc::new(groups) })
    }))
}

/// Fails if all processes of the target have ended while they were inspected.
fn check_any(found: &Inspection, target: &TargetArgs) -> Result<(), Failure> {
    match found.plan.processes.is_empty() {
        true => Err(Error::Empty { target: target.to_string() }.into()),
        false => Ok(()),
    }
}

/// Inspects again the processes of a survey, and those that the target has got since, as of now.
pub fn again(roots: &Roots, before: &Inspection, survey: &Survey) -> Result<Inspection, Failure> {
    let (topology, options) = (before.topology.clone(), &before.plan.options);
    let found = (survey.processes_now(), survey.newcomers.growth());
    Ok(inspect(roots, topology, found, options, survey.known())?.0)
}

fn inspect(
    roots: &Roots,
    topology: Topology,
    (processes, growth): (Vec<Process>, Option<Arc<Growth>>),
    options: &Options,
    policies: Policies<'_>,
) -> Result<(Inspection, Survey), Failure> {
    let never = || false;
    let mut seen = match &growth {
        Some(growth) => survey_growing(&never, policies, growth, processes)?,
        None => survey_unless(&never, policies, roots, &topology, processes, options)?,
    };
    let plan = seen.take_seen().plan(&topology, options);
    let source = seen.sight.source;
    Ok((Inspection { topology, plan, source, missing: Vec::new() }, seen))
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

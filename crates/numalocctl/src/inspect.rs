//! From a target to a plan, or to a picture: the steps that `locality`, `plan` and `migrate` share.

use crate::{
    args::{PlanArgs, TargetArgs},
    exit::Failure,
    output::complain,
};
use numaloc_core::{Offload, OffloadUse, Options, Plan, Process, Topology};
use numaloc_executor::Outcome;
use numaloc_host::{
    Error, Policies, Resolved, Roots, Source, Survey, Viewer, heat, offload, resolve,
    survey_unless, topology,
};

/// A target with the machine around it.
#[derive(Debug)]
pub struct Inspection {
    /// The machine.
    pub topology: Topology,
    /// The plan.
    pub plan: Plan,
    /// How page locations were found.
    pub source: Source,
}

/// Inspects a target in order to move it. Fails on a machine where memory cannot move anywhere. The survey keeps the
/// target's processes open; its extents have been moved into the plan.
pub fn to_move(
    roots: &Roots,
    target: &TargetArgs,
    options: &PlanArgs,
    policies: Policies<'_>,
) -> Result<(Inspection, Survey), Failure> {
    let topology = topology::topology(roots)?;
    topology::check_several(&topology)?;
    let options = options.options(&topology)?;
    for nodes in options.to.iter().chain(&options.from) {
        topology::check_nodes(roots, &topology, nodes)?;
    }
    let processes = found_of(roots, target, &topology)?;
    let mut found = inspect(roots, topology, processes, &options, policies)?;
    check_any(&found.0, target)?;
    found.0.plan.order = heat::choose(roots, &found.0.plan)?;
    Ok(found)
}

/// Inspects a target on any machine, without a plan to move it.
pub fn to_see(roots: &Roots, target: &TargetArgs) -> Result<Inspection, Failure> {
    let topology = topology::topology(roots)?;
    let processes = found_of(roots, target, &topology)?;
    let found = inspect(roots, topology, processes, &Options::default(), Policies::Leave)?.0;
    check_any(&found, target)?;
    Ok(found)
}

/// Opens the processes of a target for a picture with that many cells in a row. The picture looks at them by itself, so
/// there is no plan.
pub fn to_draw<'a>(
    roots: &'a Roots,
    target: &TargetArgs,
    cells: u64,
    exact: bool,
) -> Result<Viewer<'a>, Failure> {
    let topology = topology::topology(roots)?;
    let processes = found_of(roots, target, &topology)?;
    Ok(Viewer::open(roots, &topology, processes, &Options::default(), cells, exact)?)
}

/// The processes of a target. Reports members that do not exist on standard error. It is an error only if none exists.
fn found_of(
    roots: &Roots,
    target: &TargetArgs,
    topology: &Topology,
) -> Result<Vec<Process>, Failure> {
    let Resolved { processes, missing } = resolve(roots, &target.targets()?, topology)?;
    missing.iter().for_each(|(_, why)| complain(&format!("left out: {why}")));
    Ok(processes)
}

/// Fails if all processes of the target have ended while they were inspected.
fn check_any(found: &Inspection, target: &TargetArgs) -> Result<(), Failure> {
    match found.plan.processes.is_empty() {
        true => Err(Error::Empty { target: target.to_string() }.into()),
        false => Ok(()),
    }
}

/// Inspects again the processes of a survey, as of now.
pub fn again(roots: &Roots, before: &Inspection, survey: &Survey) -> Result<Inspection, Failure> {
    let (topology, options) = (before.topology.clone(), &before.plan.options);
    Ok(inspect(roots, topology, survey.processes(), options, survey.known())?.0)
}

fn inspect(
    roots: &Roots,
    topology: Topology,
    processes: Vec<Process>,
    options: &Options,
    policies: Policies<'_>,
) -> Result<(Inspection, Survey), Failure> {
    let mut seen = survey_unless(&|| false, policies, roots, &topology, processes, options)?;
    let plan = seen.take_seen().plan(&topology, options);
    Ok((Inspection { topology, plan, source: seen.sight.source }, seen))
}

/// What became of offload. Only the daemon changes these settings of the host: nobody else would put them back after a crash.
pub fn by_cpu(roots: &Roots, requested: Offload, outcome: &Outcome) -> OffloadUse {
    let folios = outcome.calls.addresses.saturating_sub(outcome.calls.retried_addresses);
    let probed = offload::probe(roots);
    let is_off = probed.interface.is_none_or(|_| offload::is_on(roots) == Some(false));
    let reason = match probed.reason {
        Some(reason) => format!("unavailable: {reason}"),
        None => "not allowed: only the daemon switches it on".to_owned(),
    };
    let reason = if requested == Offload::Off { String::new() } else { reason };
    let cpu_folios = is_off.then_some(folios);
    OffloadUse { requested, reason, cpu_folios, ..OffloadUse::default() }
}

//! Carries out `numalocctl plan` and `numalocctl migrate --dry-run`, by the daemon or this program itself.

use super::{Surroundings, daemon, files, name_left_out, shown};
use crate::{
    args::{Cli, PlanArgs},
    exit::{Code, Failure},
    inspect::{self, Inspection},
    output::CommandResult,
    partners, text,
};
use numaloc_api::value::Limits;
use numaloc_executor::PlannedMigration;
use numaloc_host::{Policies, Resolved, Roots};

/// Shows what a migration would do.
pub fn run(cli: &Cli, around: &Surroundings, args: &PlanArgs) -> Result<CommandResult, Failure> {
    if args.files.is_given() {
        return files::plan(cli, around, args);
    }
    let (mut answer, topology) = match daemon(cli, around)? {
        Some(daemon) => {
            args.exchange.check_daemon()?;
            let spec = args.spec(&daemon.with_memory_for(&args.options)?)?;
            (daemon.plan(&spec)?, daemon.topology()?.topology.unwrap_or_default())
        }
        None => {
            args.check_here()?;
            let mut planned = planned(&around.roots, args, Policies::AskBriefly)?;
            planned.find_sharers(&|| false, |_| true)?;
            planned.find_held(&|| false)?;
            let found = Inspection::from(planned);
            (found.plan(), (&found.topology).into())
        }
    };
    if let Some(plan) = answer.plan.as_mut().filter(|_| !args.benefit) {
        plan.benefit = None;
    }
    let limits = (&args.limits.change(Limits::default())).into();
    let shown = shown(cli, &answer, |answer, view| text::plan(answer, &topology, &limits, view))?;
    name_left_out(cli, &answer.missing);
    Ok(CommandResult { code: Code::left_out(&answer.missing), ..shown })
}

/// Plans a migration on this host.
///
/// # Errors
/// The target is not found or may not be read, or nothing can move on this host.
pub fn planned(
    roots: &Roots,
    args: &PlanArgs,
    policies: Policies<'_>,
) -> Result<PlannedMigration<Resolved>, Failure> {
    let options = (&args.options, args.limits.workers.map(usize::from));
    let mut planned = inspect::to_move(roots, &args.target, options, policies)?;
    let best_effort = args.limits.limits().best_effort(&planned.plan.options.pacing);
    let partners = partners::find(roots, &planned.topology, &args.exchange, best_effort)?;
    planned.exchange(partners, &|| false);
    Ok(planned)
}

//! Carries out `numalocctl plan`, by the daemon or this program itself.

use super::{Surroundings, daemon, shown, whole};
use crate::{
    args::{Cli, LimitArgs, PlanArgs, QueueArgs, spec},
    exit::Failure,
    inspect::{self, Inspection},
    output::CommandResult,
    partners, text,
};
use numaloc_executor::RunLimits;
use numaloc_host::Policies;

/// Shows what a migration would do.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    PlanArgs { target, options, exchange }: &PlanArgs,
) -> Result<CommandResult, Failure> {
    let (answer, topology) = match daemon(cli, around)? {
        Some(daemon) => {
            exchange.check_daemon()?;
            let with_memory = daemon.with_memory_for(options)?;
            let (queue, limits) = (QueueArgs::default(), LimitArgs::default());
            let answer = daemon.plan(&spec(target, options, &queue, &limits, &with_memory)?)?;
            (answer, daemon.topology()?.topology.unwrap_or_default())
        }
        None => {
            options.pace.check_here()?;
            exchange.check_here(options.make_room)?;
            let (roots, policies) = (&around.roots, Policies::AskBriefly);
            let mut planned = inspect::to_move(roots, target, (options, None), policies)?;
            let partners =
                partners::find(roots, &planned.topology, exchange, RunLimits::default())?;
            planned.exchange(partners, &|| false);
            let found = Inspection::from(planned);
            (found.plan(), (&found.topology).into())
        }
    };
    let shown = shown(cli, &answer, |answer, view| text::plan(answer, &topology, view))?;
    Ok(CommandResult { code: whole(answer.missing.is_empty()), ..shown })
}

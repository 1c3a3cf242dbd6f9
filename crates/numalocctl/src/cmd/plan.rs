//! `numalocctl plan`.

use super::{Surroundings, daemon, shown_part};
use crate::{
    args::{Cli, ExchangeArgs, LimitArgs, PlanArgs, QueueArgs, TargetArgs, spec},
    doc::PlanDoc,
    exit::Failure,
    inspect::{self, Inspection},
    others::Others,
    output::Report,
    remote::Daemon,
    text,
};
use numaloc_core::Topology;
use numaloc_executor::RunLimits;
use numaloc_host::Policies;

/// Shows what a migration would do.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    target: &TargetArgs,
    options: &PlanArgs,
    exchange: &ExchangeArgs,
) -> Result<Report, Failure> {
    let document = match daemon(cli, around)? {
        Some(daemon) => {
            exchange.check_daemon()?;
            let topology = topology_for(&daemon, options)?;
            let (queue, limits) = (QueueArgs::default(), LimitArgs::default());
            daemon.plan(&spec(target, options, &queue, &limits, &topology)?)?
        }
        None => {
            options.pace.check_here()?;
            exchange.check_here(options.make_room)?;
            let (roots, policies) = (&around.roots, Policies::AskBriefly);
            let (mut found, survey) = inspect::to_move(roots, target, (options, None), policies)?;
            let Inspection { topology, plan, .. } = &mut found;
            if plan.no_room_bytes > 0 {
                let others = Others::find(roots, topology, exchange, &survey)?;
                let options = plan.options.clone();
                others
                    .in_order(roots, topology, &options, &RunLimits::default(), policies)
                    .expect(plan);
            }
            PlanDoc::from(&found)
        }
    };
    shown_part(cli, &document, document.missing.is_empty(), text::plan)
}

/// The daemon's machine, if the options cannot be read without it.
pub fn topology_for(daemon: &Daemon, options: &PlanArgs) -> Result<Topology, Failure> {
    if options.needs_topology() { daemon.topology() } else { Ok(Topology::default()) }
}

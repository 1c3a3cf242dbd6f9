//! `numalocctl plan`.

use super::{Surroundings, daemon, shown};
use crate::{
    args::{Cli, LimitArgs, PlanArgs, QueueArgs, TargetArgs, spec},
    doc::PlanDoc,
    exit::Failure,
    inspect,
    output::Report,
    remote::Daemon,
    text,
};
use numaloc_core::Topology;
use numaloc_host::Policies;

/// Shows what a migration would do.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    target: &TargetArgs,
    options: &PlanArgs,
) -> Result<Report, Failure> {
    let document = match daemon(cli, around)? {
        Some(daemon) => {
            let topology = topology_for(&daemon, options)?;
            let (queue, limits) = (QueueArgs::default(), LimitArgs::default());
            daemon.plan(&spec(target, options, &queue, &limits, &topology)?)?
        }
        None => {
            options.pace.check_here()?;
            PlanDoc::from(
                &inspect::to_move(&around.roots, target, options, Policies::AskBriefly)?.0,
            )
        }
    };
    shown(cli, &document, text::plan)
}

/// The daemon's machine, if the options cannot be read without it.
pub fn topology_for(daemon: &Daemon, options: &PlanArgs) -> Result<Topology, Failure> {
    if options.needs_topology() { daemon.topology() } else { Ok(Topology::default()) }
}

//! Subcommands, one file each.

mod doctor;
mod locality;
mod migrate;
mod plan;
mod topology;
mod version;

use crate::{
    args::{Cli, Command},
    exit::Failure,
    output::Report,
};
use numaloc_host::Roots;

/// Carries out the command line.
pub fn run(cli: &Cli, roots: &Roots) -> Result<Report, Failure> {
    match &cli.command {
        Command::Topology(args) => topology::run(cli, roots, *args),
        Command::Locality(target) => locality::run(cli, roots, target),
        Command::Plan { target, options } => plan::run(cli, roots, target, options),
        Command::Migrate(args) => migrate::run(cli, roots, args),
        Command::Doctor => doctor::run(cli, roots),
        Command::Version => version::run(cli),
    }
}

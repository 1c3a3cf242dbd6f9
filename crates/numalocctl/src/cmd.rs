//! Subcommands, one file each.

mod completions;
mod doctor;
mod events;
mod generate;
mod jobs;
mod locality;
mod metrics;
mod migrate;
mod plan;
mod schedules;
mod status;
mod topology;
mod version;
mod wait;
mod workloads;

use crate::{
    args::{Cli, Command},
    exit::{Code, Failure},
    output::{Report, View, render},
    place::{self, Environment, Place},
    remote::Daemon,
};
use numaloc_host::Roots;
use serde::Serialize;

/// What surrounds this program.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Where the host is read.
    pub roots: Roots,
    /// What says where the daemon is.
    pub environment: Environment,
}

/// Carries out the command line.
pub fn run(cli: &Cli, around: &Surroundings) -> Result<Report, Failure> {
    let daemon = |command| reach(cli, around, command);
    match &cli.command {
        Command::Topology(args) => topology::run(cli, around, *args),
        Command::Locality(target) => locality::run(cli, around, target),
        Command::Plan { target, options } => plan::run(cli, around, target, options),
        Command::Migrate(args) => migrate::run(cli, around, args),
        Command::Status => status::run(cli, &daemon("status")?),
        Command::Jobs(command) => jobs::run(cli, &daemon("jobs")?, command),
        Command::Schedules(command) => schedules::run(cli, &daemon("schedules")?, command),
        Command::Events(args) => events::run(cli, &daemon("events")?, args),
        Command::Workloads(command) => workloads::run(cli, &daemon("workloads")?, command),
        Command::Metrics => metrics::run(&daemon("metrics")?),
        Command::Doctor => doctor::run(cli, around),
        Command::Version => version::run(cli, around),
        Command::Completions { shell } => completions::run(*shell),
        Command::Generate(command) => generate::run(command),
    }
}

/// The daemon, for commands that also work without it; nothing if they are to do so.
fn daemon(cli: &Cli, around: &Surroundings) -> Result<Option<Daemon>, Failure> {
    match place::choose(&cli.connect, &around.environment)? {
        Place::Here => Ok(None),
        Place::Daemon(endpoint) => Daemon::connect(endpoint, &cli.connect).map(Some),
    }
}

/// The daemon, for commands that need it.
fn reach(cli: &Cli, around: &Surroundings, command: &'static str) -> Result<Daemon, Failure> {
    let endpoint = place::daemon(&cli.connect, &around.environment, command)?;
    Daemon::connect(endpoint, &cli.connect)
}

/// What a command that succeeded shows.
fn shown<D: Serialize>(
    cli: &Cli,
    document: &D,
    text: impl Fn(&D, View) -> String,
) -> Result<Report, Failure> {
    let text = render(document, cli.output, !cli.no_headers, text)?;
    Ok(Report { text, code: Code::Done })
}

//! Carries out the subcommands, which have one file each.

mod advise;
mod apply;
mod backup;
mod bench;
mod changes;
mod complete;
mod completions;
mod doctor;
mod documents;
mod drain_node;
mod dsa;
mod events;
mod explain;
mod generate;
mod holds;
mod jobs;
mod locality;
mod map;
mod metrics;
mod migrate;
mod plan;
mod relieve;
mod schedules;
mod status;
mod target;
mod top;
mod topology;
mod version;
mod wait;
mod web;
mod workloads;

use crate::{
    args::{Cli, Command, ConnectArgs, Format},
    clean::clean,
    doc::RemovedDoc,
    engine::{Chosen, Engine},
    exit::{Code, Failure},
    output::{CommandResult, View, complain, render},
    place::{self, Environment},
    remote::Daemon,
    text,
};
use numaloc_api::v1;
use numaloc_host::Roots;
use serde::Serialize;
use std::time::Duration;

/// Message for a request that was only checked.
const TAKEN: &str = "the daemon would take it; nothing has changed\n";

/// Calls for one name after the other. The failure of one is reported, and the others are done, as by `kubectl delete a b`. Returns the
/// results with the code of the command.
///
/// # Errors
/// The last failure, if all calls fail. The daemon cannot be reached: nothing more is tried.
fn each<I, T>(
    ids: &[I],
    call: impl Fn(&I) -> Result<T, Failure>,
) -> Result<(Vec<T>, Code), Failure> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for id in ids {
        match call(id) {
            Ok(result) => done.push(result),
            Err(failure) => failed.push(failure),
        }
        if let Some(Failure::Unreachable { .. } | Failure::SocketForbidden { .. }) = failed.last() {
            break;
        }
    }
    let code = if failed.is_empty() { Code::Done } else { Code::Failure };
    let last = if done.is_empty() { failed.pop() } else { None };
    failed.iter().for_each(|failure| complain(&failure.to_string()));
    last.map_or(Ok((done, code)), Err)
}

/// Removes records by their names.
fn remove_each<I: ToString>(
    ids: &[I],
    remove: impl Fn(&I) -> Result<(), Failure>,
) -> Result<(RemovedDoc, Code), Failure> {
    let (removed, code) = each(ids, |id| remove(id).map(|()| id.to_string()))?;
    Ok((RemovedDoc { removed }, code))
}

/// The surroundings of this program.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub roots: Roots,
    /// The surroundings that locate the daemon.
    pub environment: Environment,
}

/// Carries out the command line.
pub fn run(mut cli: Cli, around: &Surroundings) -> Result<CommandResult, Failure> {
    target::prepare(&mut cli, around)?;
    carry_out(&cli, around).map_err(|failure| advised(failure, &cli, around))
}

/// A failure for want of a daemon, with the advice that fits this command line.
fn advised(failure: Failure, cli: &Cli, around: &Surroundings) -> Failure {
    match failure {
        Failure::NeedsDaemon { option } if !cli.connect.standalone => {
            Failure::NoDaemon { option, socket: around.environment.socket.clone() }
        }
        Failure::Unreachable { endpoint, reason, advice } if cli.command.needs_no_daemon() => {
            let advice = format!("{advice}; or work without it: --standalone");
            Failure::Unreachable { endpoint, reason, advice }
        }
        Failure::SocketForbidden { endpoint, .. } => {
            let is_optional = cli.command.needs_no_daemon();
            Failure::SocketForbidden { endpoint, is_optional }
        }
        other => other,
    }
}

fn carry_out(cli: &Cli, around: &Surroundings) -> Result<CommandResult, Failure> {
    let daemon = |command| reach(cli, around, command);
    match &cli.command {
        Command::Top(args) => top::run(cli, around, args),
        Command::Web(args) => web::run(cli, around, args),
        Command::Topology(args) => topology::run(cli, around, **args),
        Command::Locality(args) => locality::run(cli, around, args),
        Command::Plan(args) => plan::run(cli, around, &args.0),
        Command::Bench(args) => bench::run(cli, around, args),
        Command::Advise(args) => advise::run(cli, around, args),
        Command::Explain(args) => explain::run(cli, &daemon("explain")?, args),
        Command::Migrate(args) => migrate::run(cli, around, args),
        Command::DrainNode(args) => drain_node::run(cli, around, args),
        Command::Relieve(args) => relieve::run(cli, around, args),
        Command::Status => status::run(cli, &daemon("status")?),
        Command::Drain => holds::drain(cli, &daemon("drain")?, true),
        Command::Undrain => holds::drain(cli, &daemon("undrain")?, false),
        Command::PauseAll => holds::pause_all(cli, &daemon("pause-all")?, true),
        Command::ResumeAll => holds::pause_all(cli, &daemon("resume-all")?, false),
        Command::Backup { file } => backup::run(cli, &daemon("backup")?, file),
        Command::Jobs(command) => jobs::run(cli, &daemon("jobs")?, command),
        Command::Schedules(command) => schedules::run(cli, &daemon("schedules")?, command),
        Command::Events(args) => events::run(cli, &daemon("events")?, args),
        Command::Workloads(command) => workloads::run(cli, &daemon("workloads")?, command),
        Command::Metrics => metrics::run(&daemon("metrics")?),
        Command::Doctor => doctor::run(cli, around),
        Command::Dsa(args) => dsa::run(cli, around, args),
        Command::Version => version::run(cli, around),
        Command::Completions { shell } => completions::run(*shell),
        Command::Complete { kind } => Ok(complete::run(cli, around, *kind)),
        Command::PutBack => bench::put_back(around),
        Command::Generate(command) => generate::run(command),
    }
}

/// The engine, for commands that work with and without a daemon.
fn chosen(cli: &Cli, around: &Surroundings) -> Result<Chosen, Failure> {
    Chosen::new(&cli.connect, &around.environment, &around.roots)
}

/// The daemon, for commands that show more where one answers within `patience`.
fn daemon_within(cli: &Cli, around: &Surroundings, patience: Duration) -> Option<Daemon> {
    let connect = ConnectArgs { request_timeout: patience, ..cli.connect.clone() };
    Chosen::new(&connect, &around.environment, &around.roots).ok()?.daemon_within(patience)
}

/// The daemon, for commands that need it.
fn reach(cli: &Cli, around: &Surroundings, command: &'static str) -> Result<Daemon, Failure> {
    let endpoint = place::daemon(&cli.connect, &around.environment, command)?;
    Daemon::connect(endpoint, &cli.connect)
}

/// Reports what is left out on standard error, where standard output has rows alone.
fn name_left_out(cli: &Cli, missing: &[v1::MissingMember]) {
    let is_text = matches!(cli.output, Format::Table | Format::Wide | Format::Csv);
    if is_text && View::of(cli).rows_alone() {
        text::left_out(missing).lines().for_each(complain);
    }
}

/// The report of a command that succeeded, for a message of the API or a document.
fn shown<D: Serialize>(
    cli: &Cli,
    document: &D,
    text: impl Fn(&D, View) -> String,
) -> Result<CommandResult, Failure> {
    let text = render(document, cli.output, View::of(cli), text)?;
    Ok(CommandResult { text, code: Code::Done })
}

/// The same for a list of records. An empty table says so on standard error.
fn shown_list<D: Serialize>(
    cli: &Cli,
    document: &D,
    (count, records): (usize, &str),
    text: impl Fn(&D, View) -> String,
) -> Result<CommandResult, Failure> {
    if count == 0 && matches!(cli.output, Format::Table | Format::Wide) {
        complain(&format!("no {records}"));
    }
    shown(cli, document, text)
}

/// The same for what was done for each of several names.
fn shown_each<D: Serialize>(
    cli: &Cli,
    (document, code): (D, Code),
    text: impl Fn(&D, View) -> String,
) -> Result<CommandResult, Failure> {
    shown(cli, &document, text).map(|shown| CommandResult { code, ..shown })
}

/// The same for an answer of an engine, which the wide form names.
fn shown_by<D: Serialize>(
    cli: &Cli,
    engine: &dyn Engine,
    answer: &D,
    text: impl Fn(&D, View) -> String,
) -> Result<CommandResult, Failure> {
    shown(cli, answer, |answer, view| match view.wide && !view.rows_alone() {
        true => format!("{}via: {}\n", text(answer, view), clean(&engine.via())),
        false => text(answer, view),
    })
}

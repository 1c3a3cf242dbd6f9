//! `numalocctl` shows where a process's memory is and where it should be, and moves it there.
//!
//! Each command is one file in `cmd`. It reads the host or asks the daemon (`remote`), and either way gets a message of
//! the API. `output` prints it as JSON for programs, and the text of a pure function in `text` for people. Output of
//! this program alone is a document of `doc`. `place` decides between host and daemon.
//!
//! | modules | what they do |
//! |---|---|
//! | `args`, `settings`, `endpoint` | the command line, the settings file, the daemon's address |
//! | `cmd`, `place` | one file for each subcommand; whether the daemon or this process does the work |
//! | `inspect` | the host's side: from a target to a plan |
//! | `remote` | the daemon's side: its calls |
//! | `doc`, `text`, `output` | messages and documents as JSON, text for people, and how either is printed |
//! | `job`, `fields` | the end of a job, and fields of messages as values |
//! | `check`, `container_runtime` | the checks of `doctor`, and its requests to containerd |
//! | `captions`, `svg` | pictures: their words, their drawing |
//! | `whole_file` | a file that appears when its content is complete |
//! | `top`, `columns` | the live view: a model, its drawing, and the terminal |
//! | `web` | the page for a browser, and the server of it |
//! | `follow`, `progress`, `signals` | output while a job runs, and Ctrl-C |
//! | `units`, `clean`, `wrap` | sizes and times as people write them, texts in lines |
//! | `exit`, `man` | exit codes, the manual pages |
#![forbid(unsafe_code)]

mod args;
mod captions;
mod check;
mod clean;
mod cmd;
mod columns;
mod container_runtime;
mod doc;
mod endpoint;
mod engine;
mod exit;
mod fields;
#[cfg(test)]
mod fixture;
mod follow;
mod job;
mod man;
mod output;
mod picture;
mod place;
mod progress;
mod remote;
mod settings;
mod signals;
mod svg;
mod text;
mod top;
mod units;
mod web;
mod whole_file;
mod wrap;

use args::Cli;
use clap::{ArgMatches, FromArgMatches};
use cmd::Surroundings;
use exit::Code;
use numaloc_host::Roots;
use place::Environment;
use std::{ffi::OsString, process::ExitCode};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let (cli, path) = match command_line(&words) {
        Ok(parsed) => parsed,
        Err(code) => return code.into(),
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if let Err(why) = args::check_output(&path, cli.output, cli.no_headers) {
        output::complain(&format!("{why} (see --help)"));
        return Code::Usage.into();
    }
    numaloc_host::allow_files();
    let (home, state) = (place::home(), place::base_directory("XDG_STATE_HOME", ".local/state"));
    let tiers = settings::tiers(settings::DAEMON_FILE);
    let roots = Roots { home, state, tiers, ..Roots::default() };
    let surroundings = Surroundings { roots, environment: Environment::read() };
    match cmd::run(cli, &surroundings) {
        Ok(report) => output::print(&report).into(),
        Err(failure) => {
            if !failure.is_silent() {
                output::complain(&failure.to_string());
            }
            Code::from(&failure).into()
        }
    }
}

/// The command line, and the names of the chosen command. If it does not parse, prints why.
fn command_line(words: &[OsString]) -> Result<(Cli, Vec<String>), Code> {
    let one = Cli::with_one_command(words.get(1..).unwrap_or_default());
    if let Some(parsed) = one.and_then(|one| parse(leaked(one), words).ok()) {
        return Ok(parsed);
    }
    let definition = leaked(Cli::definition());
    parse(definition, words).map_err(|error| {
        let error = error.format(definition);
        output::refuse(&error, definition, words)
    })
}

/// A definition that is never dropped: that takes a fifth of the time of parsing.
fn leaked(definition: clap::Command) -> &'static mut clap::Command {
    Box::leak(Box::new(definition))
}

/// As [`command_line`], with a given definition.
fn parse(
    definition: &mut clap::Command,
    words: &[OsString],
) -> Result<(Cli, Vec<String>), clap::Error> {
    let mut matches = definition.try_get_matches_from_mut(words)?;
    let path = command_path(&matches);
    Ok((Cli::from_arg_matches_mut(&mut matches)?, path))
}

/// The names of the chosen command, such as `jobs` and `ls`.
fn command_path(matches: &ArgMatches) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = matches;
    while let Some((name, below)) = at.subcommand() {
        path.push(name.to_owned());
        at = below;
    }
    path
}

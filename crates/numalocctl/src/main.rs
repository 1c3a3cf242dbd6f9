//! `numalocctl`: where a process's memory is, where it should be, and bringing it there.
//!
//! A command is one file in `cmd`: it reads the host, turns what it found into a document (`doc`, which is also
//! the JSON that other programs read) and hands the document to a pure function in `text` for people.
#![forbid(unsafe_code)]

mod args;
mod check;
mod cmd;
mod doc;
mod exit;
#[cfg(test)]
mod fixture;
mod look;
mod output;
mod progress;
mod signals;
mod text;
mod units;

use args::Cli;
use clap::Parser;
use exit::Code;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use numaloc_host::Roots;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::refuse(&error).into(),
    };
    allow_files();
    match cmd::run(&cli, &Roots::default()) {
        Ok(report) => output::print(&report).into(),
        Err(failure) => {
            output::complain(&failure.to_string());
            Code::from(&failure).into()
        }
    }
}

/// Raises this process's own limit of open files as far as it may: each process of a target is held by two. Where that
/// fails, opening one too many will say so.
fn allow_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

//! The daemon. It takes requests to bring memory home, runs them as jobs, repeats them on a schedule, and keeps them
//! over restarts.
//!
//! `service` converts a call and asks [`dispatch`]. The one task of [`dispatch`] owns all jobs, schedules, workloads
//! and events, and the [`store`]. `engine` looks at targets and moves their memory in threads of its own. [`access`]
//! decides who may do what.
//!
//! | modules | what they do |
//! |---|---|
//! | [`listen`], [`tls`] | accept connections: Unix sockets, TCP with TLS, sockets from systemd |
//! | [`access`] | stands before all services: who calls, what the caller may call, how often and how far |
//! | [`service`] | one file for each service of the API: converts, asks, converts back; `watch` has the streams |
//! | [`dispatch`], [`refusal`], [`order`] | the one task that owns all records; `dispatch/jobs.rs` has a job's states |
//! | [`store`] | keeps the records on the disk |
//! | [`engine`] | has [`numaloc_engine`] look at targets, plan and move, in turns and in threads |
//! | [`config`], [`cli`] | the configuration file, and the arguments of the program |
//! | [`daemon`] | wires all of this together |
//! | [`log`], [`metrics`], [`notify`] | what the outside sees: the journal, Prometheus, the service manager |
#![forbid(unsafe_code)]

pub mod access;
pub mod accounts;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod dispatch;
pub mod engine;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod notify;
pub mod order;
pub mod refusal;
pub mod service;
pub mod store;
pub mod tls;

use clap::Parser;
use numaloc_host::Roots;
use std::process::ExitCode;

/// Runs the daemon with the arguments of this process.
pub fn main() -> ExitCode {
    let args = cli::Args::parse();
    if args.check_config {
        let checked = cli::check_config(&args, &mut std::io::stdout());
        // Standard output cannot be written to, so the problems cannot be shown.
        return checked.unwrap_or(ExitCode::FAILURE);
    }
    if args.restore_settings {
        let done = cli::restore_settings(Roots::default(), &mut std::io::stdout());
        return done.unwrap_or(ExitCode::FAILURE);
    }
    if let Some(done) = cli::maintain(&args, &mut std::io::stdout()) {
        return done.unwrap_or(ExitCode::FAILURE);
    }
    match daemon::start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Printed to stderr as well, because the log may not have been started yet.
            eprintln!("numalocd: {}", explain(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes. A cause that the text contains already is left out.
fn explain(error: &anyhow::Error) -> String {
    let causes = error.chain().skip(1).map(ToString::to_string);
    causes.fold(error.to_string(), |text, cause| {
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

#[cfg(test)]
mod tests {
    use super::explain;
    use anyhow::anyhow;

    #[test]
    fn causes_are_told_once() {
        let error = anyhow!("no room").context("cannot write: no room").context("cannot begin");
        assert_eq!(explain(&error), "cannot begin: cannot write: no room");
    }
}

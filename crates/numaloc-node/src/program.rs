//! The start and the end of a client's program.

use crate::stopped::stopped;
use anyhow::Context;
use numaloc_config::FileError;
use std::process::ExitCode;

/// Runs a program of this name, or only checks its configuration.
pub fn main<C>(
    name: &str,
    config: Result<C, FileError>,
    checks_only: bool,
    run: impl FnOnce(C) -> anyhow::Result<()>,
) -> ExitCode {
    let config = match config {
        Ok(config) => config,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            return ExitCode::FAILURE;
        }
    };
    if checks_only {
        return ExitCode::SUCCESS;
    }
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            // The log may not have been started, or go elsewhere.
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does this with two threads, until it ends or the process is stopped.
///
/// # Errors
/// Errors of the work, or a failure to start threads or to take signals.
pub fn until_stopped(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start threads")?;
    let done = runtime.block_on(async {
        tokio::select! {
            ended = work => ended,
            stopped = stopped() => stopped,
        }
    });
    runtime.shutdown_background();
    done
}

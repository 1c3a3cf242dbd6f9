//! Reports of jobs that have ended, for `migrate` and `jobs watch`.

use super::shown;
use crate::{args::Cli, clean::clean, exit::Failure, job, output::CommandResult, text};
use numaloc_api::v1;

/// The report of a job that has ended, with its exit code.
pub fn report(cli: &Cli, ended: &v1::Job) -> Result<CommandResult, Failure> {
    Ok(CommandResult { code: job::code(ended), ..shown(cli, ended, text::migration)? })
}

pub fn names(jobs: &[v1::Job]) -> String {
    jobs.iter().map(|job| clean(&job.name) + "\n").collect()
}

//! Waits for a job's end, for `migrate` and `jobs watch`.

use crate::{
    args::Cli,
    clean::clean,
    doc::{JobDoc, MigrationDoc},
    exit::{Code, Failure},
    follow::Follow,
    output::{Report, render},
    progress::Wish,
    remote::{Daemon, OnInterrupt, Watched},
    text,
};
use numaloc_api::value::JobId;

/// Follows a job to its end. `seen` gets each of its states.
pub fn follow(
    daemon: &Daemon,
    id: &JobId,
    on_interrupt: OnInterrupt<'_>,
    wish: Wish,
    mut seen: impl FnMut(&JobDoc) -> Result<(), Failure>,
) -> Result<MigrationDoc, Failure> {
    let mut follow = Follow::new(wish);
    let watched = daemon.watch_job(id, on_interrupt, |job| {
        follow.update(job);
        seen(job)
    });
    follow.finish();
    match watched? {
        // A job that has ended has an outcome.
        Watched::Ended(job) => job.outcome.ok_or_else(|| broken(id)),
        Watched::Left { cancelled: true } => Err(Failure::Left(format!(
            "{id} was cancelled and is ending: `numalocctl jobs watch {id}` follows it"
        ))),
        Watched::Left { cancelled: false } => Err(Failure::Left(format!(
            "{id} was there before and goes on: `numalocctl jobs cancel {id}` ends it"
        ))),
    }
}

/// The report of a job's result, with its exit code.
pub fn report(cli: &Cli, ended: &MigrationDoc) -> Result<Report, Failure> {
    let text = render(ended, cli.output, !cli.no_headers, text::migration)?;
    Ok(Report { text, code: ended.code() })
}

/// The id in a job's name.
pub fn id(job: &JobDoc) -> Result<JobId, Failure> {
    JobId::from_name(&job.name).ok_or_else(|| broken(&job.name))
}

/// Names, one per line.
pub fn names(jobs: &[JobDoc]) -> String {
    jobs.iter().map(|job| clean(&job.name) + "\n").collect()
}

fn broken(job: &impl std::fmt::Display) -> Failure {
    let message =
        format!("numalocd's answer about {job:.100} makes no sense: are the versions the same?");
    Failure::Refused { code: Code::Failure, message }
}

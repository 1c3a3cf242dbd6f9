//! Waits for a job's end, for `migrate` and `jobs watch`.

use super::shown;
use crate::{
    args::Cli,
    clean::clean,
    exit::{Code, Failure},
    follow::Follow,
    job,
    output::CommandResult,
    progress::Wish,
    remote::{Daemon, OnCtrlC, Watched},
    text,
};
use numaloc_api::{v1, value::JobId};

/// Follows a job to its end. `seen` gets each of its states.
pub fn follow(
    daemon: &Daemon,
    id: &JobId,
    on_interrupt: OnCtrlC<'_>,
    wish: Wish,
    mut seen: impl FnMut(&v1::Job) -> Result<(), Failure>,
) -> Result<v1::Job, Failure> {
    let mut follow = Follow::new(wish);
    let watched = daemon.watch_job(id, on_interrupt, |job| {
        follow.update(job);
        seen(job)
    });
    follow.finish();
    match watched? {
        Watched::Ended(job) => Ok(*job),
        Watched::Left { cancelled: true } => Err(Failure::Left(format!(
            "{id} was cancelled and is ending: `numalocctl jobs watch {id}` follows it"
        ))),
        Watched::Left { cancelled: false } => Err(Failure::Left(format!(
            "{id} was there before and continues: `numalocctl jobs cancel {id}` ends it"
        ))),
    }
}

/// The report of a job that has ended, with its exit code.
pub fn report(cli: &Cli, ended: &v1::Job) -> Result<CommandResult, Failure> {
    Ok(CommandResult { code: job::code(ended), ..shown(cli, ended, text::migration)? })
}

/// The id in a job's name.
pub fn id(job: &v1::Job) -> Result<JobId, Failure> {
    JobId::from_name(&job.name).ok_or_else(|| {
        let name = &job.name;
        let message = format!(
            "numalocd's answer about {name:.100} makes no sense: are the versions the same?"
        );
        Failure::Refused { code: Code::Failure, message }
    })
}

pub fn names(jobs: &[v1::Job]) -> String {
    jobs.iter().map(|job| clean(&job.name) + "\n").collect()
}

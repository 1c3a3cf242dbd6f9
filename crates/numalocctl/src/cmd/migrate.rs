//! Carries out `numalocctl migrate`.

mod traffic;

use super::{Surroundings, chosen, map, plan, shown, shown_by, wait};
use crate::{
    args::{Cli, MigrateArgs},
    engine::Migrated,
    exit::Failure,
    job,
    output::CommandResult,
    text,
};
use numaloc_api::v1;

/// Moves memory, then looks again.
pub fn run(cli: &Cli, around: &Surroundings, args: &MigrateArgs) -> Result<CommandResult, Failure> {
    if args.dry_run {
        return plan::run(cli, around, &args.plan);
    }
    if args.draw.draw.is_some() {
        map::check_place(cli, around)?;
    }
    let before = traffic::before(cli, around, args)?;
    let jobs = |job: Box<v1::Job>| v1::ListJobsResponse { jobs: vec![*job], ..Default::default() };
    let engine = chosen(cli, around)?.open()?;
    let result = match engine.migrate(args)? {
        Migrated::Ended(job) => CommandResult {
            code: job::code(&job),
            ..shown_by(cli, &*engine, &*job, text::migration)?
        },
        Migrated::Created(job) => shown(cli, &jobs(job), |answer, _| wait::names(&answer.jobs))?,
        Migrated::Checked(job) => shown(cli, &jobs(job), |answer, view| {
            answer.jobs.iter().map(|job| text::job_to_be(job, view)).collect()
        })?,
    };
    if let Some(before) = before {
        before.compare(&around.roots);
    }
    Ok(result)
}

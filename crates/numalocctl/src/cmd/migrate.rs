//! Carries out `numalocctl migrate`.

mod traffic;

use super::{Surroundings, engine, map, plan, shown, wait};
use crate::{
    args::{Cli, MigrateArgs},
    engine::Migrated,
    exit::Failure,
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
    let result = match engine(cli, around)?.migrate(args)? {
        Migrated::Ended(job) => wait::report(cli, &job)?,
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

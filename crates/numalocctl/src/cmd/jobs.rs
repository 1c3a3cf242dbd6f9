//! Carries out `numalocctl jobs` with the daemon's jobs.

use super::{TAKEN, changes, each, remove_each, shown_each, shown_list, wait};
use crate::{
    args::{Cli, DeleteJobsArgs, Format, JobsArgs, JobsCommand, ListJobsArgs, ProgressArgs},
    clean::clean,
    doc::RemovedDoc,
    exit::{Code, Failure},
    follow, job,
    output::{CommandResult, View, emit, json_line},
    progress::Wish,
    remote::{Daemon, OnCtrlC},
    text,
};
use numaloc_api::{
    v1,
    value::{DeleteJob, JobId},
};

/// Lists, watches and controls jobs.
pub fn run(cli: &Cli, daemon: &Daemon, command: &JobsCommand) -> Result<CommandResult, Failure> {
    match command {
        JobsCommand::Ls(args) => list(cli, daemon, args),
        JobsCommand::Get(args) => get(cli, daemon, args),
        JobsCommand::Watch { job, progress } => watch(cli, daemon, job, *progress),
        JobsCommand::Cancel(args) => {
            shown_each(cli, of_each(args, |id| daemon.cancel_job(id))?, states)
        }
        JobsCommand::Pause(args) => {
            shown_each(cli, of_each(args, |id| daemon.pause_job(id))?, states)
        }
        JobsCommand::Resume(args) => {
            shown_each(cli, of_each(args, |id| daemon.resume_job(id))?, states)
        }
        JobsCommand::Delete(args) if args.validate_only => {
            shown_each(cli, delete(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        JobsCommand::Delete(args) => shown_each(cli, delete(daemon, args)?, text::removed),
    }
}

fn of_each(
    args: &JobsArgs,
    call: impl Fn(&JobId) -> Result<v1::Job, Failure>,
) -> Result<(v1::ListJobsResponse, Code), Failure> {
    let (jobs, code) = each(&args.jobs, call)?;
    Ok((v1::ListJobsResponse { jobs, ..Default::default() }, code))
}

fn get(cli: &Cli, daemon: &Daemon, args: &JobsArgs) -> Result<CommandResult, Failure> {
    let answer = of_each(args, |id| daemon.get_job(id))?;
    // The distances of the plans' routes.
    let topology = match cli.output == Format::Wide {
        true => daemon.topology()?.topology.unwrap_or_default(),
        false => v1::Topology::default(),
    };
    shown_each(cli, answer, |answer, view| {
        let jobs: Vec<_> = answer.jobs.iter().map(|job| text::job(job, &topology, view)).collect();
        jobs.join("\n")
    })
}

fn delete(daemon: &Daemon, args: &DeleteJobsArgs) -> Result<(RemovedDoc, Code), Failure> {
    let DeleteJobsArgs { jobs, allow_missing, validate_only } = args;
    remove_each(jobs, |id| {
        daemon.delete_job(&DeleteJob {
            id: id.clone(),
            allow_missing: *allow_missing,
            validate_only: *validate_only,
        })
    })
}

fn list(cli: &Cli, daemon: &Daemon, args: &ListJobsArgs) -> Result<CommandResult, Failure> {
    if args.watch {
        return changes::follow(cli, text::job_line, |seen| {
            daemon.watch_jobs(&args.filter(), seen)
        });
    }
    let answer = daemon.list_jobs(&args.filter(), args.limit)?;
    shown_list(cli, &answer, (answer.jobs.len(), "jobs"), |answer, view| match args.quiet {
        true => wait::names(&answer.jobs),
        false => text::jobs(answer, view),
    })
}

/// A line for each job and its state. The change that was asked for may come only after the job's current batches.
fn states(answer: &v1::ListJobsResponse, _: View) -> String {
    let line = |each: &v1::Job| format!("{} {}\n", clean(&each.name), job::state(each));
    answer.jobs.iter().map(line).collect()
}

/// Follows a job. JSON output has a line per change; text output is that of `migrate` at the end.
fn watch(
    cli: &Cli,
    daemon: &Daemon,
    id: &JobId,
    progress: ProgressArgs,
) -> Result<CommandResult, Failure> {
    let json = cli.output == Format::Json;
    let seen = |job: &v1::Job| if json { emit(&json_line(job)?) } else { Ok(()) };
    let ended = follow::follow(daemon, id, OnCtrlC::Default, Wish::from(progress), seen)?;
    match json {
        true => Ok(CommandResult { text: String::new(), code: job::code(&ended) }),
        false => wait::report(cli, &ended),
    }
}

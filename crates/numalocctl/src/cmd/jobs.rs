//! `numalocctl jobs`.

use super::{TAKEN, changes, shown, wait};
use crate::{
    args::{Cli, DeleteJobsArgs, Format, JobsCommand, ListJobsArgs, ProgressArgs},
    clean::clean,
    doc::{JobDoc, JobsDoc, RemovedDoc},
    exit::Failure,
    output::{Report, View, emit, json_line},
    progress::Wish,
    remote::{Daemon, OnInterrupt},
    text,
};
use numaloc_api::value::{DeleteJob, JobId};

/// Lists, watches and controls jobs.
pub fn run(cli: &Cli, daemon: &Daemon, command: &JobsCommand) -> Result<Report, Failure> {
    let each = |ids: &[JobId], call: &dyn Fn(&JobId) -> Result<JobDoc, Failure>| {
        let jobs = ids.iter().map(call).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, Failure>(JobsDoc { jobs })
    };
    match command {
        JobsCommand::Ls(args) => list(cli, daemon, args),
        JobsCommand::Get(args) => shown(cli, &each(&args.jobs, &|id| daemon.get_job(id))?, in_full),
        JobsCommand::Watch { job, progress } => watch(cli, daemon, job, *progress),
        JobsCommand::Cancel(args) => {
            shown(cli, &each(&args.jobs, &|id| daemon.cancel_job(id))?, states)
        }
        JobsCommand::Pause(args) => {
            shown(cli, &each(&args.jobs, &|id| daemon.pause_job(id))?, states)
        }
        JobsCommand::Resume(args) => {
            shown(cli, &each(&args.jobs, &|id| daemon.resume_job(id))?, states)
        }
        JobsCommand::Delete(args) if args.validate_only => {
            shown(cli, &delete(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        JobsCommand::Delete(args) => shown(cli, &delete(daemon, args)?, text::removed),
    }
}

/// Deletes one after the other. Before the first one that fails, all are deleted.
fn delete(daemon: &Daemon, args: &DeleteJobsArgs) -> Result<RemovedDoc, Failure> {
    let DeleteJobsArgs { jobs, allow_missing, validate_only } = args;
    let mut removed = Vec::new();
    for id in jobs {
        let request = DeleteJob {
            id: id.clone(),
            allow_missing: *allow_missing,
            validate_only: *validate_only,
        };
        daemon.delete_job(&request)?;
        removed.push(id.to_string());
    }
    Ok(RemovedDoc { removed })
}

fn list(cli: &Cli, daemon: &Daemon, args: &ListJobsArgs) -> Result<Report, Failure> {
    if args.watch {
        return changes::follow(cli, text::job_line, |seen| {
            daemon.watch_jobs(&args.filter(), seen)
        });
    }
    let document = daemon.list_jobs(&args.filter(), args.limit)?;
    shown(cli, &document, |document, view| match args.quiet {
        true => wait::names(&document.jobs),
        false => text::jobs(document, view),
    })
}

fn in_full(document: &JobsDoc, view: View) -> String {
    let jobs: Vec<_> = document.jobs.iter().map(|job| text::job(job, view)).collect();
    jobs.join("\n")
}

/// A line for each job and its state. The change that was asked for may come only after the job's current batches.
fn states(document: &JobsDoc, _: View) -> String {
    let line = |job: &JobDoc| format!("{} {}\n", clean(&job.name), job.state.name());
    document.jobs.iter().map(line).collect()
}

/// Follows a job. JSON output has a line per change; text output is that of `migrate` at the end.
fn watch(
    cli: &Cli,
    daemon: &Daemon,
    id: &JobId,
    progress: ProgressArgs,
) -> Result<Report, Failure> {
    let json = cli.output == Format::Json;
    let seen = |job: &JobDoc| if json { emit(&json_line(job)?) } else { Ok(()) };
    let ended = wait::follow(daemon, id, OnInterrupt::Default, Wish::from(progress), seen)?;
    match json {
        true => Ok(Report { text: String::new(), code: ended.result.code() }),
        false => wait::report(cli, &ended),
    }
}

//! `numalocctl schedules`.

use super::{TAKEN, changes, shown, wait};
use crate::{
    args::{
        Cli, CreateScheduleArgs, DeleteScheduleArgs, RunSchedulesArgs, SchedulesCommand,
        UpdateScheduleArgs, spec,
    },
    clean::clean,
    doc::{JobsDoc, RemovedDoc, ScheduleDoc, SchedulesDoc},
    exit::Failure,
    output::{Report, View},
    remote::{Changes, Daemon},
    text,
};
use numaloc_api::value::{CreateSchedule, DeleteSchedule, ScheduleId, ScheduleSpec};

/// Lists and changes schedules.
pub fn run(cli: &Cli, daemon: &Daemon, command: &SchedulesCommand) -> Result<Report, Failure> {
    match command {
        SchedulesCommand::Ls(args) if args.watch => {
            changes::follow(cli, text::schedule_line, |seen| {
                daemon.watch_schedules(&args.filter(), seen)
            })
        }
        SchedulesCommand::Ls(args) => {
            let document = daemon.list_schedules(&args.filter())?;
            shown(cli, &document, |document, view| match args.quiet {
                true => names(document, view),
                false => text::schedules(document, view),
            })
        }
        SchedulesCommand::Get(args) => {
            shown(cli, &each(&args.schedules, |id| daemon.get_schedule(id))?, in_full)
        }
        SchedulesCommand::Create(args) if args.validate_only => {
            shown(cli, &create(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        SchedulesCommand::Create(args) => shown(cli, &create(daemon, args)?, names),
        SchedulesCommand::Update(args) if args.validate_only => {
            shown(cli, &update(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        SchedulesCommand::Update(args) => shown(cli, &update(daemon, args)?, states),
        SchedulesCommand::Run(args) => {
            shown(cli, &run_now(daemon, args)?, |document, _| wait::names(&document.jobs))
        }
        SchedulesCommand::Delete(args) if args.validate_only => {
            shown(cli, &delete(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        SchedulesCommand::Delete(args) => shown(cli, &delete(daemon, args)?, text::removed),
        SchedulesCommand::Pause(args) => shown(cli, &hold(daemon, &args.schedules, true)?, states),
        SchedulesCommand::Resume(args) => {
            shown(cli, &hold(daemon, &args.schedules, false)?, states)
        }
    }
}

fn each(
    ids: &[ScheduleId],
    call: impl Fn(&ScheduleId) -> Result<ScheduleDoc, Failure>,
) -> Result<SchedulesDoc, Failure> {
    let schedules = ids.iter().map(call).collect::<Result<_, _>>()?;
    Ok(SchedulesDoc { schedules })
}

fn create(daemon: &Daemon, args: &CreateScheduleArgs) -> Result<SchedulesDoc, Failure> {
    let topology = super::plan::topology_for(daemon, &args.options)?;
    let spec = ScheduleSpec {
        migration: spec(&args.target, &args.options, &args.queue, &args.limits, &topology)?,
        interval: args.when.interval.unwrap_or_default(),
        jitter: args.when.jitter.unwrap_or_default(),
        ttl_after_gone: args.when.ttl_after_gone.and_then(|ttl| ttl.duration()),
        paused: args.paused,
        labels: args.label.iter().cloned().collect(),
    };
    let (request_id, validate_only) = (args.request_id.clone(), args.validate_only);
    let request = CreateSchedule { id: args.id.clone(), spec, request_id, validate_only };
    Ok(SchedulesDoc { schedules: vec![daemon.create_schedule(&request)?] })
}

fn update(daemon: &Daemon, args: &UpdateScheduleArgs) -> Result<SchedulesDoc, Failure> {
    let new_labels = !args.label.is_empty() || args.no_labels;
    let changes = Changes {
        labels: new_labels.then(|| args.label.iter().cloned().collect()),
        validate_only: args.validate_only,
        target: (!args.target.is_empty()).then(|| args.target.request()),
        options: args.options.clone(),
        queue: args.queue.clone(),
        limits: args.limits.clone(),
        when: args.when,
        paused: None,
        etag: args.etag.clone(),
    };
    if changes.is_empty() {
        let message = "nothing to change is given; see `numalocctl schedules update --help`";
        return Err(Failure::Usage(message.into()));
    }
    Ok(SchedulesDoc { schedules: vec![daemon.update_schedule(&args.schedule, &changes)?] })
}

fn run_now(daemon: &Daemon, args: &RunSchedulesArgs) -> Result<JobsDoc, Failure> {
    let request_id = args.request_id.as_deref();
    if request_id.is_some() && args.schedules.len() > 1 {
        let message = "--request-id is for a run of one schedule";
        return Err(Failure::Usage(message.into()));
    }
    let jobs = args.schedules.iter().map(|id| daemon.run_schedule(id, request_id));
    Ok(JobsDoc { jobs: jobs.collect::<Result<_, _>>()? })
}

fn hold(daemon: &Daemon, ids: &[ScheduleId], paused: bool) -> Result<SchedulesDoc, Failure> {
    let changes = Changes { paused: Some(paused), ..Changes::default() };
    each(ids, |id| daemon.update_schedule(id, &changes))
}

fn delete(daemon: &Daemon, args: &DeleteScheduleArgs) -> Result<RemovedDoc, Failure> {
    let mut removed = Vec::new();
    for id in &args.schedules {
        let request = DeleteSchedule {
            id: id.clone(),
            etag: args.etag.clone(),
            allow_missing: args.allow_missing,
            validate_only: args.validate_only,
        };
        daemon.delete_schedule(&request)?;
        removed.push(id.to_string());
    }
    Ok(RemovedDoc { removed })
}

fn names(document: &SchedulesDoc, _: View) -> String {
    document.schedules.iter().map(|schedule| clean(&schedule.name) + "\n").collect()
}

fn in_full(document: &SchedulesDoc, view: View) -> String {
    let schedules = document.schedules.iter().map(|schedule| text::schedule(schedule, view));
    schedules.collect::<Vec<_>>().join("\n")
}

/// A line for each schedule that was changed.
fn states(document: &SchedulesDoc, _: View) -> String {
    let line =
        |schedule: &ScheduleDoc| format!("{} {}\n", clean(&schedule.name), clean(&schedule.state));
    document.schedules.iter().map(line).collect()
}

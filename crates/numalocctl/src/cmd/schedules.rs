//! Carries out `numalocctl schedules` with the daemon's schedules.

mod apply;

use super::{TAKEN, changes, each, remove_each, shown, shown_each, shown_list, wait};
use crate::{
    args::{
        Cli, CreateScheduleArgs, DeleteScheduleArgs, OptionArgs, RunSchedulesArgs,
        SchedulesCommand, UpdateScheduleArgs, spec,
    },
    clean::clean,
    doc::RemovedDoc,
    exit::{Code, Failure},
    output::{CommandResult, View},
    remote::{Daemon, ScheduleChanges},
    text,
};
use numaloc_api::{
    v1,
    value::{CreateSchedule, DeleteSchedule, ScheduleId, ScheduleSpec},
};

pub fn run(
    cli: &Cli,
    daemon: &Daemon,
    command: &SchedulesCommand,
) -> Result<CommandResult, Failure> {
    match command {
        SchedulesCommand::Ls(args) if args.watch => {
            changes::follow(cli, text::schedule_line, |seen| {
                daemon.watch_schedules(&args.filter(), seen)
            })
        }
        SchedulesCommand::Ls(args) => {
            let answer = daemon.list_schedules(&args.filter())?;
            let count = answer.schedules.len();
            shown_list(cli, &answer, (count, "schedules"), |answer, view| match args.quiet {
                true => names(answer, view),
                false => text::schedules(answer, view),
            })
        }
        SchedulesCommand::Get(args) => {
            shown_each(cli, of_each(&args.schedules, |id| daemon.get_schedule(id))?, in_full)
        }
        SchedulesCommand::Create(args) if args.validate_only => {
            shown(cli, &create(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        SchedulesCommand::Create(args) => shown(cli, &create(daemon, args)?, names),
        SchedulesCommand::Apply(args) => shown(cli, &apply::apply(daemon, args)?, text::applied),
        SchedulesCommand::Update(args) if args.validate_only => {
            shown(cli, &update(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        SchedulesCommand::Update(args) => shown(cli, &update(daemon, args)?, text::schedule_states),
        SchedulesCommand::Run(args) => {
            shown_each(cli, run_now(daemon, args)?, |answer, _| wait::names(&answer.jobs))
        }
        SchedulesCommand::Delete(args) if args.validate_only => {
            shown_each(cli, delete(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        SchedulesCommand::Delete(args) => shown_each(cli, delete(daemon, args)?, text::removed),
        SchedulesCommand::Pause(args) => {
            shown_each(cli, hold(daemon, &args.schedules, true)?, text::schedule_states)
        }
        SchedulesCommand::Resume(args) => {
            shown_each(cli, hold(daemon, &args.schedules, false)?, text::schedule_states)
        }
    }
}

fn of_each(
    ids: &[ScheduleId],
    call: impl Fn(&ScheduleId) -> Result<v1::Schedule, Failure>,
) -> Result<(v1::ListSchedulesResponse, Code), Failure> {
    let (schedules, code) = each(ids, call)?;
    Ok((listed(schedules), code))
}

fn listed(schedules: Vec<v1::Schedule>) -> v1::ListSchedulesResponse {
    v1::ListSchedulesResponse { schedules, ..Default::default() }
}

fn create(
    daemon: &Daemon,
    args: &CreateScheduleArgs,
) -> Result<v1::ListSchedulesResponse, Failure> {
    let options = OptionArgs { relief: args.relief.relief()?, ..args.options.clone() };
    let with_memory = daemon.with_memory_for(&options)?;
    let spec = ScheduleSpec {
        migration: spec(
            args.files.target(&args.target)?,
            &options,
            &args.queue,
            &args.limits,
            &with_memory,
        )?,
        interval: args.when.interval.unwrap_or_default(),
        jitter: args.when.jitter.unwrap_or_default(),
        ttl_after_gone: args.when.ttl_after_gone.and_then(|ttl| ttl.duration()),
        paused: args.paused,
        labels: args.label.iter().cloned().collect(),
    };
    let (request_id, validate_only) = (args.request_id.clone(), args.validate_only);
    let request = CreateSchedule { id: args.id.clone(), spec, request_id, validate_only };
    Ok(listed(vec![daemon.create_schedule(&request)?]))
}

fn update(
    daemon: &Daemon,
    args: &UpdateScheduleArgs,
) -> Result<v1::ListSchedulesResponse, Failure> {
    let target = args.files.target(&args.target)?;
    let new_labels = !args.label.is_empty() || args.no_labels;
    let changes = ScheduleChanges {
        labels: new_labels.then(|| args.label.iter().cloned().collect()),
        validate_only: args.validate_only,
        target: (!args.target.is_empty() || args.files.is_given()).then_some(target),
        options: OptionArgs { relief: args.relief.relief()?, ..args.options.clone() },
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
    Ok(listed(vec![daemon.update_schedule(&args.schedule, &changes)?]))
}

fn run_now(
    daemon: &Daemon,
    args: &RunSchedulesArgs,
) -> Result<(v1::ListJobsResponse, Code), Failure> {
    let request_id = args.request_id.as_deref();
    if request_id.is_some() && args.schedules.len() > 1 {
        let message = "--request-id is for a run of one schedule";
        return Err(Failure::Usage(message.into()));
    }
    let (jobs, code) = each(&args.schedules, |id| daemon.run_schedule(id, request_id))?;
    Ok((v1::ListJobsResponse { jobs, ..Default::default() }, code))
}

fn hold(
    daemon: &Daemon,
    ids: &[ScheduleId],
    paused: bool,
) -> Result<(v1::ListSchedulesResponse, Code), Failure> {
    let changes = ScheduleChanges { paused: Some(paused), ..ScheduleChanges::default() };
    of_each(ids, |id| daemon.update_schedule(id, &changes))
}

fn delete(daemon: &Daemon, args: &DeleteScheduleArgs) -> Result<(RemovedDoc, Code), Failure> {
    remove_each(&args.schedules, |id| {
        daemon.delete_schedule(&DeleteSchedule {
            id: id.clone(),
            etag: args.etag.clone(),
            allow_missing: args.allow_missing,
            validate_only: args.validate_only,
        })
    })
}

fn names(answer: &v1::ListSchedulesResponse, _: View) -> String {
    answer.schedules.iter().map(|schedule| clean(&schedule.name) + "\n").collect()
}

fn in_full(answer: &v1::ListSchedulesResponse, view: View) -> String {
    let schedules = answer.schedules.iter().map(|schedule| text::schedule(schedule, view));
    schedules.collect::<Vec<_>>().join("\n")
}

//! Carries out `numalocctl explain`: asks the daemon for its records about a target.

use super::shown;
use crate::{
    args::{Cli, TargetArgs},
    doc::{ExplainDoc, ExplainedSchedule, Sought},
    exit::{Code, Failure},
    output::CommandResult,
    remote::Daemon,
    text,
};
use numaloc_api::{
    v1,
    value::{
        JobFilter, JobId, JobState, Limits, MigrationSpec, Policy, ScheduleFilter, WorkloadFilter,
    },
};

/// Shows what moves the memory of a target, and what keeps it where it is.
pub fn run(cli: &Cli, daemon: &Daemon, target: &TargetArgs) -> Result<CommandResult, Failure> {
    let topology = daemon.topology()?.topology.unwrap_or_default();
    let document = explain(daemon, target)?;
    shown(cli, &document, |document, view| text::explain(document, &topology, view))
}

fn explain(daemon: &Daemon, target: &TargetArgs) -> Result<ExplainDoc, Failure> {
    let default = MigrationSpec {
        target: target.request(),
        policy: Policy::default(),
        limits: Limits::default(),
    };
    let (mut plan, refused) = planned(daemon, &default)?;
    let sought = sought(daemon, &default, plan.as_ref())?;
    let (mut schedules, mut unknown) = (Vec::new(), Vec::new());
    for schedule in daemon.list_schedules(&ScheduleFilter::default())?.schedules {
        let last_job = last_job(daemon, &schedule)?;
        let last_plan = last_job.as_ref().and_then(|job| job.plan.as_ref());
        let named = schedule.spec.as_ref().and_then(|spec| spec.target.as_ref());
        if sought.is_in(named, &schedule.pinned_processes, last_plan) {
            schedules.push(ExplainedSchedule { schedule, last_job });
        } else if is_unknown(&schedule, last_plan) {
            unknown.push(schedule.name);
        }
    }
    let mut policy_of = String::new();
    if let (Some(first), true) = (schedules.first(), plan.is_some()) {
        let spec = first.schedule.spec.clone().unwrap_or_default();
        let policy = Policy::from(spec.policy.unwrap_or_default());
        let limits = Limits::from(spec.limits.unwrap_or_default());
        plan = planned(daemon, &MigrationSpec { policy, limits, ..default })?.0;
        policy_of.clone_from(&first.schedule.name);
    }
    let states = JobState::ALL.into_iter().filter(|state| !state.is_end()).collect();
    let under_way = JobFilter { states, ..JobFilter::default() };
    let mut jobs = daemon.list_jobs(&under_way, None)?.jobs;
    jobs.retain(|job| {
        let named = job.spec.as_ref().and_then(|spec| spec.target.as_ref());
        sought.is_in(named, &job.pinned_processes, job.plan.as_ref())
    });
    let mut workloads = daemon.list_workloads(&WorkloadFilter::default())?.workloads;
    workloads.retain(|workload| sought.is_of(workload));
    let holds = daemon.status()?.holds.unwrap_or_default();
    Ok(ExplainDoc { holds, schedules, unknown, jobs, workloads, policy_of, plan, refused })
}

/// Whether the processes of a schedule are not known: it has not run yet, and its target may exist.
fn is_unknown(schedule: &v1::Schedule, last_plan: Option<&v1::Plan>) -> bool {
    let is_gone = schedule.state() == v1::ScheduleState::TargetGone;
    last_plan.is_none() && schedule.pinned_processes.is_empty() && !is_gone
}

/// The effect that a migration would have, or the reason why the host allows none: that is an answer, too.
fn planned(
    daemon: &Daemon,
    spec: &MigrationSpec,
) -> Result<(Option<v1::PlanMigrationResponse>, String), Failure> {
    match daemon.plan(spec) {
        Ok(plan) => Ok((Some(plan), String::new())),
        Err(
            Failure::NoTargetNode(why) | Failure::Refused { code: Code::Failure, message: why },
        ) => Ok((None, why)),
        Err(failure) => Err(failure),
    }
}

/// The target as a plan has found it; without a plan, a look at its memory.
fn sought(
    daemon: &Daemon,
    spec: &MigrationSpec,
    plan: Option<&v1::PlanMigrationResponse>,
) -> Result<Sought, Failure> {
    let target = (&spec.target).into();
    Ok(match plan {
        Some(v1::PlanMigrationResponse { plan, found, .. }) => {
            let processes = plan.as_ref().map_or(&[][..], |plan| &plan.processes);
            Sought::new(target, found, processes)
        }
        None => {
            let v1::GetLocalityResponse { locality, found, .. } = daemon.locality(&spec.target)?;
            Sought::new(target, &found, &locality.unwrap_or_default().processes)
        }
    })
}

/// The job of a schedule's last run, with its plan.
fn last_job(daemon: &Daemon, schedule: &v1::Schedule) -> Result<Option<v1::Job>, Failure> {
    let Some(id) = JobId::from_name(&schedule.last_job) else { return Ok(None) };
    match daemon.get_job(&id) {
        Err(Failure::Refused { code: Code::NotFound, .. }) => Ok(None),
        job => job.map(Some),
    }
}

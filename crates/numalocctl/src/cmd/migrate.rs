//! Carries out `numalocctl migrate`, by the daemon or this program itself.

mod traffic;

use super::{
    Surroundings, daemon, files,
    map::{self, MoveMap},
    plan, shown, wait,
};
use crate::{
    args::{Cli, MigrateArgs},
    check::{BALANCING_ADVICE, is_balancing},
    exit::Failure,
    inspect::{self, Inspection},
    job::Here,
    output::{CommandResult, complain},
    partners,
    progress::{ProgressDisplay, Wish},
    remote::{Daemon, OnCtrlC, nowhere},
    signals, text,
};
use numaloc_api::{
    v1,
    value::{CreateJob, OnConflict},
};
use numaloc_core::{NumaBalancing, Plan};
use numaloc_executor::{Outcome, PlannedMigration, RunLimits};
use numaloc_host::{Error, Policies, Resolved, Roots, numa_balancing};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

/// Time between two looks at the run.
const TICK: Duration = Duration::from_millis(100);

/// Moves memory, then looks again.
pub fn run(cli: &Cli, around: &Surroundings, args: &MigrateArgs) -> Result<CommandResult, Failure> {
    if args.dry_run {
        return plan::run(cli, around, &args.plan);
    }
    let asks_for_job = matches!(args.plan.check_here(), Err(Failure::NeedsDaemon { .. }))
        || args.validate_only
        || cli.connect.endpoint.is_some();
    if args.plan.files.is_given() && !asks_for_job {
        return files::migrate(cli, around, args);
    }
    if args.draw.draw.is_some() {
        map::check_place(cli, around)?;
    }
    let before = traffic::before(cli, around, args)?;
    let result = match daemon(cli, around)? {
        Some(daemon) => by_daemon(cli, &daemon, args),
        None => here(cli, &around.roots, args),
    }?;
    if let Some(before) = before {
        before.compare(&around.roots);
    }
    Ok(result)
}

/// Creates a job of the daemon, and follows it.
fn by_daemon(cli: &Cli, daemon: &Daemon, args: &MigrateArgs) -> Result<CommandResult, Failure> {
    args.plan.exchange.check_daemon()?;
    let job = &args.plan.job;
    let request = CreateJob {
        spec: args.plan.spec(&daemon.with_memory_for(&args.plan.options)?)?,
        request_id: job.request_id.clone(),
        on_conflict: if job.join { OnConflict::Join } else { OnConflict::Refuse },
        id: job.id.clone(),
        labels: job.label.iter().cloned().collect(),
        validate_only: args.validate_only,
    };
    let detach = job.detach;
    let mut interrupts = daemon.interrupts()?;
    let (job, existing) = match daemon.create_job(&request, &mut interrupts) {
        // There is nothing to follow. What only asks for a job still fails.
        Err(Failure::NoTargetNode(why)) if !detach && !args.validate_only => {
            return wait::report(cli, &nowhere(why));
        }
        made => made?,
    };
    if args.validate_only {
        let answer = v1::ListJobsResponse { jobs: vec![job], ..Default::default() };
        return shown(cli, &answer, |answer, view| {
            let jobs = answer.jobs.iter().map(|job| text::job_to_be(job, view));
            jobs.collect()
        });
    }
    if detach {
        let answer = v1::ListJobsResponse { jobs: vec![job], ..Default::default() };
        return shown(cli, &answer, |answer, _| wait::names(&answer.jobs));
    }
    let on_interrupt = match existing {
        true => OnCtrlC::Leave(&mut interrupts),
        false => OnCtrlC::Cancel(&mut interrupts),
    };
    let ended = wait::follow(daemon, &wait::id(&job)?, on_interrupt, wish(args), |_| Ok(()))?;
    wait::report(cli, &ended)
}

fn here(cli: &Cli, roots: &Roots, args: &MigrateArgs) -> Result<CommandResult, Failure> {
    args.plan.check_here()?;
    if args.validate_only {
        return Err(Failure::NeedsDaemon { option: "--validate-only" });
    }
    let limits = args.plan.limits.limits();
    let file = map::file(args.draw.draw.as_deref())?;
    let mut planned = plan::planned(roots, &args.plan, Policies::Ask)?;
    for found in inspect::found(&planned.party).iter().map(v1::FoundMember::from) {
        complain(text::found_members(&[found]).trim_end());
    }
    if planned.plan.can_be_undone() {
        warn(roots, args);
    }
    let look = |file| MoveMap::before(roots, &planned, file, &args.draw);
    let picture = file.map(look).transpose()?;
    let interrupted = signals::interrupted()?;
    let (outcome, made_room) = watch(&mut planned, &limits, wish(args), &interrupted)?;
    let partners = partners::moved(&planned, &made_room);
    let after = look_after(&planned, &signals::from_now_on(&interrupted));
    let spec = args.plan.spec(&planned.topology.with_memory())?;
    let offload = inspect::by_cpu(roots, spec.policy.offload, &outcome);
    if let Some(picture) = picture {
        picture.after();
    }
    let inspected = &Inspection::from(planned);
    let here = Here { spec: &spec, inspected, outcome, partners, offload, after };
    wait::report(cli, &here.into())
}

/// Warns if the kernel's NUMA balancing is on, which may work against the move.
fn warn(roots: &Roots, args: &MigrateArgs) {
    let action = args.plan.options.pace.numa_balancing.unwrap_or_default();
    if action == NumaBalancing::Warn && is_balancing(numa_balancing::read(roots).ok().flatten()) {
        complain(&format!(
            "warning: kernel.numa_balancing is on: {BALANCING_ADVICE} (--numa-balancing ignore keeps quiet about it)"
        ));
    }
}

fn wish(args: &MigrateArgs) -> Wish {
    Wish::from(args.plan.progress)
}

/// Carries the plan out, shows progress, and cancels the run on Ctrl-C.
fn watch(
    planned: &mut PlannedMigration<Resolved>,
    limits: &RunLimits,
    wish: Wish,
    interrupted: &AtomicBool,
) -> Result<(Outcome, Vec<Outcome>), Failure> {
    let mut progress = ProgressDisplay::new(wish, planned.plan.planned_bytes());
    let done = inspect::carry_out(planned, limits, TICK, |control| {
        if interrupted.load(Relaxed) {
            control.cancel.store(true, Relaxed);
        }
        progress.update(control.settled_bytes.load(Relaxed), &control.held_back());
    });
    progress.finish();
    done
}

/// What is found after the move, if there was one. The processes may be gone: that is not a failure of the migration.
fn look_after(
    planned: &PlannedMigration<Resolved>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Plan>, Error> {
    match planned.plan.is_skipped() {
        true => Ok(None),
        false => planned.look_again(stop),
    }
}

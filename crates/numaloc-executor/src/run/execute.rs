//! Runs a plan: starts the workers, joins their reports and builds the outcome.

use crate::{
    Outcome, ProcessOutcome,
    limits::assignment::Assignment,
    pace::scaling::Scaling,
    room::{RoomMakers, exchange::Exchange},
    run::{attached, pool::WorkerPool},
    threads::{affinity, placement, spare::SpareCpus},
    work::{
        Work,
        report::{self, Report},
        targets,
    },
};
use numaloc_core::{CpuSet, Flows, Heat, Order, Plan, Reason, Rule, Topology};
use numaloc_host::{AddressSpace, Error, Roots, Survey, exclusive_cpus, heat};
use std::{sync::atomic::Ordering, time::Instant};

/// Carries out a plan. Blocks until the run is done, cancelled or out of time. `exchange`: others who may be asked for room.
///
/// # Errors
/// The run could not begin. Later failures are in the outcome.
pub fn execute(run: Assignment<'_>, exchange: Option<&Exchange>) -> Result<Outcome, Error> {
    let begin = Instant::now();
    let Assignment { roots, topology, plan, survey, limits, control, .. } = run;
    let work = Work::new(run);
    let makers = RoomMakers::new(&work, exchange);
    if let Some(heat) = heat(roots, &work, survey)? {
        work.hottest_first(&heat);
    }
    let cpus = quiet_cpus(roots, topology, plan, survey, work.workers);
    tracing::debug!(?cpus, ?limits.scheduling, "movers");
    let spare = spare_cpus(roots, &work, cpus.as_ref());
    let mut report = WorkerPool::new(&work, &makers, survey, cpus, spare).run();
    control.set_pressure(String::new());
    if !survey.attached.is_empty() {
        attached::move_unmapped(run, &work, &mut report);
    }
    work.pacer.sum_up(&mut report.calls);
    settle_rest(&mut report, &work, survey);
    let cancelled = control.cancel.load(Ordering::Relaxed);
    let Report { accounts, errors, moved, flows: process_flows, cache_flows, .. } = report;
    let Report { calls, sample, .. } = report;
    let mut named_bytes = vec![0; plan.options.maps.len()];
    for (planned_move, bytes) in plan.moves.iter().zip(moved) {
        let named = planned_move.rule.and_then(Rule::request);
        let named = named.and_then(|rule| named_bytes.get_mut(rule));
        named.into_iter().for_each(|named| *named += bytes);
    }
    let mut flows = Flows::new();
    process_flows.iter().for_each(|of_one| report::add(&mut flows, of_one.clone()));
    let outcomes =
        plan.processes.iter().zip(accounts).zip(errors).enumerate().map(|(index, found)| {
            let ((planned, mut account), error) = found;
            account.nearer(plan.nearer_of(index, &process_flows[index]));
            debug_assert!(account.closes(), "{account:?}");
            let (identity, comm) = (planned.process.identity, planned.process.comm.clone());
            ProcessOutcome { identity, comm, account, error }
        });
    Ok(Outcome {
        processes: outcomes.collect(),
        flows,
        process_flows,
        named_bytes,
        cache_flows,
        calls,
        elapsed: begin.elapsed(),
        cancelled,
        ended_with: control.ended_with(),
        sample: sample.into_pages(),
    })
}

/// CPUs for the movers, on which the target's processes do not run; `None`: the movers stay on the caller's CPUs.
fn quiet_cpus(
    roots: &Roots,
    topology: &Topology,
    plan: &Plan,
    survey: &Survey,
    movers: usize,
) -> Option<CpuSet> {
    let used = survey.spaces.iter().fold(CpuSet::new(), |cpus, space| cpus.or(&space.process.cpus));
    let free = affinity::get()?.minus(&used);
    if free.len() < movers {
        return None;
    }
    placement::quiet_cpus(topology, &targets(plan), &free, &exclusive_cpus(roots), movers)
}

/// The `quiet` CPUs that more workers than the run begins with may use: not the CPUs that others have for themselves.
/// `None`: no such CPUs exist, or the run ends before it could try one.
fn spare_cpus(roots: &Roots, work: &Work<'_>, quiet: Option<&CpuSet>) -> Option<SpareCpus> {
    let quiet = quiet.filter(|quiet| quiet.len().min(work.most_workers) > work.workers)?;
    let before = Scaling::bytes_before_trials(work.workers, work.pacer.most_bytes);
    if work.plan.planned_bytes() <= before {
        return None;
    }
    let cpus = quiet.minus(&exclusive_cpus(roots));
    (cpus.len() > work.workers).then(|| SpareCpus::new(roots, cpus)).flatten()
}

/// Measures which memory is used most, by the method that the plan names. With `Order::Probed` a failure is only logged: the run
/// then goes by address.
fn heat(roots: &Roots, work: &Work<'_>, survey: &Survey) -> Result<Option<Heat>, Error> {
    let plan = work.plan;
    match heat::measure(roots, plan, survey, &|| work.stop().is_some()) {
        Err(error) if plan.options.order == Order::Probed => {
            tracing::warn!(%error, "cannot measure which memory is used most; moving in the order of addresses");
            Ok(None)
        }
        heat => heat,
    }
}

/// Settles the bytes that no window found. The amounts are the plan's, because these pages are not scanned again.
fn settle_rest(report: &mut Report, work: &Work<'_>, survey: &Survey) {
    for skipped in &work.plan.skipped {
        report.untouched(skipped.mapping.process, skipped.reason, skipped.remote_bytes);
    }
    let unvisited = work.take_unvisited();
    let alive: Vec<bool> = survey.spaces.iter().map(AddressSpace::is_alive).collect();
    for (index, planned_move) in work.plan.moves.iter().enumerate() {
        let rest = planned_move.remote_bytes().saturating_sub(report.found[index]);
        let gone = planned_move.mappings.iter().all(|mapping| !alive[mapping.process]);
        let reason =
            if gone { Some(Reason::ProcessGone) } else { work.stop().filter(|_| unvisited[index]) };
        let unread = report.unread[index].then_some(Reason::Unreadable);
        match reason.or(unread) {
            Some(reason) => report.untouched(planned_move.mappings[0].process, reason, rest),
            // A window visited the place and did not find the page: it was freed, or the kernel moved it, between plan and visit.
            None => report.vanished(planned_move.mappings[0].process, rest),
        }
    }
}

//! The way of a plan through its workers.

use crate::{
    Control, Outcome, ProcessOutcome, SharedRate, affinity, placement,
    report::{self, Report},
    work::{Work, targets},
    worker::Worker,
};
use numaloc_core::{CpuSet, Flows, Heat, Order, Plan, Reason, Topology};
use numaloc_host::{AddressSpace, Error, Roots, Survey, heat};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Bounds of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of bytes in one move_pages call; a single folio may be larger. `None`: as the pace has it.
    pub batch_bytes: Option<u64>,
    /// Threads that move at the same time. `None`: as the pace has it.
    pub workers: Option<usize>,
    /// Tries for a page that the kernel could not move, with pauses that grow between them.
    pub attempts: u32,
    /// When to give up.
    pub timeout: Option<Duration>,
    /// Most bytes per second that are passed to calls, whether they move or not.
    pub rate_bytes_per_second: Option<u64>,
    /// Share of the time that a worker may spend in calls, in percent from 1 to 100. `None`: as the pace has it.
    pub duty_percent: Option<u8>,
    /// The same for several runs together, besides each run's own.
    pub shared_rate: Option<Arc<SharedRate>>,
    /// How the threads that move are scheduled.
    pub scheduling: Scheduling,
}

/// How the threads that move are scheduled. A mover that is kept from a CPU keeps what it holds locked, so a high nice
/// value can hurt the target more than it helps its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// As SCHED_BATCH: others do not wait because a mover wakes up (sched(7)).
    pub batch: bool,
    /// Another nice value than the caller's, from -20 to 19.
    pub nice: Option<i8>,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self { batch: true, nice: None }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch_bytes: None,
            workers: None,
            attempts: 4,
            timeout: None,
            rate_bytes_per_second: None,
            duty_percent: None,
            shared_rate: None,
            scheduling: Scheduling::default(),
        }
    }
}

/// Carries out `plan`, which was made from `survey`. Blocks until it is done, cancelled or out of time.
///
/// # Errors
/// Only when it could not begin. What fails on the way is in the outcome.
pub fn execute(
    roots: &Roots,
    topology: &Topology,
    plan: &Plan,
    survey: &Survey,
    limits: &Limits,
    control: &Control,
) -> Result<Outcome, Error> {
    let begin = Instant::now();
    let work = Work::new(roots, topology, plan, survey, limits, control)?;
    if let Some(heat) = heat(roots, &work, survey)? {
        work.hottest_first(&heat);
    }
    let workers: Vec<Worker<'_>> =
        (0..work.workers).map(|_| Worker::new(roots, &work, survey)).collect();
    let cpus = quiet_cpus(topology, plan, survey, work.workers);
    tracing::debug!(?cpus, ?limits.scheduling, "movers");
    let mut report = Report::new(plan);
    // What a worker logs belongs to whatever the caller is at.
    let span = tracing::Span::current();
    thread::scope(|scope| {
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                scope.spawn(|| {
                    span.in_scope(|| {
                        placement::enter(limits.scheduling, cpus.as_ref());
                        work.pacer.while_at_work(|| worker.run())
                    })
                })
            })
            .collect();
        for worker in running {
            report.add(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    control.set_pressure(String::new());
    work.pacer.sum_up(&mut report.calls);
    settle_rest(&mut report, &work, survey);
    let cancelled = control.cancel.load(Ordering::Relaxed);
    let Report { accounts, errors, flows: process_flows, calls, sample, .. } = report;
    let mut flows = Flows::new();
    process_flows.iter().for_each(|of_one| report::add(&mut flows, of_one.clone()));
    let outcomes =
        plan.processes.iter().zip(accounts).zip(errors).map(|((planned, account), error)| {
            debug_assert!(account.closes(), "{account:?}");
            let (identity, comm) = (planned.process.identity, planned.process.comm.clone());
            ProcessOutcome { identity, comm, account, error }
        });
    Ok(Outcome {
        processes: outcomes.collect(),
        flows,
        process_flows,
        calls,
        elapsed: begin.elapsed(),
        cancelled,
        sample: sample.into_pages(),
    })
}

/// CPUs that the movers keep to; `None`: where the caller runs.
fn quiet_cpus(topology: &Topology, plan: &Plan, survey: &Survey, movers: usize) -> Option<CpuSet> {
    let used = survey.spaces.iter().fold(CpuSet::new(), |cpus, space| cpus.or(&space.process.cpus));
    placement::quiet_cpus(topology, &targets(plan), &used, &affinity::get()?, movers)
}

/// What is used most, as the plan has it found out. Where it was left to us how, we do without when that fails.
fn heat(roots: &Roots, work: &Work<'_>, survey: &Survey) -> Result<Option<Heat>, Error> {
    let plan = work.plan;
    match heat::measure(roots, plan, survey, &|| work.stop().is_some()) {
        Err(error) if plan.options.order == Order::Probed => {
            tracing::warn!(%error, "moving by address");
            Ok(None)
        }
        heat => heat,
    }
}

/// Accounts for what no window has come to: by the plan's numbers, because nobody looks there any more.
fn settle_rest(report: &mut Report, work: &Work<'_>, survey: &Survey) {
    for skipped in &work.plan.skipped {
        report.untouched(skipped.mapping.process, skipped.reason, skipped.remote_bytes);
    }
    let unvisited = work.take_unvisited();
    let alive: Vec<bool> = survey.spaces.iter().map(AddressSpace::is_alive).collect();
    for (index, step) in work.plan.moves.iter().enumerate() {
        let rest = step.remote_bytes().saturating_sub(report.found[index]);
        let gone = step.mappings.iter().all(|mapping| !alive[mapping.process]);
        let reason =
            if gone { Some(Reason::ProcessGone) } else { work.stop().filter(|_| unvisited[index]) };
        let unread = report.unread[index].then_some(Reason::Unreadable);
        match reason.or(unread) {
            Some(reason) => report.untouched(step.mappings[0].process, reason, rest),
            // Visited, and not found: it was freed, or the kernel moved it, between plan and visit.
            None => report.vanished(step.mappings[0].process, rest),
        }
    }
}

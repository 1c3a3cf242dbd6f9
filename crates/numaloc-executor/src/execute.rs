//! The way of a plan through its workers.

use crate::{Outcome, ProcessOutcome, report::Report, work::Work, worker::Worker};
use numaloc_core::{Plan, Reason, Topology};
use numaloc_host::{Error, Roots, Survey};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Bounds of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of bytes in one move_pages call; a single folio may be larger.
    pub batch_bytes: u64,
    /// Threads that move at the same time.
    pub workers: usize,
    /// Tries for a page that the kernel could not move, with pauses that grow between them.
    pub attempts: u32,
    /// When to give up.
    pub timeout: Option<Duration>,
    /// Most bytes per second that are passed to calls, whether they move or not.
    pub rate_bytes_per_second: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch_bytes: 16 << 20,
            workers: 2,
            attempts: 4,
            timeout: None,
            rate_bytes_per_second: None,
        }
    }
}

/// Shared with whoever watches a run.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to stop after the batches in hand.
    pub cancel: AtomicBool,
    /// Bytes that have been settled so far: moved or given up.
    pub settled_bytes: AtomicU64,
    /// Bytes confirmed on their target so far.
    pub moved_bytes: AtomicU64,
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
    let work = Work::new(topology, plan, limits, control);
    let workers: Result<Vec<Worker<'_>>, Error> =
        (0..limits.workers.max(1)).map(|_| Worker::new(roots, &work, survey)).collect();
    let workers = workers?;
    let mut report = Report::new(plan);
    // What a worker logs belongs to whatever the caller is at.
    let span = tracing::Span::current();
    thread::scope(|scope| {
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(|| span.in_scope(|| worker.run())))
            .collect();
        for worker in running {
            report.add(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    settle_rest(&mut report, &work, survey);
    let cancelled = control.cancel.load(Ordering::Relaxed);
    let Report { accounts, errors, flows, calls, .. } = report;
    let outcomes =
        plan.processes.iter().zip(accounts).zip(errors).map(|((planned, account), error)| {
            debug_assert!(account.closes(), "{account:?}");
            let (identity, comm) = (planned.process.identity, planned.process.comm.clone());
            ProcessOutcome { identity, comm, account, error }
        });
    Ok(Outcome { processes: outcomes.collect(), flows, calls, elapsed: begin.elapsed(), cancelled })
}

/// Accounts for what no window has come to: by the plan's numbers, because nobody looks there any more.
fn settle_rest(report: &mut Report, work: &Work<'_>, survey: &Survey) {
    for skipped in &work.plan.skipped {
        report.untouched(skipped.mapping.process, skipped.reason, skipped.remote_bytes);
    }
    let first_unvisited = work.next().map(|window| window.step);
    for (index, step) in work.plan.moves.iter().enumerate() {
        let rest = step.remote_bytes().saturating_sub(report.found[index]);
        let gone = step.mappings.iter().all(|mapping| !survey.spaces[mapping.process].is_alive());
        let unvisited = first_unvisited.is_some_and(|first| index >= first);
        let reason =
            if gone { Some(Reason::ProcessGone) } else { work.stop().filter(|_| unvisited) };
        match reason {
            Some(reason) => report.untouched(step.mappings[0].process, reason, rest),
            // Visited, and still there: it was freed, or the kernel moved it, between plan and visit.
            None => report.vanished(step.mappings[0].process, rest),
        }
    }
}

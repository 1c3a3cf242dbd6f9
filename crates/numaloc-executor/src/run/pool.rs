//! The workers of a run: starts them, and starts more where these add to the rate.

use crate::{
    pace::scaling::{Scaling, ScalingStep},
    room::RoomMakers,
    run::worker::Worker,
    threads::{placement, spare::SpareCpus},
    work::{Work, report::Report},
};
use numaloc_core::CpuSet;
use numaloc_host::Survey;
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, Scope},
    time::Instant,
};

/// The workers of a run, and what they have done.
#[derive(Debug)]
pub struct WorkerPool<'a> {
    work: &'a Work<'a>,
    makers: &'a RoomMakers<'a>,
    survey: &'a Survey,
    cpus: Option<CpuSet>,
    growth: Option<Mutex<Growth>>,
    report: Mutex<Report>,
    /// The most workers at the same time so far.
    most: AtomicU64,
    /// Log lines of a worker belong to the caller's span.
    span: tracing::Span,
}

/// Decides how many workers there are.
#[derive(Debug)]
struct Growth {
    scaling: Scaling,
    spare: SpareCpus,
    begin: Instant,
    /// Bytes that had moved before the run.
    moved_before: u64,
}

impl<'a> WorkerPool<'a> {
    /// The workers run on `cpus`, or on the caller's. `spare`: CPUs for more workers than the run begins with.
    pub fn new(
        work: &'a Work<'a>,
        makers: &'a RoomMakers<'a>,
        survey: &'a Survey,
        cpus: Option<CpuSet>,
        spare: Option<SpareCpus>,
    ) -> Self {
        let growth = spare.map(|spare| {
            Mutex::new(Growth {
                scaling: Scaling::new(work.workers, work.pacer.most_bytes),
                spare,
                begin: Instant::now(),
                moved_before: work.control.moved_bytes.load(Ordering::Relaxed),
            })
        });
        let report = Mutex::new(Report::new(work.plan));
        let most = AtomicU64::new(work.workers as u64);
        Self { work, makers, survey, cpus, growth, report, most, span: tracing::Span::current() }
    }

    /// Runs the workers until none has anything left to do. Returns what they have done together.
    pub fn run(self) -> Report {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.work.workers).map(|_| self.worker()).collect();
            workers.into_iter().for_each(|worker| self.start(scope, worker));
        });
        let mut report = self.report.into_inner();
        report.calls.workers = self.most.into_inner();
        report
    }

    fn worker(&self) -> Worker<'a> {
        Worker::new(self.work, self.makers, self.survey)
    }

    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, worker: Worker<'a>) {
        scope.spawn(move || {
            self.span.in_scope(|| {
                placement::enter(self.work.limits.scheduling, self.cpus.as_ref());
                let report =
                    self.work.pacer.while_at_work(|| worker.run(&mut || self.continues(scope)));
                self.report.lock().add(report);
            });
        });
    }

    /// Whether the calling worker takes a further window. Starts one more worker if that adds to the rate.
    fn continues<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> bool {
        let Some(growth) = &self.growth else { return true };
        let Some(mut growth) = growth.try_lock() else { return true };
        let step = growth.step(self.work);
        let workers = growth.scaling.workers();
        drop(growth);
        if step != ScalingStep::Keep {
            tracing::debug!(workers, "workers");
            self.most.fetch_max(workers as u64, Ordering::Relaxed);
            self.work.share_among(workers);
        }
        if step == ScalingStep::Add {
            self.start(scope, self.worker());
        }
        step != ScalingStep::Remove
    }
}

impl Growth {
    fn step(&mut self, work: &Work<'_>) -> ScalingStep {
        let moved = work.control.moved_bytes.load(Ordering::Relaxed);
        let moved = moved.saturating_sub(self.moved_before);
        if !self.scaling.is_due(moved) {
            return ScalingStep::Keep;
        }
        let now = Instant::now();
        let room = self.spare.room(now).min(work.most_workers);
        self.scaling.step(now - self.begin, moved, room)
    }
}

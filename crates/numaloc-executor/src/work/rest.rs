//! When a worker rests or waits, and how long.

use crate::{
    Control,
    pace::{duty::Duty, pacer::Pacer},
};
use numaloc_core::{CallStats, Reason};
use numaloc_host::wait;
use std::{
    fmt::Debug,
    thread,
    time::{Duration, Instant},
};

/// Longest stretch of rest before a worker checks again whether it still has to rest.
const STRETCH: Duration = Duration::from_millis(20);
/// Pause before the next look at what other workers have done.
const WORKERS_PAUSE: Duration = Duration::from_millis(1);
/// Pause before the next look at what the other side of an exchange has done. Its calls take longer.
pub const EXCHANGE_PAUSE: Duration = Duration::from_millis(2);

/// The run of a worker that rests.
pub trait Paced: Debug + Sync {
    /// Decides how fast the run may go.
    fn pacer(&self) -> &Pacer<'_>;
    /// Cancellation and progress.
    fn control(&self) -> &Control;
    /// Why no further batch may begin; `None`: it may.
    fn stop(&self) -> Option<Reason>;
}

/// Keeps a worker to the pace of its run.
#[derive(Debug)]
pub struct Rests<'a> {
    work: &'a dyn Paced,
    /// Busy time still to be paid for by rest, up to `since`.
    duty: Duty,
    /// The same time, if only the profile's own pace slowed the run down. It tells rests for the pace from other waits.
    owed: Duty,
    since: Instant,
    rested: Duration,
    held_back: Duration,
}

impl<'a> Rests<'a> {
    /// Begins to count time as work now.
    pub fn new(work: &'a dyn Paced) -> Self {
        let (duty, owed, since) = (Duty::default(), Duty::default(), Instant::now());
        Self { work, duty, owed, since, rested: Duration::ZERO, held_back: Duration::ZERO }
    }

    /// Waits until the bandwidth limits allow `bytes`, or until the run must stop.
    pub fn pay(&mut self, bytes: u64) {
        let wait = self.work.pacer().pay(bytes);
        if !wait.is_zero() {
            let limited = self.work.control().limited();
            self.hold_back(wait);
            drop(limited);
            self.rest();
        }
    }

    /// Waits until so much page cache may be dropped on a target, or until the run must stop.
    pub(crate) fn pay_for_drops(&mut self, bytes: u64) {
        let wait = self.work.pacer().pay_for_drops(bytes);
        if !wait.is_zero() {
            let dropping = self.work.control().dropping();
            self.hold_back(wait);
            drop(dropping);
        }
    }

    /// Rests for the work since the last rest. Scans and verifications count like calls, because they take mmap_lock and CPU time
    /// too.
    pub fn rest(&mut self) {
        let pacer = self.work.pacer();
        loop {
            pacer.check_pressure();
            self.worked(Instant::now());
            let rest = if pacer.is_resting() { STRETCH } else { self.duty.rest(pacer.share()) };
            if rest.is_zero() || self.work.stop().is_some() {
                return;
            }
            let rest = rest.min(STRETCH);
            if pacer.holds_back() {
                self.hold_back(rest);
            } else {
                let rested = self.pause(rest);
                self.rested += rested;
            }
        }
    }

    /// Waits for `pause`, or until the run must stop. Returns how long it waited.
    pub fn pause(&mut self, pause: Duration) -> Duration {
        let begin = Instant::now();
        self.worked(begin);
        let pacer = self.work.pacer();
        pacer.while_idle(|| wait(pause, &|| self.work.stop().is_some()));
        let waited = begin.elapsed();
        self.duty.rested(waited, pacer.share());
        self.owed.rested(waited, pacer.duty());
        self.since = begin + waited;
        waited
    }

    /// Waits a moment for other workers, which have reserved the last of the room or of the movable memory.
    pub fn await_others(&mut self) {
        match self.work.control().allowance {
            // The run that makes the allowance decides when this one continues, so the wait is not work of this run.
            Some(_) => {
                self.pause(EXCHANGE_PAUSE);
            }
            None => thread::sleep(WORKERS_PAUSE),
        }
    }

    /// Time for which it has rested and was held back so far.
    pub fn stats(&self) -> CallStats {
        CallStats { rested: self.rested, held_back: self.held_back, ..CallStats::default() }
    }

    /// Waits for another reason than the pace. The part of the wait that the pace would have asked for counts as rest.
    fn hold_back(&mut self, pause: Duration) {
        let owed = self.owed.rest(self.work.pacer().duty());
        let waited = self.pause(pause);
        let rested = waited.min(owed);
        self.rested += rested;
        self.held_back += waited - rested;
    }

    /// Counts the time since `since` as work.
    fn worked(&mut self, now: Instant) {
        let busy = now - self.since;
        self.since = now;
        self.duty.worked(busy);
        self.owed.worked(busy);
    }
}

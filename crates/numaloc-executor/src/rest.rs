//! When a worker rests or waits, and how long.

use crate::worker::Worker;
use std::time::{Duration, Instant};

/// Longest stretch of rest before a worker checks again whether it still has to rest.
const STRETCH: Duration = Duration::from_millis(20);

impl Worker<'_> {
    /// Waits until the bandwidth limits allow `bytes`, or until the run must stop.
    pub(crate) fn pay(&mut self, bytes: u64) {
        let wait = self.work.pacer.pay(bytes);
        if !wait.is_zero() {
            let limited = self.work.control.limited();
            self.hold_back(wait);
            drop(limited);
            self.rest();
        }
    }

    /// Waits until so much page cache may be dropped on a target, or until the run must stop.
    pub(crate) fn pay_for_drops(&mut self, bytes: u64) {
        let wait = self.work.pacer.pay_for_drops(bytes);
        if !wait.is_zero() {
            let dropping = self.work.control.dropping();
            self.hold_back(wait);
            drop(dropping);
        }
    }

    /// Rests for the work since the last rest. Scans and second looks count like calls, because they take mmap_lock and CPU time
    /// too.
    pub(crate) fn rest(&mut self) {
        let pacer = &self.work.pacer;
        loop {
            pacer.look();
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
                self.report.calls.rested += rested;
            }
        }
    }

    /// Waits for another reason than the pace. The part of the wait that the pace would have asked for counts as rest.
    fn hold_back(&mut self, pause: Duration) {
        let owed = self.owed.rest(self.work.pacer.duty());
        let waited = self.pause(pause);
        let rested = waited.min(owed);
        self.report.calls.rested += rested;
        self.report.calls.held_back += waited - rested;
    }

    /// Waits for `pause`, or until the run must stop. Returns how long it waited.
    pub(crate) fn pause(&mut self, pause: Duration) -> Duration {
        let begin = Instant::now();
        self.worked(begin);
        let pacer = &self.work.pacer;
        pacer.while_idle(|| self.work.wait(pause));
        let waited = begin.elapsed();
        self.duty.rested(waited, pacer.share());
        self.owed.rested(waited, pacer.duty());
        self.since = begin + waited;
        waited
    }

    /// Counts the time since `since` as work.
    fn worked(&mut self, now: Instant) {
        let busy = now - self.since;
        self.since = now;
        self.duty.worked(busy);
        self.owed.worked(busy);
    }
}

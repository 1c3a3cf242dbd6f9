//! When a worker waits for the sake of others, and how long.

use crate::worker::Worker;
use std::time::{Duration, Instant};

/// How long a worker rests at a stretch before it looks again whether it still has to.
const STRETCH: Duration = Duration::from_millis(100);

impl Worker<'_> {
    /// Waits until the bandwidth limits let `bytes` through; no longer than until the run is to stop.
    pub(crate) fn pay(&mut self, bytes: u64) {
        let wait = self.work.pacer.pay(bytes);
        if !wait.is_zero() {
            let _limited = self.work.control.limited();
            let waited = self.pause(wait);
            self.report.calls.held_back += waited;
        }
    }

    /// Rests for what it has done since its last rest: scans and second looks count as calls do, because they take
    /// mmap_lock and CPU time as well.
    pub(crate) fn rest(&mut self) {
        loop {
            self.work.pacer.look();
            let busy = self.since.elapsed();
            self.since += busy;
            self.duty.worked(busy);
            let rest = self.duty.rest(self.work.pacer.share());
            if rest.is_zero() || self.work.stop().is_some() {
                return;
            }
            let rested = self.pause(rest.min(STRETCH));
            self.report.calls.held_back += rested;
        }
    }

    /// Waits so long; no longer than until the run is to stop. Returns how long it was.
    pub(crate) fn pause(&mut self, pause: Duration) -> Duration {
        let begin = Instant::now();
        self.duty.worked(begin - self.since);
        self.work.wait(pause);
        let waited = begin.elapsed();
        self.duty.rested(waited, self.work.pacer.share());
        self.since = begin + waited;
        waited
    }
}

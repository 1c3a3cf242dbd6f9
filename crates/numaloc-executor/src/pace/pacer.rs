//! The pace of a run: its workers share here how much a call may hold and how much they have to rest.

use crate::{
    Control, RunLimits, SharedRate,
    pace::{
        brake::LEAST,
        splits::Splits,
        stall::{self, Stall},
        watch::RunWatch,
    },
    pages::folio::Class,
};
use numaloc_core::{CallStats, CpuSet, NodeId, Pace};
use numaloc_host::{Migrations, Roots, migrations};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Shared by the workers of a run.
#[derive(Debug)]
pub struct Pacer<'a> {
    control: &'a Control,
    duty: f64,
    /// Largest number of bytes in one call, by limits, profile and rates; a single folio may be larger.
    pub most_bytes: u64,
    stall: Mutex<Stall>,
    rates: Vec<Arc<SharedRate>>,
    /// Bounds the page cache that is dropped for the run.
    drops: Option<SharedRate>,
    brakes: Mutex<Brakes>,
    /// The smallest factor of the brakes, as the bits of an f64.
    factor: AtomicU64,
    /// Whether all workers are to rest.
    resting: AtomicBool,
    /// Number of workers that neither rest nor wait.
    at_work: AtomicUsize,
    roots: &'a Roots,
    begin: Instant,
    before: Migrations,
}

/// Reasons to slow a run down: pressure and CPU use that are watched, and huge pages that are split.
#[derive(Debug)]
struct Brakes {
    watch: Option<RunWatch>,
    splits: Option<Splits>,
}

impl<'a> Pacer<'a> {
    /// Begins at full pace, with a low guess of the machine's speed. `pids`: the processes whose pressure is watched; if there are none,
    /// that of the whole host. `nodes`: the target nodes with their CPUs.
    pub fn new(
        roots: &'a Roots,
        pace: &Pace,
        pids: &[i32],
        nodes: Vec<(NodeId, CpuSet)>,
        limits: &RunLimits,
        control: &'a Control,
    ) -> Self {
        let own = limits.rate_bytes_per_second.map(|rate| Arc::new(SharedRate::new(rate)));
        let rates: Vec<_> = own.into_iter().chain(limits.shared_rate.clone()).collect();
        let most_bytes = rates
            .iter()
            .map(|rate| rate.batch_bytes())
            .fold(limits.batch_bytes.unwrap_or(pace.batch_bytes), u64::min);
        let watch = pace.guard.map(|bounds| RunWatch::new(roots, pids, nodes, bounds));
        tracing::debug!(most_bytes, ?pace, "pace");
        let splits = pace.waits_for_huge_pages.then(Splits::new);
        Self {
            control,
            duty: duty(limits, pace),
            most_bytes,
            stall: Mutex::new(Stall::paced(pace, most_bytes)),
            rates,
            drops: pace.drop_bytes_per_second.map(SharedRate::new),
            brakes: Mutex::new(Brakes { watch, splits }),
            factor: AtomicU64::new(1f64.to_bits()),
            resting: AtomicBool::new(false),
            at_work: AtomicUsize::new(0),
            roots,
            begin: Instant::now(),
            before: migrations(roots).unwrap_or_default(),
        }
    }

    /// Runs a worker's `work`. The worker counts as at work meanwhile, except while it waits. A rest is measured only when no
    /// worker is at work.
    pub fn while_at_work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.at_work.fetch_add(1, Relaxed);
        let done = work();
        self.at_work.fetch_sub(1, Relaxed);
        done
    }

    /// Runs `wait`. The worker does not count as at work meanwhile.
    pub fn while_idle(&self, wait: impl FnOnce()) {
        self.at_work.fetch_sub(1, Relaxed);
        wait();
        self.at_work.fetch_add(1, Relaxed);
    }

    /// Bytes of folios of a class that the next call may hold; a single folio may be larger.
    pub fn batch_bytes(&self, class: Class) -> u64 {
        let bytes = self.stall.lock().bytes(class);
        if self.factor() > LEAST { bytes } else { bytes.min(stall::LEAST) }
    }

    /// To be called before a call with folios of a class. Returns how many huge pages the host has split so far, if it is time to
    /// look.
    pub fn splits_before(&self, class: Class) -> Option<u64> {
        let is_due = |splits: &Splits| splits.is_due(self.begin.elapsed());
        let is_wanted =
            class == Class::Huge && self.brakes.lock().splits.as_ref().is_some_and(is_due);
        is_wanted.then(|| migrations(self.roots)).flatten().map(|now| now.split_huge_pages)
    }

    /// Learns from a call to which `passed` huge pages were passed. `before` is the result of [`Self::splits_before`].
    pub fn learn_splits(&self, before: u64, passed: u64) {
        let Some(now) = migrations(self.roots) else { return };
        let mut brakes = self.brakes.lock();
        if let Some(splits) = &mut brakes.splits {
            let split = now.split_huge_pages.saturating_sub(before);
            splits.take(self.begin.elapsed(), split, passed);
            self.publish(&brakes);
        }
    }

    /// Learns from a call. Returns whether it took too long.
    pub fn learn(&self, class: Class, bytes: u64, took: Duration) -> bool {
        let mut stall = self.stall.lock();
        stall.learn(class, bytes, took);
        took > stall.longest()
    }

    /// The longest time that a call is to take.
    pub fn longest_call(&self) -> Duration {
        self.stall.lock().longest()
    }

    /// Looks for pressure, if it is time and no other worker does so. To be called by a worker between two rests.
    pub fn check_pressure(&self) {
        let Some(mut brakes) = self.brakes.try_lock() else { return };
        let Some(watch) = &mut brakes.watch else { return };
        // The worker that looks counts as at work, though it is not.
        let is_idle = self.at_work.load(Relaxed) <= 1;
        if watch.measure(is_idle) {
            self.publish(&brakes);
        }
    }

    fn publish(&self, brakes: &Brakes) {
        let (mut factor, mut reason) = (1.0, String::new());
        if let Some(watch) = &brakes.watch {
            (factor, reason) = watch.throttle();
            self.resting.store(watch.is_resting(), Relaxed);
        }
        if let Some(splits) = brakes.splits.as_ref().filter(|splits| splits.factor() < factor) {
            (factor, reason) = (splits.factor(), splits.reason());
        }
        let bits = factor.to_bits();
        if self.factor.swap(bits, Relaxed) != bits {
            tracing::debug!(factor, reason, "pace");
        }
        self.control.set_pressure(reason);
    }

    /// Whether all workers are to rest, so that the pressure without them can be measured.
    pub fn is_resting(&self) -> bool {
        self.resting.load(Relaxed)
    }

    /// Whether the run holds back more than its pace asks for.
    pub fn holds_back(&self) -> bool {
        self.is_resting() || self.factor() < 1.0
    }

    /// The share of its time that a worker may work when nothing holds it back.
    pub fn duty(&self) -> f64 {
        self.duty
    }

    /// The share of its time that a worker may work now.
    pub fn share(&self) -> f64 {
        self.duty * self.factor()
    }

    /// Takes `bytes` from all rates. Returns how long to wait before they may move.
    pub fn pay(&self, bytes: u64) -> Duration {
        self.rates.iter().map(|rate| rate.take(bytes)).max().unwrap_or_default()
    }

    /// Counts `bytes` of page cache as dropped. Returns how long to wait before they may be.
    pub fn pay_for_drops(&self, bytes: u64) -> Duration {
        self.drops.as_ref().map_or(Duration::ZERO, |rate| rate.take(bytes))
    }

    /// Adds what the host has migrated since the start of the run, and how long the run has waited for huge pages.
    pub fn sum_up(&self, calls: &mut CallStats) {
        let now = migrations(self.roots).unwrap_or_default();
        calls.split_huge_pages += now.split_huge_pages.saturating_sub(self.before.split_huge_pages);
        calls.failed_pages += now.failed_pages.saturating_sub(self.before.failed_pages);
        calls.huge_page_wait +=
            self.brakes.lock().splits.as_ref().map_or(Duration::ZERO, Splits::waited);
    }

    fn factor(&self) -> f64 {
        let factor = f64::from_bits(self.factor.load(Relaxed));
        if self.control.yielding.load(Relaxed) { factor.min(LEAST) } else { factor }
    }
}

/// The share of its time that a worker may be busy, above 0 and up to 1.
fn duty(limits: &RunLimits, pace: &Pace) -> f64 {
    let percent = limits.duty_percent.unwrap_or(pace.duty_percent);
    f64::from(percent.clamp(1, 100)) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::Pacing;

    #[test]
    fn limits_go_before_the_pace() {
        let pace = Pace { duty_percent: 40, ..Pacing::default().pace() };
        for (duty_percent, share) in
            [(None, 0.4), (Some(20), 0.2), (Some(80), 0.8), (Some(0), 0.01), (Some(200), 1.0)]
        {
            assert_eq!(duty(&RunLimits { duty_percent, ..RunLimits::default() }, &pace), share);
        }
    }
}

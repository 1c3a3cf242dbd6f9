//! The pace of a run: what its workers know together of how much a call may hold and how much they are to rest.

use crate::{
    Control, Limits, SharedRate,
    folio::Class,
    guard::{self, Guard, Signal},
    stall::{self, Stall},
    watch::Watch,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use numaloc_core::{CallStats, CpuSet, NodeId, Pace, Plan};
use numaloc_host::{Migrations, Roots, Survey, Trigger, migrations};
use std::{
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Between two looks at how many huge pages were split.
const SPLIT_PERIOD: Duration = Duration::from_millis(100);
/// Share of the huge pages of such a time that may be split on their way (there is no huge page for them at the target) before
/// the run gives the kernel time to make some.
const SPLIT_PERCENT: f64 = 10.0;

/// Shared by the workers of a run.
#[derive(Debug)]
pub struct Pacer<'a> {
    control: &'a Control,
    duty: f64,
    /// Largest number of bytes in one call, as limits, pace and rates have it; a single folio may be larger.
    pub most_bytes: u64,
    stall: Mutex<Stall>,
    rates: Vec<Arc<SharedRate>>,
    brakes: Mutex<Brakes>,
    /// Bits of the smallest factor of the brakes.
    factor: AtomicU64,
    triggers: Vec<Trigger>,
    /// A trigger has gone off since the last sample.
    alarmed: AtomicBool,
    /// Triggers are of no use any more.
    deaf: AtomicBool,
    roots: &'a Roots,
    begin: Migrations,
}

/// What slows a run down, by what is seen from outside and by how huge pages fare.
#[derive(Debug)]
struct Brakes {
    watch: Option<Watch>,
    pressure: Guard,
    splits: Guard,
    /// As of the last look at the counters.
    split_huge_pages: u64,
    /// Huge pages that were passed to calls since then.
    huge_pages: u64,
    looked: Instant,
}

impl<'a> Pacer<'a> {
    /// Begins carefully. `nodes` are those that are moved to, with their CPUs.
    pub fn new(
        roots: &'a Roots,
        plan: &Plan,
        survey: &Survey,
        nodes: Vec<(NodeId, CpuSet)>,
        limits: &Limits,
        control: &'a Control,
    ) -> Self {
        let pace = plan.options.pacing.pace();
        let own = limits.rate_bytes_per_second.map(|rate| Arc::new(SharedRate::new(rate)));
        let rates: Vec<_> = own.into_iter().chain(limits.shared_rate.clone()).collect();
        let most_bytes = rates
            .iter()
            .map(|rate| rate.batch_bytes())
            .fold(limits.batch_bytes.unwrap_or(pace.batch_bytes), u64::min);
        let pids: Vec<i32> = survey.spaces.iter().map(|space| space.pid()).collect();
        let watch = pace.guard.map(|bounds| Watch::new(roots, &pids, nodes, bounds));
        let triggers = watch.as_ref().map(Watch::triggers).unwrap_or_default();
        tracing::debug!(triggers = triggers.len(), most_bytes, ?pace, "pace");
        let begin = migrations(roots).unwrap_or_default();
        let (pressure, splits) = (Guard::new(), Guard::new());
        let split_huge_pages = begin.split_huge_pages;
        Self {
            control,
            duty: duty(limits, &pace),
            most_bytes,
            stall: Mutex::new(Stall::new(pace.max_stall, most_bytes)),
            rates,
            brakes: Mutex::new(Brakes {
                watch,
                pressure,
                splits,
                split_huge_pages,
                huge_pages: 0,
                looked: Instant::now(),
            }),
            factor: AtomicU64::new(1f64.to_bits()),
            triggers,
            alarmed: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            roots,
            begin,
        }
    }

    /// How many bytes of folios of a class the next call may hold; a single folio may be larger.
    pub fn batch_bytes(&self, class: Class) -> u64 {
        let bytes = self.stall().bytes(class);
        if self.factor() > guard::LEAST { bytes } else { bytes.min(stall::LEAST) }
    }

    /// Learns from a call with so many folios; says whether it took too long.
    pub fn learn(&self, class: Class, folios: u64, bytes: u64, took: Duration) -> bool {
        let is_long = {
            let mut stall = self.stall();
            stall.learn(class, bytes, took);
            took > stall.longest()
        };
        let mut brakes = self.brakes.lock().expect("no worker panics while it holds this");
        brakes.huge_pages += if class == Class::Huge { folios } else { 0 };
        self.look_for_splits(&mut brakes);
        is_long
    }

    /// Looks whether huge pages are split, if some have been passed to calls and it is time: reading the counters can take
    /// longer than moving a huge page does.
    fn look_for_splits(&self, brakes: &mut Brakes) {
        let is_due = brakes.huge_pages > 0 || brakes.splits.factor() < 1.0;
        if !is_due || brakes.looked.elapsed() < SPLIT_PERIOD {
            return;
        }
        let Some(now) = migrations(self.roots) else { return };
        // Others may split pages, too: this is of the whole host.
        let split = now.split_huge_pages.saturating_sub(brakes.split_huge_pages);
        let percent = split as f64 * 100.0 / brakes.huge_pages.max(1) as f64;
        let what = "share of huge pages that are split on their way".into();
        brakes.splits.take([Signal { what, percent, limit: SPLIT_PERCENT }]);
        (brakes.split_huge_pages, brakes.huge_pages) = (now.split_huge_pages, 0);
        brakes.looked = Instant::now();
        self.publish(brakes);
    }

    /// Looks for pressure, if it is time and no other worker does.
    pub fn look(&self) {
        let mut brakes = match self.brakes.try_lock() {
            Ok(brakes) => brakes,
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(_)) => panic!("no worker panics while it holds this"),
        };
        let Brakes { watch: Some(watch), pressure, .. } = &mut *brakes else { return };
        let alarmed = self.alarmed.load(Relaxed);
        if watch.sample(pressure, alarmed, || self.stall().slowdown()) {
            self.alarmed.store(false, Relaxed);
            self.publish(&brakes);
        }
    }

    fn publish(&self, brakes: &Brakes) {
        let Brakes { pressure, splits, .. } = brakes;
        let tighter = if splits.factor() < pressure.factor() { splits } else { pressure };
        let bits = tighter.factor().to_bits();
        if self.factor.swap(bits, Relaxed) != bits {
            let reason = tighter.reason();
            tracing::debug!(factor = tighter.factor(), reason, "pace");
            self.control.set_pressure(reason);
        }
    }

    /// The share of its time that a worker may work now.
    pub fn share(&self) -> f64 {
        self.duty * self.factor()
    }

    /// Takes `bytes` of all rates, and says how long to wait before they may move.
    pub fn pay(&self, bytes: u64) -> Duration {
        self.rates.iter().map(|rate| rate.take(bytes)).max().unwrap_or_default()
    }

    /// Sleeps about so long, and listens to the kernel's triggers meanwhile.
    pub fn sleep(&self, nap: Duration) {
        let ms = u16::try_from(nap.as_millis()).unwrap_or(u16::MAX);
        if ms == 0 || self.triggers.is_empty() || self.deaf.load(Relaxed) {
            return thread::sleep(nap);
        }
        let fds =
            self.triggers.iter().map(|trigger| PollFd::new(trigger.as_fd(), PollFlags::POLLPRI));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        let woken = poll(&mut fds, PollTimeout::from(ms)).unwrap_or(0);
        for events in fds.iter().filter(|_| woken > 0).filter_map(PollFd::revents) {
            if events.contains(PollFlags::POLLPRI) {
                self.alarmed.store(true, Relaxed);
            }
            // A cgroup is gone, and its file would wake whoever polls it at once and for ever.
            if events.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL) {
                self.deaf.store(true, Relaxed);
            }
        }
    }

    /// Adds what the host's migrations have come to since the begin.
    pub fn sum_up(&self, calls: &mut CallStats) {
        let now = migrations(self.roots).unwrap_or_default();
        calls.split_huge_pages += now.split_huge_pages.saturating_sub(self.begin.split_huge_pages);
        calls.failed_pages += now.failed_pages.saturating_sub(self.begin.failed_pages);
    }

    fn factor(&self) -> f64 {
        let factor = f64::from_bits(self.factor.load(Relaxed));
        if self.control.yielding.load(Relaxed) { factor.min(guard::LEAST) } else { factor }
    }

    fn stall(&self) -> MutexGuard<'_, Stall> {
        self.stall.lock().expect("no worker panics while it holds this")
    }
}

/// The share of its time that a worker may be in calls, above 0 and up to 1.
fn duty(limits: &Limits, pace: &Pace) -> f64 {
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
            assert_eq!(duty(&Limits { duty_percent, ..Limits::default() }, &pace), share);
        }
    }
}

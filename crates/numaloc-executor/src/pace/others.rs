//! The CPU time that other processes use on some CPUs.

use numaloc_core::{CpuSet, number};
use numaloc_host::CpuUse;
use std::time::{Duration, Instant};

/// Sets of CPUs, and how long processes other than those of a [`CpuUse`] have kept them busy.
#[derive(Debug)]
pub struct OthersCpu {
    cpu_use: CpuUse,
    /// Each with how long it has been busy until the last look.
    sets: Vec<(CpuSet, Duration)>,
    used: Duration,
    at: Instant,
}

impl OthersCpu {
    /// Begins to watch these sets of CPUs.
    pub fn new(mut cpu_use: CpuUse, sets: impl IntoIterator<Item = CpuSet>) -> Self {
        let with_busy = |cpus| {
            let busy = cpu_use.busy(&cpus);
            (cpus, busy)
        };
        let sets = sets.into_iter().map(with_busy).collect();
        let (used, at) = (cpu_use.used(), Instant::now());
        Self { cpu_use, sets, used, at }
    }

    /// For each set, the share of its CPUs' time that others have used since the last look, in percent. It may be too low: what the
    /// processes use on any CPU is subtracted from each set.
    pub fn percents(&mut self, now: Instant) -> Vec<f64> {
        let wall = now - self.at;
        let used = self.cpu_use.used();
        let own = used.saturating_sub(self.used);
        (self.used, self.at) = (used, now);
        let cpu_use = &mut self.cpu_use;
        let share = |(cpus, last): &mut (CpuSet, Duration)| {
            let busy = cpu_use.busy(cpus);
            let others = busy.saturating_sub(*last).saturating_sub(own);
            *last = busy;
            percent(others, wall.saturating_mul(number::small(cpus.len())))
        };
        self.sets.iter_mut().map(share).collect()
    }
}

/// Share of the `wall` time, from 0 to 100.
pub fn percent(time: Duration, wall: Duration) -> f64 {
    let share = time.as_secs_f64() / wall.as_secs_f64().max(f64::MIN_POSITIVE);
    (share * 100.0).min(100.0)
}

//! Number of movers that the idle CPUs have room for.

use crate::pace::others::OthersCpu;
use numaloc_core::{CpuSet, number};
use numaloc_host::{CpuUse, Roots};
use std::time::{Duration, Instant};

/// Least time between two looks: the kernel counts CPU time in ticks of 10 ms.
const PERIOD: Duration = Duration::from_millis(250);
/// The part of a CPU's time that others may use while the CPU counts as idle.
const NEARLY_IDLE: f64 = 0.25;

/// CPUs that the target does not use, and how many of them others leave idle.
#[derive(Debug)]
pub struct SpareCpus {
    cpus: CpuSet,
    others: OthersCpu,
    at: Instant,
    room: usize,
}

impl SpareCpus {
    /// Begins to watch these CPUs. `None`: the CPUs' times cannot be read.
    pub fn new(roots: &Roots, cpus: CpuSet) -> Option<Self> {
        let others = OthersCpu::new(CpuUse::open(roots, []).ok()?, [cpus.clone()]);
        Some(Self { cpus, others, at: Instant::now(), room: 0 })
    }

    /// The number of threads of this process that have had a CPU for themselves lately, or could have had one; 0 until there was time to
    /// measure.
    pub fn room(&mut self, now: Instant) -> usize {
        if now - self.at >= PERIOD {
            self.at = now;
            let busy = self.others.percents(now).first().map_or(100.0, |percent| *percent);
            self.room = idle(self.cpus.len(), busy);
        }
        self.room
    }
}

/// The number of idle CPUs among `cpus`, of whose time others use this share, in percent.
fn idle(cpus: usize, others_percent: f64) -> usize {
    let busy = cpus as f64 * others_percent / 100.0;
    number::index(number::whole(cpus as f64 - busy + NEARLY_IDLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_others_hardly_use_is_idle() {
        assert_eq!(idle(4, 0.0), 4);
        assert_eq!(idle(4, 5.0), 4, "a fifth of one CPU");
        assert_eq!(idle(4, 10.0), 3);
        assert_eq!(idle(4, 50.0), 2);
        assert_eq!(idle(4, 100.0), 0);
        assert_eq!(idle(0, 0.0), 0);
    }
}

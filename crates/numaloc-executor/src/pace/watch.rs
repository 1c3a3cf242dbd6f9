//! Watches the pressure on a run's target, and the CPU time of the nodes that the run moves to.

use crate::pace::{
    brake::{Brake, BrakeSignal},
    guard::{Guard, Interval},
    interval::{IntervalClock, PaceStep},
    others::{OthersCpu, percent},
};
use numaloc_core::{CpuSet, GuardBounds, NodeId};
use numaloc_host::{CpuUse, Pressure, Resource, Roots, Scope};
use std::time::{Duration, Instant};

/// Time between two looks at what has a fixed bound. It is long enough for CPU times, which the kernel counts in ticks of 10 ms.
const PERIOD: Duration = Duration::from_millis(250);
/// Most cgroups of a target that are watched.
const CGROUPS: usize = 16;
/// Bound where no pressure file can be read: the time of calls, in percent of the fastest calls of their size.
const SLOW_PERCENT: f64 = 300.0;

/// A pressure file, its bound, and its last value.
#[derive(Debug)]
struct Gauge {
    file: Pressure,
    what: String,
    limit: f64,
    last: Duration,
}

impl Gauge {
    fn new(mut file: Pressure, limit: u8) -> Option<Self> {
        let last = file.read()?;
        let whose = match &file.scope {
            Scope::Cgroup(path) => path.as_str(),
            Scope::Host => "the whole host",
        };
        let what = format!("{}.pressure of {whose}", file.resource.name());
        Some(Self { file, what, limit: limit.into(), last })
    }

    /// Time in which some task has waited, since the last read.
    fn stalled(&mut self) -> Option<Duration> {
        let total = self.file.read()?;
        let stalled = total.saturating_sub(self.last);
        self.last = total;
        Some(stalled)
    }

    fn signal(&mut self, wall: Duration) -> Option<BrakeSignal> {
        let percent = percent(self.stalled()?, wall);
        Some(BrakeSignal { what: self.what.clone(), percent, limit: self.limit })
    }
}

/// The CPU time of the nodes that are moved to.
#[derive(Debug)]
struct NodeCpuUse {
    others: OthersCpu,
    nodes: Vec<NodeId>,
    limit: f64,
}

impl NodeCpuUse {
    fn new(cpu_use: CpuUse, nodes: Vec<(NodeId, CpuSet)>, limit: u8) -> Self {
        let (nodes, cpus): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        Self { others: OthersCpu::new(cpu_use, cpus), nodes, limit: limit.into() }
    }

    /// The CPU time that others than the target and the mover use.
    fn sample(&mut self, now: Instant) -> Vec<BrakeSignal> {
        let limit = self.limit;
        let signal = |(node, percent)| {
            let what = format!("node {node}'s CPU time for others");
            BrakeSignal { what, percent, limit }
        };
        self.nodes.iter().zip(self.others.percents(now)).map(signal).collect()
    }
}

/// Measures pressure and CPU time while a run moves, and slows it down over a bound.
#[derive(Debug)]
pub struct RunWatch {
    gauges: Vec<Gauge>,
    guard: Guard,
    clock: IntervalClock,
    nodes: Option<NodeCpuUse>,
    /// Whether the time of calls stands for pressure, because no pressure file can be read.
    by_calls: bool,
    /// The brake for loads that are bounded whatever causes them.
    bounds: Brake,
    bounds_at: Instant,
    begin: Instant,
}

impl RunWatch {
    /// Begins to watch the processes, and the target nodes with their CPUs.
    pub fn new(
        roots: &Roots,
        pids: &[i32],
        nodes: Vec<(NodeId, CpuSet)>,
        bounds: GuardBounds,
    ) -> Self {
        let gauges = |resource, limit| {
            let wanted = limit < 100;
            let files = wanted.then(|| Pressure::of(roots, pids, resource, CGROUPS));
            files.into_iter().flatten().filter_map(move |file| Gauge::new(file, limit))
        };
        let io = gauges(Resource::Io, bounds.io_percent);
        let gauges: Vec<Gauge> = io.chain(gauges(Resource::Cpu, bounds.cpu_percent)).collect();
        let by_calls = gauges.is_empty() && bounds.io_percent.min(bounds.cpu_percent) < 100;
        let watched: Vec<&str> = gauges.iter().map(|gauge| gauge.what.as_str()).collect();
        tracing::info!(?watched, by_call_times = by_calls, "pressure is watched");
        let nodes: Vec<_> = nodes.into_iter().filter(|(_, cpus)| !cpus.is_empty()).collect();
        let watch_nodes = bounds.node_cpu_percent < 100 && !nodes.is_empty();
        let cpu_use = watch_nodes.then(|| CpuUse::open(roots, pids.iter().copied()).ok()).flatten();
        let nodes = cpu_use.map(|cpu_use| NodeCpuUse::new(cpu_use, nodes, bounds.node_cpu_percent));
        let begin = Instant::now();
        Self {
            gauges,
            guard: Guard::new(),
            clock: IntervalClock::new(Duration::ZERO),
            nodes,
            by_calls,
            bounds: Brake::new(),
            bounds_at: begin,
            begin,
        }
    }

    /// Whether all workers are to rest.
    pub fn is_resting(&self) -> bool {
        self.guard.interval() == Interval::Resting
    }

    /// The factor by which the run is slower than its pace, and why, for people.
    pub fn throttle(&self) -> (f64, String) {
        let (guard, bounds) = (self.guard.factor(), self.bounds.factor());
        if bounds < guard { (bounds, self.bounds.reason()) } else { (guard, self.guard.reason()) }
    }

    /// Measures what is due. `is_idle`: no worker is at work. `slowdown` gives how many times as long calls take as the fastest
    /// recent ones. Returns whether what [`Self::throttle`] gives may have changed.
    pub fn measure(&mut self, is_idle: bool, slowdown: impl FnOnce() -> f64) -> bool {
        let told = self.measure_bounds(slowdown);
        let now = self.begin.elapsed();
        match self.clock.step(now, is_idle) {
            _ if self.gauges.is_empty() => told,
            PaceStep::Wait => told,
            PaceStep::Begin => {
                self.gauges.iter_mut().for_each(|gauge| _ = gauge.stalled());
                told
            }
            PaceStep::End(measured) => {
                let gauges = self.gauges.iter_mut();
                let signals: Vec<BrakeSignal> =
                    gauges.filter_map(|gauge| gauge.signal(measured)).collect();
                self.guard.take(&signals);
                tracing::trace!(?signals, interval = ?self.guard.interval(), "pressure");
                self.clock.next(self.guard.interval(), now, self.begin.elapsed() - now);
                true
            }
        }
    }

    fn measure_bounds(&mut self, slowdown: impl FnOnce() -> f64) -> bool {
        let now = Instant::now();
        let is_bound = self.nodes.is_some() || self.by_calls;
        if !is_bound || now - self.bounds_at < PERIOD {
            return false;
        }
        self.bounds_at = now;
        let mut signals = self.nodes.as_mut().map_or(Vec::new(), |nodes| nodes.sample(now));
        if self.by_calls {
            let what = "time of calls against the fastest (no pressure file can be read)";
            let percent = slowdown() * 100.0;
            signals.push(BrakeSignal { what: what.into(), percent, limit: SLOW_PERCENT });
        }
        self.bounds.take(&signals);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_time_are_from_0_to_100() {
        let ms = Duration::from_millis;
        assert_eq!(percent(ms(50), ms(100)), 50.0);
        assert_eq!(percent(ms(110), ms(100)), 100.0);
        assert_eq!(percent(ms(0), ms(0)), 0.0);
    }
}

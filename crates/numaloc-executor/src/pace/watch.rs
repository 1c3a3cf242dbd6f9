//! Watches the pressure on a run's target, and the CPU time of the nodes that the run moves to.

use crate::pace::{
    brake::{Brake, BrakeSignal},
    guard::{Guard, Interval},
    interval::{IntervalClock, PaceStep},
    others::{OthersCpu, percent},
};
use numaloc_core::{CpuSet, GuardBounds, NodeId};
use numaloc_host::{CpuUse, Pressure, Resource, Roots, RunDelay, Scope};
use std::time::{Duration, Instant};

/// Time between two looks at what has a fixed bound. It is long enough for CPU times, which the kernel counts in ticks of 10 ms.
const PERIOD: Duration = Duration::from_millis(250);
/// Most cgroups of a target that are watched.
const CGROUPS: usize = 16;

/// The source of a time for which tasks have waited.
#[derive(Debug)]
enum Source {
    /// A pressure file and its last value.
    File(Pressure, Duration),
    /// The threads of the target, where the kernel has no pressure of its cgroup.
    Threads(RunDelay),
}

/// A source of pressure and its bound.
#[derive(Debug)]
struct Gauge {
    source: Source,
    what: String,
    limit: f64,
}

impl Gauge {
    fn file(mut file: Pressure, limit: u8) -> Option<Self> {
        let last = file.read()?;
        let whose = match &file.scope {
            Scope::Cgroup(path) => path.as_str(),
            Scope::Host => "the whole host",
        };
        let what = format!("{}.pressure of {whose}", file.resource.name());
        Some(Self { source: Source::File(file, last), what, limit: limit.into() })
    }

    fn threads(threads: RunDelay, limit: u8) -> Self {
        let what = "time for which threads of the target wait for a CPU".into();
        Self { source: Source::Threads(threads), what, limit: limit.into() }
    }

    /// The share of the time since the last call in which some task has waited, in percent. `wall` is that time.
    fn percent(&mut self, wall: Duration) -> Option<f64> {
        match &mut self.source {
            Source::File(file, last) => {
                let total = file.read()?;
                let stalled = total.saturating_sub(*last);
                *last = total;
                Some(percent(stalled, wall))
            }
            Source::Threads(threads) => Some(some_waits(&threads.read(), wall)),
        }
    }

    fn signal(&mut self, wall: Duration) -> Option<BrakeSignal> {
        let percent = self.percent(wall)?;
        Some(BrakeSignal { what: self.what.clone(), percent, limit: self.limit })
    }
}

/// The share of the time in which at least one thread waits, in percent, if each waits for its time and independently of the others.
/// Pressure files count the same (`some` in Documentation/accounting/psi.rst), so that the same bounds hold.
fn some_waits(waited: &[Duration], wall: Duration) -> f64 {
    let runs = |waited: &Duration| 1.0 - percent(*waited, wall) / 100.0;
    100.0 * (1.0 - waited.iter().map(runs).product::<f64>())
}

/// The sources of the time that the processes wait for a CPU: the pressure files of their cgroups. The file of the
/// whole host, which stands for cgroups without one, counts the waits of all processes, mostly of others. Their own
/// threads are better, if the kernel counts them.
fn cpu_gauges(roots: &Roots, pids: &[i32], limit: u8) -> Vec<Gauge> {
    let files = Pressure::of(roots, pids, Resource::Cpu, CGROUPS);
    let is_own = |file: &Pressure| file.scope != Scope::Host;
    let all_own = !files.is_empty() && files.iter().all(is_own);
    match RunDelay::of(roots, pids).filter(|_| !all_own) {
        Some(threads) => vec![Gauge::threads(threads, limit)],
        None => files.into_iter().filter_map(|file| Gauge::file(file, limit)).collect(),
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
        let files = match bounds.io_percent {
            100.. => Vec::new(),
            _ => Pressure::of(roots, pids, Resource::Io, CGROUPS),
        };
        let io = files.into_iter().filter_map(|file| Gauge::file(file, bounds.io_percent));
        let cpu = match bounds.cpu_percent {
            100.. => Vec::new(),
            limit => cpu_gauges(roots, pids, limit),
        };
        let gauges: Vec<Gauge> = io.chain(cpu).collect();
        let watched: Vec<&str> = gauges.iter().map(|gauge| gauge.what.as_str()).collect();
        tracing::info!(?watched, "pressure is watched");
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

    /// Measures what is due. `is_idle`: no worker is at work. Returns whether what [`Self::throttle`] gives may have changed.
    pub fn measure(&mut self, is_idle: bool) -> bool {
        let told = self.measure_bounds();
        let now = self.begin.elapsed();
        match self.clock.step(now, is_idle) {
            _ if self.gauges.is_empty() => told,
            PaceStep::Wait => told,
            PaceStep::Begin => {
                self.gauges.iter_mut().for_each(|gauge| _ = gauge.percent(Duration::ZERO));
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

    fn measure_bounds(&mut self) -> bool {
        let now = Instant::now();
        let Some(nodes) = self.nodes.as_mut().filter(|_| now - self.bounds_at >= PERIOD) else {
            return false;
        };
        self.bounds_at = now;
        self.bounds.take(&nodes.sample(now));
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

    #[test]
    fn threads_that_wait_at_different_times_add_up() {
        let ms = Duration::from_millis;
        assert_eq!(some_waits(&[], ms(100)), 0.0);
        assert_eq!(some_waits(&[ms(30)], ms(100)).round(), 30.0);
        assert_eq!(some_waits(&[ms(50), ms(50), ms(0)], ms(100)), 75.0);
        assert_eq!(some_waits(&[ms(130), ms(1)], ms(100)), 100.0);
    }
}

//! What a run sees of the pressure on its target, and on the nodes that it moves to.

use crate::guard::{Guard, Signal, beyond};
use numaloc_core::{CpuSet, NodeId, pace};
use numaloc_host::{CpuUse, Pressure, Resource, Roots, Scope, Trigger};
use std::time::{Duration, Instant};

/// Time between samples, enough of the kernel's ticks of 10 ms.
const PERIOD: Duration = Duration::from_millis(250);
/// The same after the kernel has said that there is pressure.
const ALARMED: Duration = Duration::from_millis(100);
/// Samples of many processes come so seldom that they take one part in so many of the time.
const SHARE_OF_SAMPLES: u32 = 50;
/// As many cgroups of a target are watched.
const CGROUPS: usize = 16;
/// Windows of the kernel's triggers: the shortest there is, and the shortest without CAP_SYS_RESOURCE
/// (kernel/sched/psi.c).
const WINDOWS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];
/// Where nothing else tells of pressure: calls that take so long, against the fastest of their size.
const SLOW_PERCENT: f64 = 300.0;

/// A pressure file with what it said last.
#[derive(Debug)]
struct Gauge {
    file: Pressure,
    what: String,
    limit: f64,
    /// What there was before the run, in percent: that is not of its making.
    before: f64,
    last: Duration,
}

impl Gauge {
    fn new(mut file: Pressure, limit: u8) -> Option<Self> {
        let now = file.read()?;
        let whose = match &file.scope {
            Scope::Cgroup(path) => path.as_str(),
            Scope::Host => "the whole host",
        };
        let of = match file.resource {
            Resource::Io => "io.pressure",
            Resource::Cpu => "cpu.pressure",
        };
        let what = format!("{of} of {whose}");
        let (before, last) = (now.avg10_percent, now.total);
        Some(Self { file, what, limit: limit.into(), before, last })
    }

    fn sample(&mut self, wall: Duration) -> Option<Signal> {
        let total = self.file.read()?.total;
        let stalled = total.saturating_sub(self.last);
        self.last = total;
        let percent = beyond(stalled, wall, self.before);
        Some(Signal { what: self.what.clone(), percent, limit: self.limit })
    }
}

/// The CPU time of the nodes that are moved to.
#[derive(Debug)]
struct Nodes {
    cpu_use: CpuUse,
    nodes: Vec<(NodeId, CpuSet, Duration)>,
    used: Duration,
    limit: f64,
    at: Instant,
}

impl Nodes {
    fn new(mut cpu_use: CpuUse, nodes: Vec<(NodeId, CpuSet)>, limit: u8) -> Self {
        let with_busy = |(node, cpus)| {
            let busy = cpu_use.busy(&cpus);
            (node, cpus, busy)
        };
        let nodes = nodes.into_iter().map(with_busy).collect();
        let (used, at) = (cpu_use.used(), Instant::now());
        Self { cpu_use, nodes, used, limit: limit.into(), at }
    }

    /// What others than the target and the mover use. What these two use elsewhere is taken off too, so it may be more.
    fn sample(&mut self, now: Instant) -> Vec<Signal> {
        let wall = now - self.at;
        if wall < PERIOD {
            return Vec::new();
        }
        let used = self.cpu_use.used();
        let own = used.saturating_sub(self.used);
        (self.used, self.at) = (used, now);
        let (cpu_use, limit) = (&mut self.cpu_use, self.limit);
        let signal = |(node, cpus, last): &mut (NodeId, CpuSet, Duration)| {
            let busy = cpu_use.busy(cpus);
            let others = busy.saturating_sub(*last).saturating_sub(own);
            *last = busy;
            let percent = beyond(others, wall * cpus.len() as u32, 0.0);
            Signal { what: format!("node {node}'s CPU time for others"), percent, limit }
        };
        self.nodes.iter_mut().map(signal).collect()
    }
}

/// Samples for a guard.
#[derive(Debug)]
pub struct Watch {
    gauges: Vec<Gauge>,
    nodes: Option<Nodes>,
    /// Whether it has to go by the time that calls take.
    by_calls: bool,
    at: Instant,
    cost: Duration,
}

impl Watch {
    /// Begins to watch processes, and the nodes that they move to with their CPUs.
    pub fn new(
        roots: &Roots,
        pids: &[i32],
        nodes: Vec<(NodeId, CpuSet)>,
        bounds: pace::Guard,
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
        let nodes = cpu_use.map(|cpu_use| Nodes::new(cpu_use, nodes, bounds.node_cpu_percent));
        Self { gauges, nodes, by_calls, at: Instant::now(), cost: Duration::ZERO }
    }

    /// Triggers of the kernel for the pressure that is watched, as far as it gives any.
    pub fn triggers(&self) -> Vec<Trigger> {
        let trigger = |gauge: &Gauge| {
            WINDOWS.iter().find_map(|&window| {
                let stalled = window.mul_f64(gauge.limit / 100.0);
                gauge.file.trigger(stalled, window).ok()
            })
        };
        self.gauges.iter().filter_map(trigger).collect()
    }

    /// Takes a sample for the guard, if it is time; `slowdown` is how much longer calls take than the fastest, 1 for as
    /// long. Says whether it did.
    pub fn sample(
        &mut self,
        guard: &mut Guard,
        alarmed: bool,
        slowdown: impl FnOnce() -> f64,
    ) -> bool {
        let now = Instant::now();
        let wall = now - self.at;
        let period = if alarmed { ALARMED } else { PERIOD };
        if wall < period.max(self.cost * SHARE_OF_SAMPLES) {
            return false;
        }
        self.at = now;
        let mut signals: Vec<Signal> =
            self.gauges.iter_mut().filter_map(|gauge| gauge.sample(wall)).collect();
        if let Some(nodes) = &mut self.nodes {
            signals.extend(nodes.sample(now));
        }
        if self.by_calls {
            let what = "no pressure is accounted for here; the time of calls against the fastest";
            let percent = slowdown() * 100.0;
            signals.push(Signal { what: what.into(), percent, limit: SLOW_PERCENT });
        }
        guard.take(signals);
        self.cost = now.elapsed();
        true
    }
}

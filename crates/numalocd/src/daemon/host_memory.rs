//! Looks at the memory of the host's processes and at memory bandwidth while the metrics are read; at other times it costs nothing.

use crate::{
    config::{Config, HostMetrics},
    metrics::Metrics,
};
use numaloc_host::{
    Error, Roots,
    host_memory::{HostMemoryLimits, HostMemoryLook},
    topology, traffic,
};
use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Time between two turns of looking.
const TURN: Duration = Duration::from_secs(1);
/// For how long after the metrics were read it looks. Prometheus reads them at least every two minutes, or its series
/// end.
const LASTS: Duration = Duration::from_secs(300);

/// Starts the thread that looks. It ends with the daemon.
///
/// # Errors
/// There can be no thread.
pub(super) fn start(config: watch::Receiver<Arc<Config>>, metrics: Metrics) -> io::Result<()> {
    let body = move || {
        let begin = Instant::now();
        let mut watched = Watched::new(config.borrow().roots());
        // The sender is gone when the daemon ends.
        while config.has_changed().is_ok() {
            let settings = config.borrow().host_metrics;
            watched.turn(&metrics, &settings, &|| begin.elapsed());
            thread::sleep(TURN);
        }
    };
    thread::Builder::new().name("host-memory".to_owned()).spawn(body).map(drop)
}

/// The look that is under way.
struct Watched {
    roots: Roots,
    /// With the settings that it was begun with; `None` on a host that has nothing to look for.
    look: Option<(HostMetrics, Option<HostMemoryLook>)>,
    /// When the counters of memory bandwidth are read next.
    traffic_due: Option<Duration>,
}

impl Watched {
    fn new(roots: Roots) -> Self {
        Self { roots, look: None, traffic_due: None }
    }

    /// Begins, continues or ends the look, as the settings say and the readers of `metrics` want it.
    fn turn(&mut self, metrics: &Metrics, settings: &HostMetrics, clock: &dyn Fn() -> Duration) {
        let lasts = LASTS.max(3 * settings.period);
        let is_wanted = settings.enable && metrics.last_read().is_some_and(|ago| ago < lasts);
        if self.look.as_ref().is_some_and(|(with, _)| !is_wanted || with != settings) {
            self.look = None;
            metrics.host_memory(None);
            metrics.traffic(Vec::new());
        }
        if !is_wanted {
            return;
        }
        let now = clock();
        if self.traffic_due.is_none_or(|due| now >= due) {
            metrics.traffic(traffic::by_group(&self.roots, settings.series));
            self.traffic_due = Some(now + settings.period);
        }
        if self.look.is_none() {
            let look = begin(&self.roots, settings, clock()).unwrap_or_else(|error| {
                tracing::warn!(%error, "the memory of this host's processes is not among the metrics");
                None
            });
            self.look = Some((*settings, look));
        }
        let look = self.look.as_mut().and_then(|(_, look)| look.as_mut());
        if let Some(memory) = look.and_then(|look| look.turn(clock)) {
            metrics.host_memory(Some(memory));
        }
    }
}

/// A look at this host; `None` if it has one node with memory: all memory is local there.
fn begin(
    roots: &Roots,
    settings: &HostMetrics,
    now: Duration,
) -> Result<Option<HostMemoryLook>, Error> {
    let topology = topology::topology(roots)?;
    if topology.with_memory().len() < 2 {
        return Ok(None);
    }
    let &HostMetrics { period, cpu_percent, series, .. } = settings;
    let limits = HostMemoryLimits { period, cpu_percent, series };
    HostMemoryLook::new(roots, topology, limits, now).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_host::fake::Crowd;
    use std::cell::Cell;

    /// A crowd on a host with this number of nodes.
    fn watched(nodes: usize) -> (Crowd, Watched) {
        let crowd = Crowd::new(10);
        for (node, cpus) in ["0-3", "4-7"].into_iter().enumerate() {
            let directory = format!("sys/devices/system/node/node{node}");
            crowd.write(&format!("{directory}/cpulist"), cpus);
            crowd.write(&format!("{directory}/distance"), "10 21");
        }
        let online = if nodes == 1 { "0\n" } else { "0-1\n" };
        crowd.write("sys/devices/system/node/online", online);
        let watched = Watched::new(crowd.roots(16));
        (crowd, watched)
    }

    #[test]
    fn it_looks_while_the_metrics_are_read_and_enabled() {
        let (_crowd, mut watched) = watched(2);
        let (metrics, now) = (Metrics::default(), Cell::new(Duration::ZERO));
        let mut run = |settings: &HostMetrics| {
            for _ in 0..30 {
                now.set(now.get() + TURN);
                watched.turn(&metrics, settings, &|| now.get());
            }
        };
        let on = HostMetrics::default();
        run(&on);
        // This reads the metrics for the first time.
        assert!(!metrics.text().contains("numaloc_host_"), "nobody has read them before");
        run(&on);
        let text = metrics.text();
        assert!(text.contains("numaloc_host_processes{state=\"pinned\"} 10"), "{text}");
        assert!(text.contains("{program=\"crowd\",place=\"remote\"} 327680"), "{text}");
        run(&HostMetrics { enable: false, ..on });
        assert!(!metrics.text().contains("numaloc_host_"), "it is switched off");
        run(&HostMetrics { period: TURN * 10, ..on });
        assert!(metrics.text().contains("numaloc_host_"), "it is on again");
    }

    #[test]
    fn a_host_with_one_node_costs_nothing() {
        let (_crowd, mut watched) = watched(1);
        let metrics = Metrics::default();
        drop(metrics.text());
        watched.turn(&metrics, &HostMetrics::default(), &|| TURN);
        assert!(matches!(watched.look, Some((_, None))));
        assert!(!metrics.text().contains("numaloc_host_"));
    }
}

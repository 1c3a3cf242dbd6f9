//! Figures of the agent, as OpenMetrics text: whether it does its work. The daemon provides those of the memory
//! ([`crate::figures`]).

use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};

type Labelled<const N: usize> = Family<[(&'static str, &'static str); N], Counter>;

/// The writes that wait for the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub events: usize,
    pub statuses: usize,
    /// Events that found no room, since the start.
    pub lost_events: u64,
}

/// The figures of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Labelled<2>,
    pods: Gauge,
    scheduled: Gauge,
    stood_back: Gauge,
    invalid: Gauge,
    invalid_policies: Gauge,
    waiting_events: Gauge,
    waiting_statuses: Gauge,
    lost_events: Gauge,
    daemon: Gauge,
    figures: Gauge,
    /// 1: the whole state of the cluster is known, and numalocd has the wanted records.
    ready: Gauge,
}

/// Counts of this node's pods and their containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pods: usize,
    /// Containers that have a schedule.
    pub scheduled: usize,
    /// Pods that another program acts for.
    pub stood_back: usize,
    /// Pods with annotations that cannot be parsed, or that ask for too much.
    pub invalid: usize,
    /// Policies and ConfigMaps of the cluster that cannot be parsed.
    pub invalid_policies: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            requests: Family::default(),
            pods: Gauge::default(),
            scheduled: Gauge::default(),
            stood_back: Gauge::default(),
            invalid: Gauge::default(),
            invalid_policies: Gauge::default(),
            waiting_events: Gauge::default(),
            waiting_statuses: Gauge::default(),
            lost_events: Gauge::default(),
            daemon: Gauge::default(),
            figures: Gauge::default(),
            ready: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("numaloc_agent");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the agent", version);
        let requests = metrics.requests.clone();
        registry.register("api_requests", "Requests to the API server by their end", requests);
        for (name, help, gauge) in [
            ("pods", "Pods of this node", &metrics.pods),
            ("scheduled_containers", "Containers that have a schedule", &metrics.scheduled),
            ("stood_back_pods", "Pods that another program acts for", &metrics.stood_back),
            (
                "invalid_pods",
                "Pods with annotations that are not followed as they are",
                &metrics.invalid,
            ),
            (
                "invalid_policies",
                "Policies and ConfigMaps that are not followed as they are",
                &metrics.invalid_policies,
            ),
            ("waiting_events", "Events that are not posted yet", &metrics.waiting_events),
            (
                "waiting_statuses",
                "Status annotations that wait for the budget",
                &metrics.waiting_statuses,
            ),
            ("lost_events", "Events that were given up since the start", &metrics.lost_events),
            ("daemon_up", "Whether numalocd answers", &metrics.daemon),
            ("daemon_figures", "Whether the metrics of numalocd are included", &metrics.figures),
            ("ready", "Whether numalocd has what the cluster wants", &metrics.ready),
        ] {
            registry.register(name, help, gauge.clone());
        }
        *metrics.registry.lock() = registry;
        metrics
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Metrics {
    /// All figures as OpenMetrics 1.0 text, with those of numalocd.
    pub fn text(&self, waiting: Waiting, of_daemon: Option<&str>) -> String {
        self.waiting_events.set(gauge(waiting.events));
        self.waiting_statuses.set(gauge(waiting.statuses));
        self.lost_events.set(i64::try_from(waiting.lost_events).unwrap_or(i64::MAX));
        self.figures.set(of_daemon.is_some().into());
        let mut text = String::new();
        // A text takes whatever is written.
        let _ = encode_registry(&mut text, &self.registry.lock());
        text += of_daemon.unwrap_or_default();
        let _ = encode_eof(&mut text);
        text
    }

    /// A request has ended like this.
    pub fn requested(&self, verb: &'static str, end: &'static str) {
        self.requests.get_or_create(&[("verb", verb), ("end", end)]).inc();
    }

    /// Sets the counts, after numalocd has the wanted records.
    pub fn counts(&self, counts: Counts) {
        self.pods.set(gauge(counts.pods));
        self.scheduled.set(gauge(counts.scheduled));
        self.stood_back.set(gauge(counts.stood_back));
        self.invalid.set(gauge(counts.invalid));
        self.invalid_policies.set(gauge(counts.invalid_policies));
        self.ready.set(1);
    }

    /// Whether numalocd answers.
    pub fn daemon(&self, is_up: bool) {
        self.daemon.set(is_up.into());
        if !is_up {
            self.ready.set(0);
        }
    }

    /// Whether numalocd has the records that the cluster wants.
    pub fn is_ready(&self) -> bool {
        self.ready.get() == 1
    }
}

//! Figures of the agent, as OpenMetrics text: whether it does its work. The daemon provides those of the memory
//! ([`crate::figures`]).

use crate::health::Health;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::{Registry, Unit},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::Instant;

type Labelled<const N: usize> = Family<[(&'static str, &'static str); N], Counter>;

/// Why an event was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Too many waited.
    Overflow,
    /// The API server refuses it.
    Refused,
    /// Its object had so many events that only the newest was left.
    Replaced,
}

impl Loss {
    pub const ALL: [Self; 3] = [Self::Overflow, Self::Refused, Self::Replaced];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Refused => "refused",
            Self::Replaced => "replaced",
        }
    }
}

/// The writes that wait for the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub events: usize,
    pub statuses: usize,
    /// For how long the oldest of them has waited.
    pub oldest: Duration,
    /// Events that were given up since the start, by the reason.
    pub lost: BTreeMap<Loss, u64>,
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
    lost_events: Labelled<1>,
    oldest: Gauge<f64, AtomicU64>,
    daemon: Gauge,
    figures: Gauge,
    /// Whether the whole state of the cluster has been known, and numalocd has the records wanted by it.
    is_declared: AtomicBool,
    /// 1: that, and the cluster is still read.
    ready: Gauge,
    watch_ages: Family<[(&'static str, String); 1], Gauge<f64, AtomicU64>>,
    /// Since when the NodeMemoryLocality has been as the API server has it; `None`: it is not wanted there.
    reported: Mutex<Option<Instant>>,
    report_age: Gauge<f64, AtomicU64>,
    runs: Family<[(&'static str, String); 2], Counter>,
    /// The namespaces with series of their own.
    namespaces: Mutex<BTreeSet<String>>,
}

/// Most namespaces with series of their own: no more pods run on a node at a time.
const NAMESPACES: usize = 256;

/// Counts of this node's pods and their containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub pods: usize,
    /// Containers that have a schedule.
    pub scheduled: usize,
    /// Pods that another program acts for.
    pub stood_back: usize,
    /// Pods with annotations that cannot be parsed: those that have a Warning for it.
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
            lost_events: Family::default(),
            oldest: Gauge::default(),
            daemon: Gauge::default(),
            figures: Gauge::default(),
            is_declared: AtomicBool::default(),
            ready: Gauge::default(),
            watch_ages: Family::default(),
            reported: Mutex::default(),
            report_age: Gauge::default(),
            runs: Family::default(),
            namespaces: Mutex::default(),
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
            ("invalid_pods", "Pods with annotations that cannot be parsed", &metrics.invalid),
            (
                "invalid_policies",
                "Policies and ConfigMaps that cannot be parsed",
                &metrics.invalid_policies,
            ),
            ("waiting_events", "Events that are not posted yet", &metrics.waiting_events),
            (
                "waiting_statuses",
                "Status annotations that wait for the budget",
                &metrics.waiting_statuses,
            ),
            ("daemon_up", "Whether numalocd answers", &metrics.daemon),
            ("daemon_figures", "Whether the metrics of numalocd are included", &metrics.figures),
            (
                "ready",
                "Whether numalocd has what the cluster wants, and the cluster is read",
                &metrics.ready,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        let lost = "Events that were given up";
        registry.register("lost_events", lost, metrics.lost_events.clone());
        for reason in Loss::ALL {
            drop(metrics.lost_events.get_or_create(&[("reason", reason.name())]));
        }
        let oldest = "For how long the oldest event or status has waited for the API server";
        let seconds = metrics.oldest.clone();
        registry.register_with_unit("oldest_waiting", oldest, Unit::Seconds, seconds);
        let age = "Time since the API server has shown something of a kind";
        let ages = metrics.watch_ages.clone();
        registry.register_with_unit("watch_age", age, Unit::Seconds, ages);
        let age = "Time since the NodeMemoryLocality of the node was written; 0 where the cluster does not define it";
        let report_age = metrics.report_age.clone();
        registry.register_with_unit("node_report_age", age, Unit::Seconds, report_age);
        let runs = "Runs of schedules of pods that have ended, by namespace and end";
        registry.register("runs", runs, metrics.runs.clone());
        *metrics.registry.lock() = registry;
        metrics
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Metrics {
    /// All figures as OpenMetrics 1.0 text, with those of numalocd.
    pub fn text(&self, waiting: Pending, health: &Health, of_daemon: Option<&str>) -> String {
        let now = Instant::now();
        self.ready.set((self.is_declared() && health.unread(now).is_none()).into());
        let age = self.reported.lock().map_or(0.0, |at| (now - at).as_secs_f64());
        self.report_age.set(age);
        self.watch_ages.clear();
        for (kind, age) in health.ages(now) {
            // Several ConfigMaps are one kind: the one that was seen the longest ago counts.
            let gauge = self.watch_ages.get_or_create_owned(&[("kind", kind)]);
            gauge.set(gauge.get().max(age.as_secs_f64()));
        }
        self.waiting_events.set(gauge(waiting.events));
        self.waiting_statuses.set(gauge(waiting.statuses));
        self.oldest.set(waiting.oldest.as_secs_f64());
        for (reason, count) in waiting.lost {
            let counter = self.lost_events.get_or_create(&[("reason", reason.name())]);
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        self.figures.set(of_daemon.is_some().into());
        let mut text = String::new();
        // A text takes whatever is written.
        let _ = encode_registry(&mut text, &self.registry.lock());
        text += of_daemon.unwrap_or_default();
        let _ = encode_eof(&mut text);
        text
    }

    /// The NodeMemoryLocality was written, or (`false`) the cluster does not define it.
    pub fn reported(&self, is_defined: bool) {
        *self.reported.lock() = is_defined.then(Instant::now);
    }

    /// The NodeMemoryLocality is wanted from now on.
    pub fn wants_report(&self) {
        self.reported.lock().get_or_insert_with(Instant::now);
    }

    /// A run for a pod of this namespace has ended like this. Namespaces beyond [`NAMESPACES`] are one.
    pub fn ran(&self, namespace: &str, end: &str) {
        let namespace = match self.namespaces.lock() {
            mut known if known.len() < NAMESPACES || known.contains(namespace) => {
                known.insert(namespace.to_owned());
                namespace
            }
            _ => "",
        };
        let labels = [("namespace", namespace.to_owned()), ("end", end.to_owned())];
        self.runs.get_or_create(&labels).inc();
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
        self.is_declared.store(true, Ordering::Relaxed);
    }

    /// Whether numalocd answers.
    pub fn daemon(&self, is_up: bool) {
        self.daemon.set(is_up.into());
        if !is_up {
            self.is_declared.store(false, Ordering::Relaxed);
        }
    }

    /// Whether numalocd has the records that the cluster wants.
    pub fn is_declared(&self) -> bool {
        self.is_declared.load(Ordering::Relaxed)
    }
}

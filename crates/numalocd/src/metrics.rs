//! The daemon's metrics, as OpenMetrics text. `docs/metrics.md` lists them.
//!
//! The values of labels come from closed sets. Names of workloads do not; their number is bounded by [`MAX_WORKLOADS`].

mod calls;
mod counted;
mod host_memory;
mod label;
mod measured;
mod oldest;
mod process;
mod quotas;
mod ratios;
mod registry;
mod serve;
#[cfg(test)]
mod tests;
mod traffic;

pub use counted::{CountLayer, Counting};
pub use serve::{Admission, MetricsServeError, serve};

use crate::{
    accounts::{Accounts, Resource},
    dispatch::JobCount,
    store::Holds,
};
use calls::CallTimes;
use host_memory::ShownHostMemory;
use label::{code_name, state_name};
use numaloc_api::value::{Job, JobState, Outcome, QosClass, WorkloadId};
use numaloc_host::{host_memory::HostMemory, traffic::GroupTraffic};
use oldest::Oldest;
use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use quotas::QuotaCollector;
use ratios::Ratios;
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant, SystemTime},
};
use traffic::ShownTraffic;

/// Most workloads whose local ratio is shown. Workloads that come later are not shown.
pub const MAX_WORKLOADS: usize = 1_000;

/// Label sets with one label and with two.
type One = [(&'static str, &'static str); 1];
type Two<V> = [(&'static str, V); 2];

/// The daemon's metrics. Cheap to clone: clones share the same counts.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    series: Series,
    /// The last time that the metrics were read.
    read: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Series {
    moved: Family<Two<u32>, Counter>,
    left: Family<One, Counter>,
    offload: Family<One, Counter>,
    ratios: Ratios,
    open: Family<One, Gauge>,
    ended: Family<One, Counter>,
    duration: Histogram,
    waited: Histogram,
    schedules: Gauge,
    workloads: Gauge,
    watches: Gauge,
    quotas: QuotaCollector,
    drained: Gauge,
    paused: Gauge,
    contested_schedules: Gauge,
    oldest: Oldest,
    store_bytes: Gauge,
    missing_accounts: Gauge,
    missing_sockets: Gauge,
    reload_done: Gauge,
    reload_time: Gauge<f64, AtomicU64>,
    calls: CallTimes,
    stalls: Counter,
    over_bound: Counter,
    host_memory: ShownHostMemory,
    traffic: ShownTraffic,
    held_back: Counter<f64, AtomicU64>,
    rpcs: Family<Two<&'static str>, Counter>,
    commits: Histogram,
    commit_failures: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let series = Series::default();
        Self(Arc::new(Inner { registry: registry::of(&series), series, read: Mutex::default() }))
    }
}

impl Metrics {
    /// All metrics as OpenMetrics 1.0 text.
    pub fn text(&self) -> String {
        *self.0.read.lock() = Some(Instant::now());
        if let Some(accounts) = self.0.series.quotas.accounts() {
            set(&self.0.series.watches, accounts.held(Resource::Watches));
        }
        let mut text = String::new();
        // Writing to a String does not fail. If it did, the end mark would be missing, and readers refuse such a text.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.0.registry);
        text
    }

    /// Sets how many jobs are in each state that is not an end. A state that `counts` does not have is set to 0, and
    /// end states in it are ignored.
    pub fn jobs(&self, counts: &[JobCount]) {
        for state in JobState::ALL.into_iter().filter(|state| !state.is_end()) {
            let found = counts.iter().find(|(of, _)| *of == state);
            let count = found.map_or(0, |(_, count)| *count);
            set(&self.0.series.open.get_or_create(&[("state", state_name(state))]), count);
        }
    }

    /// A job's turn has come after it was queued for `waited`.
    pub fn job_dequeued(&self, waited: Duration) {
        self.0.series.waited.observe(waited.as_secs_f64());
    }

    /// A job has ended: counts it, and the outcome for its memory. Call it once for each end.
    pub fn job_ended(&self, job: &Job) {
        let series = &self.0.series;
        series.ended.get_or_create(&[("state", state_name(job.state))]).inc();
        if let (Some(started), Some(ended)) = (job.started, job.ended) {
            // If the clock was set back meanwhile, the duration counts as zero.
            let duration = ended.duration_since(started).unwrap_or_default();
            series.duration.observe(duration.as_secs_f64());
        }
        if let Some(outcome) = &job.outcome {
            self.outcome(outcome);
        }
    }

    fn outcome(&self, outcome: &Outcome) {
        let series = &self.0.series;
        let is_offloaded = outcome.offload.as_ref().is_some_and(|offload| offload.used);
        let by = if is_offloaded { "offload" } else { "cpu" };
        for ((from, to), bytes) in &outcome.flows {
            series.moved.get_or_create(&[("from", from.0), ("to", to.0)]).inc_by(*bytes);
            series.offload.get_or_create(&[("by", by)]).inc_by(*bytes);
        }
        for (reason, bytes) in outcome.account().left_bytes() {
            series.left.get_or_create(&[("reason", reason.name())]).inc_by(*bytes);
        }
        series.calls.add(&outcome.calls);
        series.stalls.inc_by(calls::stalls(&outcome.calls));
        series.over_bound.inc_by(outcome.calls.over_stall);
        series.held_back.inc_by(outcome.calls.held_back.as_secs_f64());
    }

    /// Time since the metrics were last read; `None` if they never were.
    pub fn last_read(&self) -> Option<Duration> {
        self.0.read.lock().map(|read| read.elapsed())
    }

    /// Sets what is known of the memory of the host's processes. With `None` its metrics are left out.
    pub fn host_memory(&self, memory: Option<HostMemory>) {
        self.0.series.host_memory.set(memory);
    }

    /// Sets the counters of memory bandwidth. Without any, their metric is left out.
    pub fn traffic(&self, traffic: Vec<GroupTraffic>) {
        self.0.series.traffic.set(traffic);
    }

    /// Sets the local share of a workload: `percent` of its memory that may be moved is local.
    pub fn workload_local(&self, id: &WorkloadId, percent: f64) {
        self.0.series.ratios.set(id, percent / 100.0);
    }

    /// A workload is not registered any more.
    pub fn workload_gone(&self, id: &WorkloadId) {
        self.0.series.ratios.remove(id);
    }

    /// Sets the number of schedules.
    pub fn schedules(&self, count: usize) {
        set(&self.0.series.schedules, count);
    }

    /// Sets the number of registered workloads.
    pub fn workloads(&self, count: usize) {
        set(&self.0.series.workloads, count);
    }

    /// Sets the number of schedules that find again and again that their work has been undone.
    pub fn contested_schedules(&self, count: usize) {
        set(&self.0.series.contested_schedules, count);
    }

    /// When the oldest queued job of each class was created. Classes without a queued job are left out.
    pub fn oldest_queued(&self, oldest: &BTreeMap<QosClass, SystemTime>) {
        self.0.series.oldest.set(oldest);
    }

    pub fn store_bytes(&self, bytes: u64) {
        self.0.series.store_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// The configuration was read again at `now`. `done`: it was taken over.
    pub fn reloaded(&self, done: bool, now: SystemTime) {
        self.0.series.reload_done.set(done.into());
        self.0.series.reload_time.set(since_epoch(now));
    }

    /// Sets the number of grants to accounts that this host does not have.
    pub fn missing_accounts(&self, count: usize) {
        set(&self.0.series.missing_accounts, count);
    }

    /// Sets the number of additional sockets that could not be made.
    pub fn missing_sockets(&self, count: usize) {
        set(&self.0.series.missing_sockets, count);
    }

    /// Whether the daemon is drained or paused.
    pub fn holds(&self, holds: &Holds) {
        set(&self.0.series.drained, holds.drained.is_some().into());
        set(&self.0.series.paused, holds.paused.is_some().into());
    }

    /// Sets the accounts that quotas are read from whenever the text is made. Only the first call of this sets them.
    pub fn accounts(&self, accounts: Accounts) {
        self.0.series.quotas.set(accounts);
    }

    /// A call of `method`, such as `numaloc.v1.MigrationService/GetJob`, has ended. Pass one common name, such as
    /// `other`, for all methods that are not served. `method` is static, so that no client can make up labels.
    pub fn rpc(&self, method: &'static str, code: tonic::Code) {
        let labels = [("method", method), ("code", code_name(code))];
        self.0.series.rpcs.get_or_create(&labels).inc();
    }

    /// The store took `elapsed` for a commit. `done`: the commit took effect.
    pub fn committed(&self, elapsed: Duration, done: bool) {
        self.0.series.commits.observe(elapsed.as_secs_f64());
        if !done {
            self.0.series.commit_failures.inc();
        }
    }
}

fn since_epoch(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

//! Durations of move_pages calls. A job's counts are added all at once, which the library's histogram does not support.

use numaloc_core::{CALL_BOUNDS_US, CallStats};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};
use std::{fmt, sync::Arc};

/// A call that takes longer than this is a stall: the process may have waited as long for a page.
const STALL_US: u64 = 10_000;

/// The sum of all jobs' calls, shown as a histogram. Clones share the same sum.
#[derive(Clone, Debug, Default)]
pub(super) struct CallTimes(Arc<Mutex<CallStats>>);

impl CallTimes {
    /// Adds the calls of a job.
    pub(super) fn add(&self, calls: &CallStats) {
        self.0.lock().add(calls);
    }
}

impl EncodeMetric for CallTimes {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let sum = *self.0.lock();
        let bounds = CALL_BOUNDS_US.map(|us| us as f64 / 1e6).into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(sum.times).collect();
        let count = sum.times.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(sum.total.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Number of `calls` that were stalls.
pub(super) fn stalls(calls: &CallStats) -> u64 {
    let short = CALL_BOUNDS_US.partition_point(|bound| *bound <= STALL_US);
    calls.times[short..].iter().sum()
}

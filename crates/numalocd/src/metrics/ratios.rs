//! The local ratio of workloads. Their number is bounded, because clients choose their names.

use super::MAX_WORKLOADS;
use numaloc_api::value::WorkloadId;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::MetricType,
};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Local shares from 0 to 1 by workload. Clones share the same values.
#[derive(Clone, Debug, Default)]
pub(super) struct Ratios(Arc<Mutex<BTreeMap<WorkloadId, f64>>>);

impl Ratios {
    /// Sets the ratio of a workload, unless the workload is new and the table is full.
    pub(super) fn set(&self, id: &WorkloadId, ratio: f64) {
        let mut shown = self.0.lock();
        if let Some(before) = shown.get_mut(id) {
            *before = ratio;
        } else if shown.len() < MAX_WORKLOADS {
            shown.insert(id.clone(), ratio);
        }
    }

    pub(super) fn remove(&self, id: &WorkloadId) {
        self.0.lock().remove(id);
    }
}

impl EncodeMetric for Ratios {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        for (id, ratio) in self.0.lock().iter() {
            encoder.encode_family(&[("workload", id.id())])?.encode_gauge(ratio)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

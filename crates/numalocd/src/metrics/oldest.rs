//! Waiting time of the oldest queued job of each class at the time the metrics are read.

use numaloc_api::value::QosClass;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::MetricType,
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::SystemTime};

const CLASSES: [(QosClass, &str); 3] =
    [(QosClass::Lsr, "lsr"), (QosClass::Ls, "ls"), (QosClass::Be, "be")];

/// When the oldest queued job of each class was created. Clones share the same times.
#[derive(Clone, Debug, Default)]
pub(super) struct Oldest(Arc<Mutex<BTreeMap<QosClass, SystemTime>>>);

impl Oldest {
    /// Sets the times of all classes.
    pub(super) fn set(&self, oldest: &BTreeMap<QosClass, SystemTime>) {
        self.0.lock().clone_from(oldest);
    }
}

impl EncodeMetric for Oldest {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let oldest = self.0.lock().clone();
        for (class, name) in CLASSES {
            // If the clock was set back meanwhile, the wait counts as zero.
            let waited = oldest.get(&class).and_then(|made| made.elapsed().ok());
            let seconds = waited.unwrap_or_default().as_secs_f64();
            encoder.encode_family(&[("qos_class", name)])?.encode_gauge(&seconds)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

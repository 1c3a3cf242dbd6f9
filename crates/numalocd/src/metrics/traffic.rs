//! The kernel's counters of memory bandwidth, by group of resctrl. Their number is bounded where they are read
//! ([`by_group`](numaloc_host::traffic::by_group)). Names of groups are chosen by users; the encoder escapes them.

use numaloc_host::traffic::GroupTraffic;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector, encoding::DescriptorEncoder, metrics::MetricType, registry::Unit,
};
use std::{fmt, sync::Arc};

/// The counters as last read; none where the kernel has none. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownTraffic(Arc<Mutex<Vec<GroupTraffic>>>);

impl ShownTraffic {
    pub(super) fn set(&self, traffic: Vec<GroupTraffic>) {
        *self.0.lock() = traffic;
    }
}

impl Collector for ShownTraffic {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let shown = self.0.lock();
        if shown.is_empty() {
            return Ok(());
        }
        let help = "Memory that a group of resctrl has read and written, by L3 cache and by place";
        let kind = MetricType::Counter;
        let mut family =
            encoder.encode_descriptor("host_memory_traffic", help, Some(&Unit::Bytes), kind)?;
        for group in shown.iter() {
            let monitoring = group.monitoring.as_deref().unwrap_or_default();
            let domain = group.domain.to_string();
            for (place, bytes) in [("local", group.local_bytes), ("remote", group.remote_bytes)] {
                let labels = [
                    ("group", group.control.as_str()),
                    ("monitoring_group", monitoring),
                    ("l3", &domain),
                    ("place", place),
                ];
                family
                    .encode_family(&labels)?
                    .encode_counter::<prometheus_client::encoding::NoLabelSet, _, u64>(
                        &bytes, None,
                    )?;
            }
        }
        Ok(())
    }
}

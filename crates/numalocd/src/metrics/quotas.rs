//! Resources that clients hold, and the bounds that have refused. Read from the accounts whenever the metrics are read.

use crate::accounts::{Accounts, Bound, Resource};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Instant,
};

/// The accounts, once they are known. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct QuotaCollector(Arc<OnceLock<Accounts>>);

impl QuotaCollector {
    pub fn set(&self, accounts: Accounts) {
        // It is set once, when the daemon starts.
        let _ = self.0.set(accounts);
    }

    pub fn accounts(&self) -> Option<&Accounts> {
        self.0.get()
    }
}

impl Collector for QuotaCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(accounts) = self.accounts() else { return Ok(()) };
        let counted = || Resource::ALL.into_iter().filter(|resource| !resource.is_rate());
        let held = "What all clients have by resource";
        gauges(&mut encoder, "quota_used", held, counted(), |of| accounts.held(of))?;
        let limit = "The most that all clients but root may have together by resource";
        gauges(&mut encoder, "quota_limit", limit, counted(), |of| accounts.limit(of))?;
        let help = "Refusals by resource and by whose bound it was";
        let metric = ConstCounter::new(0_u64);
        let mut family =
            encoder.encode_descriptor("quota_refusals", help, None, metric.metric_type())?;
        for resource in Resource::ALL {
            for bound in Bound::ALL {
                let labels = [("resource", resource.name()), ("bound", bound.name())];
                let count = ConstCounter::new(accounts.refused(resource, bound));
                count.encode(family.encode_family(&labels)?)?;
            }
        }
        let now = Instant::now();
        let full = Resource::ALL.into_iter();
        let full = full.filter_map(|of| Some((of, accounts.largest(of, now)?)));
        let help = "Largest amount of one client or cohort of a resource that all clients have used up in the last 5 minutes";
        let metric = ConstGauge::new(0_i64);
        let mut family =
            encoder.encode_descriptor("quota_largest", help, None, metric.metric_type())?;
        for (resource, (holder, has)) in full {
            let labels = [("resource", resource.name()), ("client", holder.as_str())];
            gauge(has).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    resources: impl Iterator<Item = Resource>,
    value: impl Fn(Resource) -> usize,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, gauge(0).metric_type())?;
    for resource in resources {
        let labels = [("resource", resource.name())];
        gauge(value(resource)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauge(value: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

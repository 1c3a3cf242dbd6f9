//! The bounds of a job's run, and the one that all runs share. No IO.

use crate::config::Config;
use numaloc_api::value::{MigrationSpec, QosClass};
use numaloc_core::Pacing;
use numaloc_executor::{RunLimits, SharedRate};
use std::sync::Arc;

/// A job's own bounds; where it has none, those of the configuration. A best-effort job gets half of the rate: of its
/// own or of the daemon's, whichever is lower. If neither is set, it gets half of the share of time in which its pace
/// may work.
pub fn limits(spec: &MigrationSpec, config: &Config, shared: Option<Arc<SharedRate>>) -> RunLimits {
    let (own, default) = (&spec.limits, &config.limits);
    let rate = own.rate_bytes_per_second.or(default.rate_bytes_per_second);
    let (rate, duty_percent) = match spec.policy.class() {
        QosClass::Lsr | QosClass::Ls => (rate, None),
        QosClass::Be => match rate.into_iter().chain(config.queue.rate_bytes_per_second).min() {
            Some(rate) => (Some(half(rate)), None),
            None => (None, Some(half(spec.policy.options.pacing.pace().duty_percent))),
        },
    };
    RunLimits {
        batch_bytes: own.batch_bytes.or(default.batch_bytes),
        timeout: own.timeout.or(default.timeout),
        budget_bytes: own.hourly_budget_bytes,
        rate_bytes_per_second: rate,
        shared_rate: shared,
        scheduling: config.mover,
        duty_percent,
        ..RunLimits::default()
    }
}

/// A job's pace, with its number of workers, or that of the configuration.
pub fn pacing(spec: &MigrationSpec, config: &Config) -> Pacing {
    let workers = spec.limits.workers.or(config.limits.workers);
    Pacing { workers, ..spec.policy.options.pacing }
}

/// The rate limit that all runs share.
#[derive(Debug, Default)]
pub struct SharedLimit(Option<(u64, Arc<SharedRate>)>);

impl SharedLimit {
    /// The limit for this rate; `None`: there is none. Another rate makes a new limit, and runs under way keep the old
    /// one.
    pub fn at(&mut self, bytes_per_second: Option<u64>) -> Option<Arc<SharedRate>> {
        if bytes_per_second != self.0.as_ref().map(|(rate, _)| *rate) {
            self.0 = bytes_per_second.map(|rate| (rate, Arc::new(SharedRate::new(rate))));
        }
        self.0.as_ref().map(|(_, shared)| shared.clone())
    }
}

/// Half of the amount, but at least 1.
fn half<T: From<u8> + std::ops::Div<Output = T> + Ord>(amount: T) -> T {
    (amount / T::from(2)).max(T::from(1))
}

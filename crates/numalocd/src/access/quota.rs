//! Quotas of one caller, and of the members of a group's grant together: calls per second, and watches.

use super::{
    Caller, Client,
    shares::{HeldShare, ShareHolder, ShareNames, Shares},
};
use crate::{
    config::{Config, Quota},
    refusal::Refusal,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Token units per call: 10^9, so that each nanosecond adds as many units as the rate has calls per second.
const CALL: u64 = 1_000_000_000;

/// A watch. It counts until this is dropped.
pub type Watching = HeldShare;

/// How many callers are remembered before idle ones are removed.
const CALLERS: usize = 64;

/// Keeps each caller within the quotas that the configuration has at that moment. Cheap to clone. An idle caller may be forgotten
/// as soon as its bucket is full again, which takes a second.
#[derive(Clone, Debug)]
pub struct Quotas {
    config: watch::Receiver<Arc<Config>>,
    callers: Arc<Mutex<Callers>>,
    watches: Shares,
}

#[derive(Debug, Default)]
struct Callers {
    used: HashMap<ShareHolder, Bucket>,
    /// How many callers were left when idle ones were last removed.
    busy: usize,
}

#[derive(Debug)]
struct Bucket {
    /// Tokens left, in billionths of a call.
    left: u64,
    updated: Instant,
    limit: u32,
}

impl Quotas {
    /// With the quotas of `config`. Changes of the configuration take effect at once.
    pub fn new(config: watch::Receiver<Arc<Config>>) -> Self {
        let watches = Shares::new(ShareNames {
            caller: "watches",
            cohort: "watches of all members of the group",
            all: "watches of all callers",
        });
        Self { config, callers: Arc::default(), watches }
    }

    /// The quotas of each caller as configured now.
    pub fn quota(&self) -> Quota {
        self.config.borrow().quota
    }

    /// Whether the caller may make a call now. A `now` before the previous one adds nothing to the bucket.
    ///
    /// # Errors
    /// [`Refusal::TooFast`], with how long to wait before the next call.
    pub fn admit(&self, client: &Client, now: Instant) -> Result<(), Refusal> {
        let limit = self.config.borrow().quota.requests_per_second;
        let mut callers = lock(&self.callers);
        for (holder, times) in client.holders() {
            let limit = limit.saturating_mul(times);
            if let Some(retry_after) = callers.of(holder, limit, now).take(limit, now) {
                return Err(Refusal::TooFast { limit, caller: client.name.clone(), retry_after });
            }
        }
        Ok(())
    }

    /// Counts a watch of `caller` until the result is dropped: keep it with the stream. All callers together may have four times
    /// the quota of one; root and the daemon's own user may go beyond that.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the caller, the members of the group that its grant names, or all callers together, have as many
    /// watches as they may.
    pub fn watch(&self, caller: &Caller) -> Result<Watching, Refusal> {
        self.watches.take(&caller.client(), 1, self.quota().watches)
    }

    /// How many watches all callers have now.
    pub fn watches(&self) -> usize {
        self.watches.all()
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        lock(&self.callers).used.len()
    }
}

impl Callers {
    /// What `holder` has used; a new one has a full bucket. Idle callers are forgotten each time the number of callers has
    /// doubled, so that the cost of a call does not depend on their number.
    fn of(&mut self, holder: ShareHolder, limit: u32, now: Instant) -> &mut Bucket {
        if self.used.len() >= CALLERS.max(2 * self.busy) && !self.used.contains_key(&holder) {
            self.used.retain(|_, used| used.fill(used.limit, now) < full(used.limit));
            self.busy = self.used.len();
        }
        let new = || Bucket { left: full(limit), updated: now, limit };
        let used = self.used.entry(holder).or_insert_with(new);
        used.limit = limit;
        used
    }
}

impl Bucket {
    /// Takes the tokens of one call, or returns how long to wait for them.
    fn take(&mut self, limit: u32, now: Instant) -> Option<Duration> {
        let left = self.fill(limit, now);
        if let Some(rest) = left.checked_sub(CALL) {
            self.left = rest;
            return None;
        }
        let missing = (CALL - left).div_ceil(u64::from(limit.max(1)));
        Some(Duration::from_nanos(missing))
    }

    /// Adds the tokens of the time since the last update. A second fills any bucket, so at most one second is counted.
    fn fill(&mut self, limit: u32, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.updated).min(Duration::from_secs(1));
        let come = u64::try_from(passed.as_nanos()).unwrap_or(CALL) * u64::from(limit);
        self.left = (self.left + come).min(full(limit));
        self.updated = self.updated.max(now);
        self.left
    }
}

/// Tokens in a full bucket: the calls of one second, which is also the largest burst.
fn full(limit: u32) -> u64 {
    u64::from(limit) * CALL
}

/// Nothing panics while holding the lock, so the contents of a poisoned lock are consistent.
fn lock(callers: &Mutex<Callers>) -> MutexGuard<'_, Callers> {
    callers.lock().unwrap_or_else(PoisonError::into_inner)
}

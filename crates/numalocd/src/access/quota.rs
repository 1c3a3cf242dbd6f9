//! Quotas of one caller: calls per second, and watches.

use super::{Caller, peer::is_host_name};
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

/// Most watches of all callers together, as a multiple of the quota of one caller. root and the daemon's own user may go beyond
/// it.
const OF_ALL: usize = 4;

/// How many callers are remembered before idle ones are removed.
const CALLERS: usize = 64;

/// Keeps each caller within the quotas that the configuration has at that moment. Cheap to clone. An idle caller may be forgotten
/// as soon as its bucket is full again, which takes a second.
#[derive(Clone, Debug)]
pub struct Quotas {
    config: watch::Receiver<Arc<Config>>,
    callers: Arc<Mutex<Callers>>,
}

#[derive(Debug, Default)]
struct Callers {
    used: HashMap<String, Used>,
    watches: usize,
    /// How many callers were left when idle ones were last removed.
    busy: usize,
}

#[derive(Debug)]
struct Used {
    /// Tokens left, in billionths of a call.
    left: u64,
    updated: Instant,
    watches: usize,
}

/// A watch. It counts until this is dropped.
#[derive(Debug)]
pub struct Watching {
    callers: Arc<Mutex<Callers>>,
    name: String,
}

impl Quotas {
    /// With the quotas of `config`. Changes of the configuration take effect at once.
    pub fn new(config: watch::Receiver<Arc<Config>>) -> Self {
        Self { config, callers: Arc::default() }
    }

    /// The quotas of each caller as configured now.
    pub fn quota(&self) -> Quota {
        self.config.borrow().quota
    }

    /// Whether the caller of this name may make a call now. A `now` before the previous one adds nothing to the bucket.
    ///
    /// # Errors
    /// [`Refusal::TooFast`], with how long to wait before the next call.
    pub fn admit(&self, name: &str, now: Instant) -> Result<(), Refusal> {
        let limit = self.config.borrow().quota.requests_per_second;
        let wait = lock(&self.callers).of(name, limit, now).take(limit, now);
        match wait {
            None => Ok(()),
            Some(retry_after) => {
                Err(Refusal::TooFast { limit, caller: name.to_owned(), retry_after })
            }
        }
    }

    /// Counts a watch of `caller` until the result is dropped: keep it with the stream.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the caller, or all callers together, have as many watches as they may.
    pub fn watch(&self, caller: &Caller) -> Result<Watching, Refusal> {
        let quota = self.config.borrow().quota;
        let mut callers = lock(&self.callers);
        let of_all = quota.watches.saturating_mul(OF_ALL);
        if callers.watches >= of_all && !is_host_name(&caller.name) {
            let (what, caller) = ("watches of all callers", caller.name.clone());
            return Err(Refusal::Quota { what, limit: of_all, caller });
        }
        let used = callers.of(&caller.name, quota.requests_per_second, Instant::now());
        if used.watches >= quota.watches {
            let caller = caller.name.clone();
            return Err(Refusal::Quota { what: "watches", limit: quota.watches, caller });
        }
        used.watches += 1;
        callers.watches += 1;
        Ok(Watching { callers: Arc::clone(&self.callers), name: caller.name.clone() })
    }

    /// How many watches all callers have now.
    pub fn watches(&self) -> usize {
        lock(&self.callers).watches
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        lock(&self.callers).used.len()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut callers = lock(&self.callers);
        callers.watches = callers.watches.saturating_sub(1);
        if let Some(used) = callers.used.get_mut(&self.name) {
            used.watches = used.watches.saturating_sub(1);
        }
    }
}

impl Callers {
    /// What `name` has used; a new caller has a full bucket. Idle callers are forgotten each time the number of callers has
    /// doubled, so that the cost of a call does not depend on their number.
    fn of(&mut self, name: &str, limit: u32, now: Instant) -> &mut Used {
        if self.used.len() >= CALLERS.max(2 * self.busy) && !self.used.contains_key(name) {
            self.used.retain(|_, used| used.watches > 0 || used.fill(limit, now) < full(limit));
            self.busy = self.used.len();
        }
        let new = || Used { left: full(limit), updated: now, watches: 0 };
        self.used.entry(name.to_owned()).or_insert_with(new)
    }
}

impl Used {
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

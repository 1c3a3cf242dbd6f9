//! Refusals by each bound, for metrics, the log and the daemon's status.

use super::{Bound, Resource};
use crate::log::LineRate;
use std::time::{Duration, Instant};

/// Time for which a bound of all clients counts as used up after it has last refused.
const SHOWN: Duration = Duration::from_secs(300);

/// Counts of all refusals since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: [[u64; Bound::ALL.len()]; Resource::ALL.len()],
    /// When a bound of all clients has refused last.
    full: [Option<Instant>; Resource::ALL.len()],
    lines: [LineRate; Resource::ALL.len()],
}

impl Refusals {
    /// Notes that `bound` of `resource` has refused. Gives back whether a line is to be logged: for a bound of all
    /// clients, once a minute.
    pub fn note(&mut self, resource: Resource, bound: Bound, now: Instant) -> bool {
        self.counts[resource as usize][bound as usize] += 1;
        if bound != Bound::All {
            return false;
        }
        self.full[resource as usize] = Some(now);
        self.lines[resource as usize].count(1, now).is_some()
    }

    pub fn count(&self, resource: Resource, bound: Bound) -> u64 {
        self.counts[resource as usize][bound as usize]
    }

    /// Whether all clients together have used up a resource in the last minutes.
    pub fn is_full(&self, resource: Resource, now: Instant) -> bool {
        self.full[resource as usize].is_some_and(|last| now.saturating_duration_since(last) < SHOWN)
    }
}

//! Which bounds have refused: for metrics, the log and the daemon's status.

use super::{Bound, Resource};
use std::time::{Duration, Instant};

/// How long a bound of all clients counts as used up after it has last refused.
const SHOWN: Duration = Duration::from_secs(300);
/// Shortest time between two lines in the log about a resource.
const BETWEEN: Duration = Duration::from_secs(60);

/// What has been refused since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: [[u64; Bound::ALL.len()]; Resource::ALL.len()],
    full: [Option<FullNote>; Resource::ALL.len()],
}

/// When a bound of all clients has refused last, and when that was last logged.
#[derive(Debug)]
struct FullNote {
    last: Instant,
    logged: Instant,
}

impl Refusals {
    /// Notes that `bound` of `resource` has refused. Gives back whether a line is to be logged: for a bound of all clients, once a minute.
    pub fn note(&mut self, resource: Resource, bound: Bound, now: Instant) -> bool {
        self.counts[resource as usize][bound as usize] += 1;
        if bound != Bound::All {
            return false;
        }
        let full = &mut self.full[resource as usize];
        let is_recent = |logged: &Instant| now.saturating_duration_since(*logged) < BETWEEN;
        let logged = full.as_ref().map(|note| note.logged).filter(is_recent);
        *full = Some(FullNote { last: now, logged: logged.unwrap_or(now) });
        logged.is_none()
    }

    pub fn count(&self, resource: Resource, bound: Bound) -> u64 {
        self.counts[resource as usize][bound as usize]
    }

    /// Whether all clients together have used up a resource in the last minutes.
    pub fn is_full(&self, resource: Resource, now: Instant) -> bool {
        let is_shown = |note: &FullNote| now.saturating_duration_since(note.last) < SHOWN;
        self.full[resource as usize].as_ref().is_some_and(is_shown)
    }
}

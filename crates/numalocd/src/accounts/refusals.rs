//! Which bounds have refused: for metrics, the log and the daemon's status.

use super::{Bound, Holder, Resource};
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

/// A bound of all clients has refused.
#[derive(Debug)]
struct FullNote {
    last: Instant,
    logged: Instant,
    text: String,
}

impl Refusals {
    /// Notes that `bound` of `resource` has refused, which allows `limit`. `largest`: who has most of it.
    pub fn note(
        &mut self,
        resource: Resource,
        bound: Bound,
        limit: usize,
        largest: Option<(Holder, usize)>,
        now: Instant,
    ) {
        self.counts[resource as usize][bound as usize] += 1;
        if bound != Bound::All {
            return;
        }
        let most = largest.map(|(holder, has)| format!(", {has} of them by {holder}"));
        let text = format!(
            "all clients together have used up their {limit} {}{}: {}; root, declared schedules and runs of schedules have room beside that",
            resource.words(Bound::Client),
            most.unwrap_or_default(),
            resource.advice(),
        );
        let full = &mut self.full[resource as usize];
        let logged = full.as_ref().map(|note| note.logged);
        let is_quiet = logged.is_none_or(|logged| now.saturating_duration_since(logged) >= BETWEEN);
        if is_quiet {
            tracing::warn!("{text}");
        }
        let logged = logged.filter(|_| !is_quiet).unwrap_or(now);
        *full = Some(FullNote { last: now, logged, text });
    }

    pub fn count(&self, resource: Resource, bound: Bound) -> u64 {
        self.counts[resource as usize][bound as usize]
    }

    /// Whether all clients together have used up a resource in the last minutes.
    pub fn is_full(&self, resource: Resource, now: Instant) -> bool {
        self.full[resource as usize].as_ref().is_some_and(|note| note.is_shown(now))
    }

    pub fn problems(&self, now: Instant) -> Vec<String> {
        let shown = self.full.iter().flatten().filter(|note| note.is_shown(now));
        shown.map(|note| note.text.clone()).collect()
    }
}

impl FullNote {
    fn is_shown(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < SHOWN
    }
}

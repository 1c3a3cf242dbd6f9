//! A token bucket that bounds how often something is written. Pure.

use std::time::Duration;
use tokio::time::Instant;

/// A burst of writes, and one more after each interval.
#[derive(Clone, Debug)]
pub struct Budget {
    burst: u32,
    interval: Duration,
    /// When all of the burst may be used again.
    full: Instant,
}

impl Budget {
    /// A budget of which nothing has been used at `now`.
    pub fn new(burst: u32, interval: Duration, now: Instant) -> Self {
        Self { burst: burst.max(1), interval, full: now }
    }

    /// When the next one may be taken: now, or later.
    pub fn next(&self, now: Instant) -> Instant {
        let room = self.interval * (self.burst - 1);
        self.full.checked_sub(room).map_or(now, |next| next.max(now))
    }

    /// Whether all of the burst may be used.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full <= now
    }

    pub fn take(&mut self, now: Instant) {
        self.full = self.full.max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The writes within any time never exceed the burst plus one for each interval.
        #[test]
        fn no_more_are_taken_than_allowed(
            burst in 1u32..30, pauses in prop::collection::vec(0u64..20, 1..200),
        ) {
            let begin = Instant::now();
            let interval = Duration::from_secs(5);
            let mut budget = Budget::new(burst, interval, begin);
            let (mut now, mut taken) = (begin, 0u32);
            for pause in pauses {
                now += Duration::from_secs(pause);
                if budget.next(now) <= now {
                    budget.take(now);
                    taken += 1;
                } else {
                    now = budget.next(now);
                    budget.take(now);
                    taken += 1;
                }
                let most = u64::from(burst) + (now - begin).as_secs() / interval.as_secs();
                prop_assert!(u64::from(taken) <= most, "{taken} of {most}");
            }
        }
    }

    #[test]
    fn a_burst_may_be_used_at_once() {
        let now = Instant::now();
        let mut budget = Budget::new(20, Duration::from_secs(5), now);
        (0..20).for_each(|_| {
            assert_eq!(budget.next(now), now);
            budget.take(now);
        });
        assert_eq!(budget.next(now), now + Duration::from_secs(5));
    }
}

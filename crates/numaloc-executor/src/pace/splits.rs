//! Slows a run down for some time so that the kernel can make huge pages at the target. Without a free one there, the kernel
//! splits a huge page to move it. Pure.

use crate::pace::brake::{Brake, BrakeSignal};
use std::time::Duration;

/// Time between two calls that are examined: to read the counters can take longer than to move a huge page.
const PERIOD: Duration = Duration::from_millis(100);
/// Share of a call's huge pages that may be split before the run slows down, in percent.
const PERCENT: f64 = 10.0;
/// Longest time in all that a run is slowed down for huge pages. Pages that the kernel has not made by then it cannot
/// make.
const PATIENCE: Duration = Duration::from_secs(5);

/// The state of splits. Times count from the start of the run.
#[derive(Debug)]
pub struct Splits {
    brake: Brake,
    looked: Option<Duration>,
    waited: Duration,
}

impl Splits {
    pub fn new() -> Self {
        Self { brake: Brake::new(), looked: None, waited: Duration::ZERO }
    }

    /// Whether the next call with huge pages is to be examined.
    pub fn is_due(&self, now: Duration) -> bool {
        self.waited < PATIENCE && self.looked.is_none_or(|looked| now >= looked + PERIOD)
    }

    /// Learns from a call: the whole host split `split` huge pages while it ran, and `passed` huge pages were passed to it. More
    /// splits than `passed` cannot be the call's own and do not count.
    pub fn take(&mut self, now: Duration, split: u64, passed: u64) {
        if self.brake.factor() < 1.0 {
            self.waited += now.saturating_sub(self.looked.unwrap_or(now));
        }
        self.looked = Some(now);
        let percent = split.min(passed) as f64 * 100.0 / passed.max(1) as f64;
        let what = "share of huge pages that are split on their way".into();
        self.brake.take(&[BrakeSignal { what, percent, limit: PERCENT }]);
        if self.waited >= PATIENCE {
            self.brake.release();
        }
    }

    /// The factor of the pace: from [`crate::pace::brake::LEAST`] to 1.
    pub fn factor(&self) -> f64 {
        self.brake.factor()
    }

    /// Why the factor is less than 1, for people; empty when it is 1.
    pub fn reason(&self) -> String {
        self.brake.reason()
    }

    /// Time for which splits have slowed the run down.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn it_holds_back_for_a_bounded_time(
            calls in vec((100u64..1000, 0u64..20, 1u64..20), 1..300),
        ) {
            let (mut splits, mut now, mut held) = (Splits::new(), 0, 0);
            for (gap, split, passed) in calls {
                held += if splits.factor() < 1.0 { gap } else { 0 };
                now += gap;
                let at = Duration::from_millis(now);
                prop_assert_eq!(splits.is_due(at), splits.waited() < PATIENCE);
                if splits.is_due(at) {
                    splits.take(at, split, passed);
                }
                prop_assert_eq!(splits.reason().is_empty(), splits.factor() == 1.0);
            }
            prop_assert_eq!(splits.waited(), Duration::from_millis(held));
            prop_assert!(splits.waited() <= PATIENCE + Duration::from_secs(1));
        }
    }

    #[test]
    fn splits_that_are_not_its_own_count_no_more_than_its_pages() {
        let mut splits = Splits::new();
        splits.take(Duration::from_millis(100), 1, 20);
        assert_eq!(splits.factor(), 1.0, "a twentieth");
        splits.take(Duration::from_millis(200), 512, 4);
        let text = "share of huge pages that are split on their way is 100% (limit 10%): moving at 1/2 of the pace";
        assert_eq!(splits.reason(), text);
        splits.take(Duration::from_millis(300), 0, 4);
        assert_eq!((splits.factor(), splits.waited()), (1.0, PERIOD));
    }
}

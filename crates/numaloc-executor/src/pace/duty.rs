//! The share of its time that a worker may work. Pure.

use std::time::Duration;

/// The shortest rest that is worth going to sleep for; shorter ones are saved up.
const WORTH: Duration = Duration::from_millis(1);

/// Keeps the time of work for which a worker has not rested yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Duty {
    busy: Duration,
}

impl Duty {
    pub fn worked(&mut self, time: Duration) {
        self.busy += time;
    }

    /// The time to rest now, if at most `share` (above 0, up to 1) of the time is for work.
    pub fn rest(&mut self, share: f64) -> Duration {
        if share >= 1.0 {
            self.busy = Duration::ZERO;
        }
        let rest = self.busy.mul_f64((1.0 - share) / share);
        if rest < WORTH { Duration::ZERO } else { rest }
    }

    /// Counts time of rest, or of waiting for something else, while the share was `share`.
    pub fn rested(&mut self, time: Duration, share: f64) {
        if share < 1.0 {
            self.busy = self.busy.saturating_sub(time.mul_f64(share / (1.0 - share)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn the_share_is_kept_whatever_calls_take(
            calls in vec((1u64..20_000, 1u32..=100), 1..100),
            nap_us in 100u64..5_000,
        ) {
            let nap = Duration::from_micros(nap_us);
            let mut duty = Duty::default();
            for (call, percent) in calls {
                let share = f64::from(percent) / 100.0;
                duty.worked(Duration::from_micros(call));
                let before = duty.rest(share);
                let mut rested = Duration::ZERO;
                while let rest = duty.rest(share) && !rest.is_zero() {
                    let slept = rest.min(nap);
                    duty.rested(slept, share);
                    rested += slept;
                }
                // A rest that is not worth a sleep is kept for the next time. Each nap is rounded to a nanosecond of work.
                let rounding = before / 500 + Duration::from_micros(1);
                prop_assert!(rested <= before + rounding, "{rested:?} of {before:?}");
                prop_assert!(before <= rested + rounding + WORTH, "{rested:?} of {before:?}");
            }
        }
    }

    #[test]
    fn all_of_the_time_needs_no_rest() {
        let mut duty = Duty::default();
        duty.worked(Duration::from_secs(9));
        assert_eq!(duty.rest(1.0), Duration::ZERO);
        assert_eq!(duty.rest(0.25), Duration::ZERO, "nor afterwards");
        duty.worked(Duration::from_secs(9));
        assert_eq!(duty.rest(0.25), Duration::from_secs(27));
        duty.rested(Duration::from_secs(15), 0.25);
        assert_eq!(
            duty.rest(0.25),
            Duration::from_secs(12),
            "a wait for something else is rest too"
        );
    }
}

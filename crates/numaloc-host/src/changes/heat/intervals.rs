//! How long memory is watched, and how often it is looked at.

use numaloc_core::{Tiers, heat::MEASURING};
use std::time::Duration;

/// Looks at a region that tell what is used from what is not.
const LOOKS: u32 = 100;
/// Longest time between two looks. The result is ready after one or two of them, in which other runs cannot change DAMON.
const SAMPLE_MOST: Duration = Duration::from_secs(5);
/// Shortest time between two times that a result is ready.
const READY_LEAST: Duration = Duration::from_millis(100);

/// The times of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Time between two looks at a region.
    pub sample: Duration,
    /// Time until the result is requested.
    pub watch: Duration,
}

impl Intervals {
    /// For a measurement just before a move. The first value is DAMON's own default.
    pub const BRIEF: Self = Self { sample: Duration::from_millis(5), watch: MEASURING };

    /// For finding what is not used for the time that these tiers say.
    pub fn covering(tiers: &Tiers) -> Self {
        Self { sample: (tiers.cold_after / LOOKS).min(SAMPLE_MOST), watch: tiers.cold_after }
    }

    /// Time between two times that a result is ready.
    pub fn ready(&self) -> Duration {
        self.sample.max(READY_LEAST)
    }

    /// Time for which looks are counted. Afterwards DAMON begins to count again, and gives regions other borders, so it is longer than it
    /// takes to get the result. Kernels before 6.9 give none before.
    pub fn aggregate(&self) -> Duration {
        self.watch + self.watch / 10
    }

    /// Looks at a region for the result.
    pub fn looks(&self) -> u32 {
        let looks = self.watch.as_micros() / self.sample.as_micros().max(1);
        u32::try_from(looks).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn covering(cold_after: Duration) -> Intervals {
        Intervals::covering(&Tiers { cold_after, ..Tiers::default() })
    }

    #[test]
    fn one_result_covers_the_time() {
        assert_eq!(Intervals::BRIEF.looks(), 200);
        let (short, long) = (covering(seconds(2)), covering(seconds(60)));
        assert_eq!((short.sample, short.looks()), (Duration::from_millis(20), 100));
        assert_eq!((long.sample, long.looks()), (Duration::from_millis(600), 100));
        assert_eq!((long.watch, long.aggregate()), (seconds(60), seconds(66)));
    }

    #[test]
    fn a_result_is_ready_soon_however_long_the_watch_takes() {
        let ready = |time| covering(seconds(time)).ready();
        assert_eq!(Intervals::BRIEF.ready(), Duration::from_millis(100));
        assert_eq!(
            [2, 60, 3600].map(ready),
            [READY_LEAST, Duration::from_millis(600), SAMPLE_MOST]
        );
        assert_eq!(covering(seconds(3600)).looks(), 720);
    }
}

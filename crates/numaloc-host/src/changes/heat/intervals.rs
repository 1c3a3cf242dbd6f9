//! How long memory is watched, and how often it is looked at.

use numaloc_core::Tiers;
use std::time::Duration;

/// Looks at a region in one aggregation.
const LOOKS: u32 = 20;

/// The times of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Time between two looks at a region.
    pub sample: Duration,
    /// Time for which accesses are counted, until regions are split and merged.
    pub aggregate: Duration,
    /// Time for DAMON to adapt the borders of regions.
    pub warm_up: Duration,
    /// Number of results that are summed up. Each takes about one aggregation time.
    pub results: u32,
}

impl Intervals {
    /// For a measurement just before a move. The first two values are DAMON's own defaults.
    pub const BRIEF: Self = Self {
        sample: Duration::from_millis(5),
        aggregate: Duration::from_millis(100),
        warm_up: Duration::from_millis(400),
        results: 6,
    };

    /// For finding what is not used for the time that these tiers say: five results cover it. To read one takes three files for each region, and each look costs CPU
    /// time, so both are as rare as that allows.
    pub fn covering(tiers: &Tiers) -> Self {
        let results = 5;
        let aggregate = tiers.cold_after / results;
        let warm_up = tiers.watching() - tiers.cold_after;
        Self { sample: aggregate / LOOKS, aggregate, warm_up, results }
    }

    /// Looks at a region for one result.
    pub fn looks(&self) -> u32 {
        let looks = self.aggregate.as_micros() / self.sample.as_micros().max(1);
        u32::try_from(looks).unwrap_or(u32::MAX)
    }

    /// All of the time.
    pub fn sum(&self) -> Duration {
        self.warm_up + self.aggregate * self.results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covering(seconds: u64) -> Intervals {
        Intervals::covering(&Tiers { cold_after: Duration::from_secs(seconds), ..Tiers::default() })
    }

    #[test]
    fn five_results_cover_the_time() {
        assert_eq!(Intervals::BRIEF.looks(), 20);
        let long = covering(10);
        assert_eq!(
            (long.sample, long.aggregate),
            (Duration::from_millis(100), Duration::from_secs(2))
        );
        assert_eq!((long.looks(), long.sum()), (20, Duration::from_secs(11)));
        let short = covering(2);
        assert_eq!((short.looks(), short.sample), (20, Duration::from_millis(20)));
    }
}

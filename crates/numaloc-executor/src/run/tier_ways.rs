//! In which direction runs of this process have moved memory between tiers.

use numaloc_core::{Directions, Plan, Resting};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The directions, shared by all runs. They are lost when the process ends.
#[derive(Clone, Debug)]
pub struct TierWays {
    begin: Instant,
    ways: Arc<Mutex<Directions>>,
}

impl Default for TierWays {
    fn default() -> Self {
        Self { begin: Instant::now(), ways: Arc::default() }
    }
}

impl TierWays {
    /// What has gone up and down a short time ago, for plans with this `cold_after`.
    pub fn resting(&self, cold_after: Duration) -> Resting {
        self.ways.lock().resting(self.begin.elapsed(), cold_after)
    }

    /// Notes what a plan has moved, or has tried to.
    pub fn note(&self, plan: &Plan) {
        let (now, mut ways) = (self.begin.elapsed(), self.ways.lock());
        for moved in plan.tier_moves() {
            ways.note(moved.identity, &moved.range, moved.is_up, now);
        }
    }
}

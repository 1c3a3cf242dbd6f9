//! Whatever the world does, a run keeps to its bounds and comes to its end.

use super::{Call, LIMIT, NAP, paces, run, world::worlds};
use crate::{limits::rate::Rate, pace::brake::LEAST};
use proptest::prelude::*;
use std::time::Duration;

/// Longer than any of these runs takes.
const EVER: Duration = Duration::from_secs(1 << 30);
/// Longest rest for a trial, including its naps.
const TRIAL: Duration = Duration::from_millis(400);

proptest! {
    #[test]
    fn a_run_ends_within_its_bounds(world in worlds(), pace in paces(), mib in 1u64..64) {
        let bytes = mib << 20;
        let calls = run(&world, &pace, bytes, EVER);
        prop_assert_eq!(calls.iter().map(|call| call.bytes).sum::<u64>(), bytes);
        // Never over the share of time, except for rests that are not worth a sleep.
        let last = calls.last().expect("some");
        let busy: Duration = calls.iter().map(|call| call.took).sum();
        let allowed = last.at.mul_f64(pace.duty) + Duration::from_millis(2);
        prop_assert!(busy - last.took <= allowed, "{:?} of {:?}", busy - last.took, last.at);
        // Never over the bandwidth by more than one batch.
        if let Some(rate) = pace.rate {
            let most = calls.iter().map(|call| call.bytes).max().expect("some");
            let most = most.max(Rate::new(rate).batch_bytes());
            for (first, &Call { at: from, .. }) in calls.iter().enumerate() {
                let mut sum = 0;
                for Call { at, bytes, .. } in &calls[first..] {
                    sum += bytes;
                    let allowed = (*at - from).as_secs_f64() * rate as f64 + 1.0;
                    prop_assert!(sum as f64 <= allowed + most as f64, "{sum} in {:?}", *at - from);
                }
            }
        }
        // Never starves: between two calls there are at most the longest rest that a call can ask for, the wait for the rate, and
        // a rest for a trial.
        for pair in calls.windows(2) {
            let (Call { at, took, .. }, next) = (pair[0], pair[1]);
            let rest = (took + Duration::from_millis(1)).mul_f64(1.0 / (pace.duty * LEAST));
            let wait = pace.rate.map_or(0.0, |rate| next.bytes as f64 / rate as f64);
            let longest = at + took + rest + Duration::from_secs_f64(wait) + TRIAL + NAP;
            prop_assert!(next.at <= longest, "{:?} after {at:?} + {took:?}", next.at);
        }
    }

    #[test]
    fn without_pressure_a_run_keeps_its_pace(mut world in worlds(), pace in paces()) {
        world.caused.percent = 0.0;
        world.others = super::world::Others::Sawtooth { high: LIMIT, period_ms: 700 };
        let pace = super::AskedPace { rate: None, ..pace };
        let calls = run(&world, &pace, 64 << 20, EVER);
        let last = calls.last().expect("some");
        let busy: Duration = calls.iter().map(|call| call.took).sum();
        let most = busy.mul_f64(1.0 / pace.duty) + NAP;
        prop_assert!(last.at <= most, "{:?} for {busy:?}", last.at);
    }
}

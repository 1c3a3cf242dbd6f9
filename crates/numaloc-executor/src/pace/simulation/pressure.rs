//! Pressure: what a run causes holds it back, what others cause does not.

use super::{
    AskedPace, Call, LIMIT, run,
    world::{Caused, Others, World, others},
};
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Time that a guard may need to find the right answer after each change of the world.
const SOON: Duration = Duration::from_secs(5);

/// The bounds of the profile `balanced`, without a rate.
fn balanced() -> AskedPace {
    AskedPace { longest: Duration::from_millis(10), duty: 0.42, most: 16 << 20, rate: None }
}

fn minute(world: &World, pace: &AskedPace) -> Vec<Call> {
    run(world, pace, u64::MAX, MINUTE)
}

/// Share of the time from `from` to `to` that was spent in calls.
fn share(calls: &[Call], from: Duration, to: Duration) -> f64 {
    let within = |call: &&Call| (from..to).contains(&call.at);
    let busy: Duration = calls.iter().filter(within).map(|call| call.took).sum();
    busy.as_secs_f64() / (to - from).as_secs_f64()
}

/// Percent of the time in which others wait for the run.
fn waited_for(calls: &[Call], from: Duration, to: Duration) -> f64 {
    let mut within = calls.iter().filter(|call| (from..to).contains(&call.at));
    let (first, last) = (within.next(), within.next_back());
    first.zip(last).map_or(0.0, |(first, last)| {
        (last.caused - first.caused).as_secs_f64() / (last.at - first.at).as_secs_f64() * 100.0
    })
}

fn others_up_to(percent: f64) -> impl Strategy<Value = Others> {
    others().prop_map(move |others| others.times(percent / 100.0))
}

fn caused(percent: std::ops::Range<f64>) -> impl Strategy<Value = Caused> {
    (percent, 0u32..15, 10u32..30, 1u32..20).prop_map(|(percent, from, seconds, lag)| Caused {
        percent,
        from: SECOND * from,
        to: SECOND * (from + seconds),
        lag: Duration::from_millis(lag.into()),
    })
}

proptest! {
    /// `fast` works all of the time, in two threads: a quarter of the time in one thread is an eighth of it.
    #[test]
    fn what_others_cause_costs_little(others in others_up_to(100.0), caused in caused(0.0..LIMIT / 2.0)) {
        let calls = minute(&World::even(others, caused), &balanced());
        let share = share(&calls, Duration::ZERO, MINUTE);
        prop_assert!(share > 0.25, "{share:.3} of the time");
    }

    #[test]
    fn what_a_run_causes_holds_it_back_for_as_long(
        others in others_up_to(30.0),
        caused in caused(LIMIT * 1.5..LIMIT * 4.0),
    ) {
        let Caused { from, to, .. } = caused;
        let calls = minute(&World::even(others, caused), &balanced());
        let during = waited_for(&calls, from + SOON, to);
        prop_assert!(during < LIMIT * 1.2, "it causes {during:.0} %");
        let before = share(&calls, Duration::ZERO, from + SECOND);
        let after = share(&calls, to + SOON, MINUTE);
        prop_assert!(after > 0.3, "{before:.3} before, {after:.3} after");
    }
}

#[test]
fn each_change_is_found_out_soon() {
    // Phases of 10 s: calm; others; the run beside others; others again; the run alone; calm.
    let seconds = |percent: f64| vec![percent; 10];
    let others = [0.0, 60.0, 30.0, 60.0, 0.0, 0.0].map(seconds).concat();
    let worlds = [20u32, 40].map(|from| Caused {
        percent: LIMIT * 2.0,
        from: SECOND * from,
        to: SECOND * (from + 10),
        lag: Duration::from_millis(10),
    });
    for caused in worlds {
        let from = caused.from;
        let calls = minute(&World::even(Others::Steps(others.clone()), caused), &balanced());
        for begin in (0..6).map(|phase| SECOND * 10 * phase) {
            let share = share(&calls, begin + SOON, begin + SECOND * 10);
            let is_cause = begin == from;
            assert_eq!(share < 0.25, is_cause, "{share:.3} from {begin:?} on");
        }
    }
}

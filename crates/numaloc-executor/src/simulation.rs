//! The parts of the pace together, on a simulated clock and a simulated kernel.

use crate::{
    duty::Duty,
    folio::Class,
    guard::{self, Guard, Signal},
    rate::Rate,
    stall::{self, Stall},
};
use proptest::{collection::vec, prelude::*};
use std::time::Duration;

const SAMPLE: Duration = Duration::from_millis(250);
const NAP: Duration = Duration::from_millis(100);

/// What the kernel and the others do.
#[derive(Clone, Debug)]
struct World {
    fixed: Duration,
    per_mib: Duration,
    /// Calls take so many times longer, in turns.
    noise: Vec<u32>,
    /// Pressure in percent of the bound, in seconds' turns; none after the last.
    pressure: Vec<f64>,
}

/// What is asked for.
#[derive(Clone, Debug)]
struct Pace {
    longest: Duration,
    duty: f64,
    most: u64,
    rate: Option<u64>,
}

/// A call: when it began, how long it took, its bytes.
type Call = (Duration, Duration, u64);

/// One worker from begin to end.
fn run(world: &World, pace: &Pace, bytes: u64) -> (Vec<Call>, Guard) {
    let (mut now, mut left, mut sampled) = (Duration::ZERO, bytes, Duration::ZERO);
    let mut rate = pace.rate.map(Rate::new);
    let most = rate.as_ref().map_or(pace.most, |rate| pace.most.min(rate.batch_bytes()));
    let mut stall = Stall::new(pace.longest, most);
    let (mut duty, mut guard) = (Duty::default(), Guard::new());
    let mut calls = Vec::new();
    while left > 0 {
        let fitting = stall.bytes(Class::Base);
        let is_least = guard.factor() <= guard::LEAST;
        let bytes = left.min(if is_least { fitting.min(stall::LEAST) } else { fitting });
        let share = pace.duty * guard.factor();
        if let Some(rate) = &mut rate {
            let begin = rate.take(now, bytes).max(now);
            duty.rested(begin - now, share);
            now = begin;
        }
        let noise = world.noise[calls.len() % world.noise.len()];
        let took = (world.fixed + world.per_mib.mul_f64(bytes as f64 / (1 << 20) as f64)) * noise;
        calls.push((now, took, bytes));
        (now, left) = (now + took, left - bytes);
        duty.worked(took);
        stall.learn(Class::Base, bytes, took);
        loop {
            if now - sampled >= SAMPLE {
                let percent = world.pressure.get(now.as_secs() as usize).copied().unwrap_or(0.0);
                guard.take([Signal { what: "pressure".into(), percent, limit: 100.0 }]);
                sampled = now;
            }
            let share = pace.duty * guard.factor();
            let rest = duty.rest(share).min(NAP);
            if rest.is_zero() {
                break;
            }
            duty.rested(rest, share);
            now += rest;
        }
    }
    (calls, guard)
}

fn worlds() -> impl Strategy<Value = World> {
    let pressure = vec(prop_oneof![Just(0.0), 0f64..300.0], 0..20);
    (0u64..2_000, 20u64..2_000, vec(prop_oneof![9 => Just(1u32), 1 => 1u32..50], 1..50), pressure)
        .prop_map(|(fixed, per_mib, noise, pressure)| World {
            fixed: Duration::from_micros(fixed),
            per_mib: Duration::from_micros(per_mib),
            noise,
            pressure,
        })
}

fn paces() -> impl Strategy<Value = Pace> {
    let rate = prop_oneof![Just(None), (1u64 << 22..1 << 32).prop_map(Some)];
    (5u64..300, 5u32..=100, 20u32..27, rate).prop_map(|(longest, duty, most, rate)| Pace {
        longest: Duration::from_millis(longest),
        duty: f64::from(duty) / 100.0,
        most: 1 << most,
        rate,
    })
}

proptest! {
    #[test]
    fn a_run_ends_within_its_bounds(world in worlds(), pace in paces(), mib in 1u64..64) {
        let bytes = mib << 20;
        let (calls, _) = run(&world, &pace, bytes);
        prop_assert_eq!(calls.iter().map(|call| call.2).sum::<u64>(), bytes);
        // Never over the share of time, but for what is not worth a sleep.
        let (begin, took, _) = *calls.last().expect("some");
        let busy: Duration = calls.iter().map(|call| call.1).sum();
        let allowed = begin.mul_f64(pace.duty) + Duration::from_millis(2);
        prop_assert!(busy - took <= allowed, "{:?} of {begin:?}", busy - took);
        // Never over the bandwidth by more than one batch.
        if let Some(rate) = pace.rate {
            let most = calls.iter().map(|call| call.2).max().expect("some");
            let most = most.max(Rate::new(rate).batch_bytes());
            for (first, &(from, ..)) in calls.iter().enumerate() {
                let mut sum = 0;
                for &(at, _, bytes) in &calls[first..] {
                    sum += bytes;
                    let allowed = (at - from).as_secs_f64() * rate as f64 + 1.0;
                    prop_assert!(sum as f64 <= allowed + most as f64, "{sum} in {:?}", at - from);
                }
            }
        }
        // Never starves: from one call to the next it is the longest rest that a call can ask for, or its rate's wait.
        for pair in calls.windows(2) {
            let ((at, took, _), (next, _, bytes)) = (pair[0], pair[1]);
            let rest = (took + Duration::from_millis(1)).mul_f64(1.0 / (pace.duty * guard::LEAST));
            let wait = pace.rate.map_or(0.0, |rate| bytes as f64 / rate as f64);
            let longest = at + took + rest + Duration::from_secs_f64(wait) + NAP;
            prop_assert!(next <= longest, "{next:?} after {at:?} + {took:?}");
        }
    }

    #[test]
    fn a_run_recovers_from_pressure(world in worlds(), pace in paces()) {
        let pace = Pace { rate: None, ..pace };
        let end = Duration::from_secs(world.pressure.len() as u64);
        let mut calm = world.clone();
        calm.pressure.clear();
        let (calls, _) = run(&world, &pace, 256 << 20);
        // From ten samples after its end on, the run goes on at its pace: what is left takes as long as without pressure.
        let later = |call: &&Call| call.0 > end + SAMPLE * 12 + Duration::from_secs(20);
        let rest: Vec<&Call> = calls.iter().filter(later).collect();
        if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
            let busy: Duration = rest.iter().map(|call| call.1).sum();
            let most = busy.mul_f64(1.0 / pace.duty) + SAMPLE;
            prop_assert!(last.0 - first.0 <= most, "{:?} for {busy:?}", last.0 - first.0);
        }
    }
}

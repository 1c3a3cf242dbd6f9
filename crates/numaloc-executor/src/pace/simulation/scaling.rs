//! The number of workers, on machines with which threads help more or less.

use crate::pace::scaling::{Scaling, ScalingStep};
use proptest::{collection::vec, prelude::*, strategy::ValueTree, test_runner::TestRunner};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

const MIB: u64 = 1 << 20;
const CALL: u64 = 64 * MIB;
const MOST: usize = 8;

/// The rate that the threads of a machine reach together.
#[derive(Clone, Debug)]
struct Machine {
    /// MiB per second of one thread alone.
    alone: f64,
    /// The number of threads up to which the rate grows with each of them.
    useful: f64,
    /// The part of the rate that each thread beyond that costs.
    contention: f64,
    /// Factors by which calls take longer, in percent, used in turn.
    noise: Vec<u32>,
}

impl Machine {
    fn even(useful: f64) -> Self {
        Self { alone: 1000.0, useful, contention: 0.0, noise: vec![100] }
    }

    fn rate(&self, threads: usize) -> f64 {
        let threads = threads as f64;
        let lost = self.contention * (threads - self.useful).max(0.0);
        self.alone * threads.min(self.useful) * (1.0 - lost).max(0.1)
    }

    fn took(&self, call: usize, threads: usize) -> Duration {
        let seconds = (CALL / MIB) as f64 * threads as f64 / self.rate(threads);
        Duration::from_secs_f64(seconds * f64::from(self.noise[call % self.noise.len()]) / 100.0)
    }
}

/// The result of a simulated run.
#[derive(Debug)]
struct Done {
    took: Duration,
    /// The time for which it had each number of workers.
    with: BTreeMap<usize, Duration>,
    last: usize,
}

impl Done {
    fn share(&self, workers: usize) -> f64 {
        let with = self.with.get(&workers).copied().unwrap_or_default();
        with.as_secs_f64() / self.took.as_secs_f64()
    }
}

/// Moves `bytes`, beginning with two workers. `room`: for how many there are idle CPUs, as a function of the time.
fn run(machine: &Machine, bytes: u64, room: impl Fn(Duration) -> usize) -> Done {
    let mut scaling = Scaling::new(2, CALL);
    let mut ends = BinaryHeap::new();
    let (mut moved, mut begun, mut calls) = (0, 0, 0);
    let (mut now, mut with) = (Duration::ZERO, BTreeMap::<usize, Duration>::new());
    let mut begin = |ends: &mut BinaryHeap<_>, now: Duration, threads: usize| {
        if begun < bytes {
            ends.push(Reverse(now + machine.took(calls, threads)));
            (begun, calls) = (begun + CALL, calls + 1);
        }
    };
    for _ in 0..2 {
        begin(&mut ends, now, 2);
    }
    while let Some(Reverse(end)) = ends.pop() {
        *with.entry(scaling.workers()).or_default() += end - now;
        (now, moved) = (end, moved + CALL);
        let room = room(now).min(MOST);
        let step = scaling.step(now, moved, room);
        let threads = scaling.workers();
        assert!(threads >= 2, "a run keeps the workers that it began with");
        if step == ScalingStep::Add {
            assert!(threads <= room, "a worker is added only where a CPU is idle");
            begin(&mut ends, now, threads);
        }
        if step != ScalingStep::Remove {
            begin(&mut ends, now, threads);
        }
        assert!(ends.len() <= threads, "the number of workers that it reports");
    }
    assert!(moved >= bytes, "all is moved");
    Done { took: now, with, last: scaling.workers() }
}

const LARGE: u64 = 256 << 30;

#[test]
fn workers_are_added_as_long_as_they_help() {
    for useful in 2..=MOST {
        let done = run(&Machine::even(useful as f64), LARGE, |_| 64);
        assert!(done.share(useful) > 0.85, "{useful}: {done:?}");
        let ideal = LARGE as f64 / MIB as f64 / (1000.0 * useful as f64);
        let took = done.took.as_secs_f64();
        assert!(took < ideal * 1.05, "{useful}: {took} instead of {ideal}");
    }
}

#[test]
fn a_worker_that_adds_less_than_half_of_one_is_not_worth_its_cpu() {
    let added = |useful: f64| run(&Machine::even(useful), LARGE, |_| 64);
    assert!(added(2.4).share(2) > 0.9);
    assert!(added(2.6).share(3) > 0.9);
}

#[test]
fn where_further_workers_cost_they_are_hardly_tried() {
    let machine = Machine { contention: 0.2, ..Machine::even(2.0) };
    let done = run(&machine, LARGE, |_| 64);
    let two = LARGE as f64 / MIB as f64 / machine.rate(2);
    assert!(done.took.as_secs_f64() < two * 1.02, "{done:?}");
}

#[test]
fn a_short_run_keeps_its_two_workers() {
    let done = run(&Machine::even(8.0), 512 * MIB, |_| 64);
    assert_eq!(done.share(2), 1.0);
    let done = run(&Machine::even(8.0), 8 << 30, |_| 64);
    assert!(done.share(3) > 0.0, "this one is long enough: {done:?}");
}

#[test]
fn workers_beyond_the_first_leave_when_others_need_the_cpus() {
    let full = Duration::from_secs(10);
    let done = run(&Machine::even(8.0), LARGE, |now| if now < full { 6 } else { 0 });
    assert_eq!(done.last, 2, "{done:?}");
    let done = run(&Machine::even(8.0), LARGE, |now| if now < full { 0 } else { 6 });
    assert_eq!(done.last, 6, "and they come when there is room: {done:?}");
}

fn machines() -> impl Strategy<Value = Machine> {
    let noise = vec(prop_oneof![9 => 90u32..110, 1 => 50u32..500], 1..40);
    (100f64..10_000.0, 1f64..12.0, 0f64..0.2, noise)
        .prop_map(|(alone, useful, contention, noise)| Machine { alone, useful, contention, noise })
}

proptest! {
    #[test]
    fn whatever_the_machine_does_the_number_stays_in_its_bounds(
        machine in machines(),
        gib in 1u64..64,
        rooms in vec(0usize..12, 1..20),
    ) {
        let room = |now: Duration| rooms[now.as_secs() as usize % rooms.len()];
        let done = run(&machine, gib << 30, room);
        let most = rooms.iter().copied().max().unwrap_or(0).clamp(2, MOST);
        prop_assert!(done.with.keys().all(|workers| (2..=most).contains(workers)), "{done:?}");
    }
}

/// The times of calls differ so much that a useless worker can pass its trial by luck.
#[test]
fn trials_cost_little_where_the_times_of_calls_differ() {
    const BYTES: u64 = 64 << 30;
    let mut runner = TestRunner::deterministic();
    let mut ratios: Vec<_> = (0..5000)
        .map(|_| {
            let machine = machines().new_tree(&mut runner).expect("all are valid").current();
            let took = |most| run(&machine, BYTES, |_| most).took.as_secs_f64();
            took(64) / took(2)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let (rare, worst) = (ratios[ratios.len() * 999 / 1000], ratios[ratios.len() - 1]);
    assert!(rare < 1.15 && worst < 1.25, "one in a thousand {rare}, worst {worst}");
}

#[test]
fn a_worker_that_passed_by_luck_leaves_again() {
    let slow = |call: u32| if (2..10).contains(&call) { 500 } else { 100 };
    let noise = (0..1 << 12).map(slow).collect();
    let done = run(&Machine { contention: 0.2, noise, ..Machine::even(2.0) }, LARGE, |_| 64);
    assert!(done.share(3) > 0.0, "it passed: {done:?}");
    assert!(done.share(2) > 0.9 && done.last == 2, "{done:?}");
}

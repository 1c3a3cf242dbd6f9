//! Tests the parts of the pace together, on a simulated clock and with a simulated kernel.

mod bounds;
mod pressure;
mod scaling;
mod world;

use crate::{
    limits::rate::Rate,
    pace::{
        brake::{BrakeSignal, LEAST},
        duty::Duty,
        guard::{Guard, Interval},
        interval::{IntervalClock, PaceStep},
        stall::{self, Stall},
    },
    pages::folio::Class,
};
use proptest::prelude::*;
use std::time::Duration;
use world::{Psi, World};

/// Time between two checks of a resting worker whether it may continue.
const NAP: Duration = Duration::from_millis(20);
/// The bound of the simulated gauge, in percent.
const LIMIT: f64 = 50.0;

/// The pace that is asked for.
#[derive(Clone, Debug)]
struct AskedPace {
    longest: Duration,
    duty: f64,
    most: u64,
    rate: Option<u64>,
}

fn paces() -> impl Strategy<Value = AskedPace> {
    let rate = prop_oneof![Just(None), (1u64 << 22..1 << 32).prop_map(Some)];
    (5u64..300, 5u32..=100, 20u32..27, rate).prop_map(|(longest, duty, most, rate)| AskedPace {
        longest: Duration::from_millis(longest),
        duty: f64::from(duty) / 100.0,
        most: 1 << most,
        rate,
    })
}

#[derive(Clone, Copy, Debug)]
struct Call {
    at: Duration,
    took: Duration,
    bytes: u64,
    /// Time that others have waited because of the run, until then.
    caused: Duration,
}

struct SimulatedWorker<'w> {
    world: &'w World,
    pace: &'w AskedPace,
    now: Duration,
    psi: Psi,
    read: Duration,
    stall: Stall,
    duty: Duty,
    guard: Guard,
    clock: IntervalClock,
    calls: Vec<Call>,
}

impl<'w> SimulatedWorker<'w> {
    fn new(world: &'w World, pace: &'w AskedPace, most: u64) -> Self {
        Self {
            world,
            pace,
            now: Duration::ZERO,
            psi: Psi::new(pace.duty),
            read: Duration::ZERO,
            stall: Stall::new(pace.longest, most),
            duty: Duty::default(),
            guard: Guard::new(),
            clock: IntervalClock::new(Duration::ZERO),
            calls: Vec::new(),
        }
    }

    fn pass(&mut self, time: Duration, is_moving: bool) {
        self.now += time;
        self.psi.pass(self.world, self.now, is_moving);
    }

    fn share(&self) -> f64 {
        self.pace.duty * self.guard.factor()
    }

    fn idle(&mut self, time: Duration) {
        self.duty.rested(time, self.share());
        self.pass(time, false);
    }

    fn call(&mut self, most: u64) -> u64 {
        let fitting = self.stall.bytes(Class::Base);
        let factor = self.guard.factor();
        let bytes = most.min(if factor <= LEAST { fitting.min(stall::LEAST) } else { fitting });
        let took = self.world.took(self.calls.len(), bytes);
        self.calls.push(Call { at: self.now, took, bytes, caused: self.psi.caused });
        self.pass(took, true);
        self.duty.worked(took);
        self.stall.learn(Class::Base, bytes, took);
        bytes
    }

    /// Rests as the code in `rest` and `watch` does.
    fn rest(&mut self) {
        loop {
            match self.clock.step(self.now, true) {
                PaceStep::Wait => {}
                PaceStep::Begin => self.read = self.psi.total(),
                PaceStep::End(measured) => {
                    let stalled = self.psi.total() - self.read;
                    let percent = stalled.as_secs_f64() / measured.as_secs_f64() * 100.0;
                    self.guard.take(&[BrakeSignal { what: "psi".into(), percent, limit: LIMIT }]);
                    self.read = self.psi.total();
                    self.clock.next(self.guard.interval(), self.now, Duration::ZERO);
                }
            }
            let is_resting = self.guard.interval() == Interval::Resting;
            let rest = if is_resting { NAP } else { self.duty.rest(self.share()).min(NAP) };
            if rest.is_zero() {
                return;
            }
            self.idle(rest);
        }
    }
}

/// Runs one worker until all bytes have moved or the time is over.
fn run(world: &World, pace: &AskedPace, bytes: u64, end: Duration) -> Vec<Call> {
    let mut rate = pace.rate.map(Rate::new);
    let most = rate.as_ref().map_or(pace.most, |rate| pace.most.min(rate.batch_bytes()));
    let mut worker = SimulatedWorker::new(world, pace, most);
    let mut left = bytes;
    while left > 0 && worker.now < end {
        if let Some(rate) = &mut rate {
            let begin = rate.take(worker.now, left.min(worker.stall.bytes(Class::Base)));
            worker.idle(begin.saturating_sub(worker.now));
        }
        left -= worker.call(left);
        worker.rest();
    }
    worker.calls
}

//! Decides how many workers a run has: one more for as long as each further one adds to the rate. Pure; [`ScalingStep`] says what to do.
//!
//! Only a measurement shows how far threads help: they share the links between the nodes, the locks of the process and of the nodes' LRU
//! lists, and up to 6.2 each folio interrupts other CPUs. So each further worker is on trial: the rate with it is compared with the rate
//! before it.

use std::time::Duration;

/// Calls of full size for each worker over which a rate is measured. One call each is left out before that, because a new worker begins
/// in the middle of the others' calls. So two workers move 640 MiB before a third one is tried, and a run that is short ends before it
/// could gain.
const CALLS: u64 = 4;
/// The rate that a further worker has to add, as a part of what each worker moved before it.
const WORTH: f64 = 0.5;
/// Intervals until the next trial after one that failed. This doubles with each failure, up to [`PAUSE_MAX`].
const PAUSE: u32 = 8;
const PAUSE_MAX: u32 = 128;

/// What a worker that has asked does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingStep {
    /// It continues.
    Keep,
    /// It starts one more worker and continues.
    Add,
    /// It ends.
    Remove,
}

/// The number of workers, and their rate.
#[derive(Debug)]
pub struct Scaling {
    workers: usize,
    /// The number that the run began with, which it always has.
    least: usize,
    call_bytes: u64,
    /// When the current interval began, and how much had moved by then.
    begin: Duration,
    begin_bytes: u64,
    /// Whether a worker may be in a call that began before the last change.
    is_settling: bool,
    /// The rate without the latest worker, while that one is on trial.
    before: Option<f64>,
    /// Intervals until the next trial.
    pause: u32,
    next_pause: u32,
}

impl Scaling {
    /// Begins with this many workers. `call_bytes`: the most that one call moves.
    pub fn new(workers: usize, call_bytes: u64) -> Self {
        Self {
            workers,
            least: workers,
            call_bytes: call_bytes.max(1),
            begin: Duration::ZERO,
            begin_bytes: 0,
            is_settling: true,
            before: None,
            pause: 0,
            next_pause: PAUSE,
        }
    }

    /// How much moves before the first trial.
    pub fn bytes_before_trials(workers: usize, call_bytes: u64) -> u64 {
        call_bytes.saturating_mul((1 + CALLS) * workers as u64)
    }

    /// The number of workers now.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Whether [`Self::step`] would decide anything when `moved_bytes` have moved since the run began.
    pub fn is_due(&self, moved_bytes: u64) -> bool {
        let calls = if self.is_settling { 1 } else { CALLS };
        let bytes = self.call_bytes.saturating_mul(calls * self.workers as u64);
        moved_bytes.saturating_sub(self.begin_bytes) >= bytes
    }

    /// Decides at `now`, when `moved_bytes` have moved since the run began. `room`: the number of workers that there are idle CPUs for.
    pub fn step(&mut self, now: Duration, moved_bytes: u64, room: usize) -> ScalingStep {
        if !self.is_due(moved_bytes) {
            return ScalingStep::Keep;
        }
        let seconds = now.saturating_sub(self.begin).as_secs_f64();
        let rate = (moved_bytes - self.begin_bytes) as f64 / seconds.max(f64::MIN_POSITIVE);
        let is_measured = !self.is_settling;
        (self.begin, self.begin_bytes, self.is_settling) = (now, moved_bytes, false);
        if self.workers > self.least.max(room) {
            self.before = None;
            return self.remove();
        }
        if !is_measured {
            return ScalingStep::Keep;
        }
        match self.before.take() {
            Some(before) if rate < before * (1.0 + WORTH / (self.workers - 1) as f64) => {
                self.pause = self.next_pause;
                self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
                self.remove()
            }
            None if self.pause > 0 => {
                self.pause -= 1;
                ScalingStep::Keep
            }
            _ if self.workers < room => {
                self.before = Some(rate);
                self.workers += 1;
                self.is_settling = true;
                ScalingStep::Add
            }
            _ => ScalingStep::Keep,
        }
    }

    fn remove(&mut self) -> ScalingStep {
        self.workers -= 1;
        self.is_settling = true;
        ScalingStep::Remove
    }
}

//! Decides how many workers a run has: one more for as long as each further one adds to the rate. Pure; [`ScalingStep`] says what to do.
//!
//! Only a measurement shows how far threads help: they share the links between the nodes, the locks of the process and of the nodes' LRU
//! lists, and up to 6.2 each folio interrupts other CPUs. So each further worker is on trial: the rate with it is compared with the rate
//! before it. Because other things change the rate as well, the run also does without its latest worker from time to time.

use std::time::Duration;

/// Calls of full size for each worker over which a rate is measured. One call each is left out before that, because a new worker begins
/// in the middle of the others' calls. So two workers move 640 MiB before a third one is tried, and a run that is short ends before it
/// could gain.
const CALLS: u64 = 4;
/// The rate that a further worker has to add, as a part of each worker's rate before it.
const WORTH: f64 = 0.5;
/// Intervals until the next trial after one that changed the number of workers. Each that changes nothing doubles this, up to [`PAUSE_MAX`].
const PAUSE: u32 = 8;
const PAUSE_MAX: u32 = 128;

/// The next step of a worker that has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingStep {
    /// The worker continues.
    Keep,
    /// It starts one more worker and continues.
    Add,
    /// The worker ends.
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
    trial: Option<Trial>,
    /// Whether the latest worker has passed a trial since the last pause.
    has_passed: bool,
    /// Intervals until the next trial.
    pause: u32,
    next_pause: u32,
}

/// A change of the number of workers by one, and the rate before it.
#[derive(Clone, Copy, Debug)]
enum Trial {
    More(f64),
    Fewer(f64),
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
            trial: None,
            has_passed: false,
            pause: 0,
            next_pause: PAUSE,
        }
    }

    /// Bytes that move before the first trial.
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
            self.trial = None;
            return self.remove();
        }
        if !is_measured {
            return ScalingStep::Keep;
        }
        let step = self.trial.take().and_then(|trial| self.end_trial(trial, rate, room));
        step.unwrap_or_else(|| self.begin_trial(rate, room))
    }

    /// `None`: the latest worker has passed, so a further one may be tried at once.
    fn end_trial(&mut self, trial: Trial, rate: f64, room: usize) -> Option<ScalingStep> {
        match trial {
            Trial::More(before) if is_worth(rate, before, self.workers - 1) => {
                (self.has_passed, self.next_pause) = (true, PAUSE);
                None
            }
            Trial::More(_) => {
                self.rest();
                Some(self.remove())
            }
            Trial::Fewer(before) if self.workers < room && is_worth(before, rate, self.workers) => {
                self.has_passed = true;
                Some(self.add())
            }
            Trial::Fewer(_) => {
                self.next_pause = PAUSE;
                self.rest();
                Some(ScalingStep::Keep)
            }
        }
    }

    fn begin_trial(&mut self, rate: f64, room: usize) -> ScalingStep {
        if self.pause > 0 {
            self.pause -= 1;
        } else if self.workers > self.least && !self.has_passed {
            self.trial = Some(Trial::Fewer(rate));
            return self.remove();
        } else if self.workers < room {
            self.trial = Some(Trial::More(rate));
            return self.add();
        } else if self.workers > self.least {
            self.rest();
        }
        ScalingStep::Keep
    }

    /// Makes no trial for some time.
    fn rest(&mut self) {
        self.pause = self.next_pause;
        self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
        self.has_passed = false;
    }

    fn add(&mut self) -> ScalingStep {
        self.workers += 1;
        self.is_settling = true;
        ScalingStep::Add
    }

    fn remove(&mut self) -> ScalingStep {
        self.workers -= 1;
        self.is_settling = true;
        ScalingStep::Remove
    }
}

/// Whether one worker besides `fewer` raises the rate from `without` to `with` by as much as it has to.
fn is_worth(with: f64, without: f64, fewer: usize) -> bool {
    with >= without * (1.0 + WORTH / fewer as f64)
}

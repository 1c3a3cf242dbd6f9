//! When intervals are measured, and when they end. Pure.

use crate::pace::guard::Interval;
use std::time::Duration;

/// An interval of another kind than the one before is not measured for this long. Meanwhile the effects of the one before end: calls
/// of other workers, and waits for the pages in these calls.
const SETTLING: Duration = Duration::from_millis(40);
/// An interval is measured for at least this long. A CPU whose share in it is less than a tick counts for nothing, and what was
/// measured on that CPU is lost for all readers of the file (kernel/sched/psi.c, `collect_percpu_times`). This is a
/// dozen of the longest ticks.
const MEASURING: Duration = Duration::from_millis(120);
/// Measuring takes at most 1/50 of the time: where it takes long (many cgroups), intervals are longer.
const SHARE_OF_MEASURING: u32 = 50;

/// The step to take in the current interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaceStep {
    /// The interval continues, and nothing is measured.
    Wait,
    /// The interval is measured from now on.
    Begin,
    /// The interval is over, and was measured for this long.
    End(Duration),
}

/// The clock of intervals. Times count from the start of the run.
#[derive(Debug)]
pub struct IntervalClock {
    interval: Interval,
    begin: Duration,
    measured_from: Option<Duration>,
    cost: Duration,
}

impl IntervalClock {
    /// Begins with an interval of moving, measured at once.
    pub fn new(now: Duration) -> Self {
        Self {
            interval: Interval::Moving,
            begin: now,
            measured_from: Some(now),
            cost: Duration::ZERO,
        }
    }

    /// The step that is due. `is_idle`: no worker is at work; the measuring of a rest begins only then.
    pub fn step(&mut self, now: Duration, is_idle: bool) -> PaceStep {
        match self.measured_from {
            None => {
                let settled = now >= self.begin + SETTLING;
                if !settled || (self.interval == Interval::Resting && !is_idle) {
                    return PaceStep::Wait;
                }
                self.measured_from = Some(now);
                PaceStep::Begin
            }
            Some(from) => {
                let long = MEASURING.max(self.cost * SHARE_OF_MEASURING);
                let over = now.checked_sub(from).filter(|&measured| measured >= long);
                over.map_or(PaceStep::Wait, PaceStep::End)
            }
        }
    }

    /// Begins the next interval. `cost` is how long the measuring at the end of the last one took. An interval of the same kind as the
    /// last is measured at once.
    pub fn next(&mut self, interval: Interval, now: Duration, cost: Duration) {
        self.measured_from = (interval == self.interval).then_some(now);
        (self.interval, self.begin, self.cost) = (interval, now, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_measured_once_all_have_come_to_rest() {
        let ms = Duration::from_millis;
        let mut clock = IntervalClock::new(ms(0));
        assert_eq!(clock.step(ms(119), false), PaceStep::Wait);
        assert_eq!(clock.step(ms(125), false), PaceStep::End(ms(125)));
        clock.next(Interval::Resting, ms(125), ms(0));
        assert_eq!(clock.step(ms(164), true), PaceStep::Wait);
        assert_eq!(clock.step(ms(300), false), PaceStep::Wait);
        assert_eq!(clock.step(ms(310), true), PaceStep::Begin);
        assert_eq!(clock.step(ms(429), true), PaceStep::Wait);
        assert_eq!(clock.step(ms(430), true), PaceStep::End(ms(120)));
        // An interval of the same kind follows without a gap.
        clock.next(Interval::Resting, ms(430), ms(3));
        assert_eq!(clock.step(ms(579), true), PaceStep::Wait);
        assert_eq!(clock.step(ms(580), true), PaceStep::End(ms(150)));
        clock.next(Interval::Moving, ms(580), ms(0));
        assert_eq!(clock.step(ms(620), false), PaceStep::Begin);
    }
}

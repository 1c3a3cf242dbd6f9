//! When spells are measured, and when they are over. Pure.

use crate::guard::Spell;
use std::time::Duration;

/// At the begin of a spell of another kind, what the one before has left behind comes to its end, unmeasured: calls of
/// other workers, waits for pages that were in them.
const SETTLING: Duration = Duration::from_millis(40);
/// So long a spell is measured at least. A CPU whose share in it is less than a tick counts for nothing, and what was
/// measured there is lost, for everybody who reads the file (kernel/sched/psi.c, `collect_percpu_times`): this is a dozen
/// of the longest ticks.
const MEASURING: Duration = Duration::from_millis(120);
/// Measuring that takes long (many cgroups) comes so seldom that it takes one part in so many of the time.
const SHARE_OF_MEASURING: u32 = 50;

/// What is to be done about the spell at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet.
    Wait,
    /// From now on it is measured.
    Begin,
    /// It is over, and has been measured for so long.
    End(Duration),
}

/// The clock of spells. Times are since the begin of the run.
#[derive(Debug)]
pub struct SpellClock {
    spell: Spell,
    begin: Duration,
    measured_from: Option<Duration>,
    cost: Duration,
}

impl SpellClock {
    /// Begins with moving, measured at once.
    pub fn new(now: Duration) -> Self {
        Self { spell: Spell::Moving, begin: now, measured_from: Some(now), cost: Duration::ZERO }
    }

    /// What is due. `is_idle`: no worker is at work; a rest is not measured before.
    pub fn step(&mut self, now: Duration, is_idle: bool) -> Step {
        match self.measured_from {
            None => {
                let settled = now >= self.begin + SETTLING;
                if !settled || (self.spell == Spell::Resting && !is_idle) {
                    return Step::Wait;
                }
                self.measured_from = Some(now);
                Step::Begin
            }
            Some(from) => {
                let long = MEASURING.max(self.cost * SHARE_OF_MEASURING);
                let over = now.checked_sub(from).filter(|&measured| measured >= long);
                over.map_or(Step::Wait, Step::End)
            }
        }
    }

    /// After an end measuring has taken so long, and this spell is next. One of the same kind is measured at once.
    pub fn next(&mut self, spell: Spell, now: Duration, cost: Duration) {
        self.measured_from = (spell == self.spell).then_some(now);
        (self.spell, self.begin, self.cost) = (spell, now, cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_measured_once_all_have_come_to_rest() {
        let ms = Duration::from_millis;
        let mut clock = SpellClock::new(ms(0));
        assert_eq!(clock.step(ms(119), false), Step::Wait);
        assert_eq!(clock.step(ms(125), false), Step::End(ms(125)));
        clock.next(Spell::Resting, ms(125), ms(0));
        assert_eq!(clock.step(ms(164), true), Step::Wait);
        assert_eq!(clock.step(ms(300), false), Step::Wait);
        assert_eq!(clock.step(ms(310), true), Step::Begin);
        assert_eq!(clock.step(ms(429), true), Step::Wait);
        assert_eq!(clock.step(ms(430), true), Step::End(ms(120)));
        // One after the other of the same kind leaves no gap.
        clock.next(Spell::Resting, ms(430), ms(3));
        assert_eq!(clock.step(ms(579), true), Step::Wait);
        assert_eq!(clock.step(ms(580), true), Step::End(ms(150)));
        clock.next(Spell::Moving, ms(580), ms(0));
        assert_eq!(clock.step(ms(620), false), Step::Begin);
    }
}

//! Separates the pressure that a run causes from the pressure that is there anyway, and holds the run back only for the first.
//! Pure.
//!
//! While pressure is below its bounds, so is the part of it that the run causes. Above them, only an experiment can tell. A trial
//! is two intervals, one of moving and one of resting; the difference between them is what the run causes. The order of the two has
//! no period, so that it does not stay in step with a rhythm of others. Several trials must agree before the pace changes. The
//! level of pressure is not remembered, so it may change at any time.

use crate::pace::brake::{Brake, BrakeSignal, worst};
use std::collections::BTreeMap;

/// The behaviour of a run for some time, while pressure is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// It moves at its pace, reduced or not.
    Moving,
    /// It does nothing at all.
    Resting,
}

/// Evidence that is enough to change the pace, in trials. One trial is not enough: others may have come or gone during it.
const ENOUGH: f64 = 1.5;
/// Most intervals between two trials. Trials continue, at this distance, when pressure is known to come from others: their rests then
/// cost a tenth of the time.
const LONGEST_GAP: u32 = 7;

/// The state of one of the measured signals.
#[derive(Debug, Default)]
struct Suspect {
    /// Its value in the first interval of the trial, in percent.
    first: f64,
    /// From `-ENOUGH` (the run causes less than half of the bound) to `ENOUGH` (the run causes more than the bound).
    evidence: f64,
}

impl Suspect {
    /// Adds what one trial, or one interval, says. `load` is the pressure that the run causes, divided by the bound. Between 0.5 and
    /// 1 it says nothing, and it never counts for more than 1. Returns by how much the evidence has changed.
    fn weigh(&mut self, load: f64) -> f64 {
        let before = self.evidence;
        let far = if load > 1.0 { load - 1.0 } else { (load - 0.5).min(0.0) };
        self.evidence = (before + (2.0 * far).clamp(-1.0, 1.0)).clamp(-ENOUGH, ENOUGH);
        self.evidence - before
    }
}

/// The stages of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuardStage {
    /// Moving. A trial may begin after this many intervals.
    Watching(u32),
    /// In the first interval of a trial.
    First,
    /// In the second interval of a trial.
    Second,
}

/// Turns what was measured in intervals into the factor by which a run is slower than its pace. The factor is halved when the run
/// causes more than a bound, and doubled when it causes less than half of each bound.
#[derive(Debug)]
pub struct Guard {
    brake: Brake,
    suspects: BTreeMap<String, Suspect>,
    stage: GuardStage,
    /// Intervals between the last trial and the next.
    gap: u32,
    trials: u32,
}

impl Guard {
    pub fn new() -> Self {
        let (brake, suspects) = (Brake::new(), BTreeMap::new());
        Self { brake, suspects, stage: GuardStage::Watching(0), gap: 0, trials: 0 }
    }

    /// The interval that the run is in now.
    pub fn interval(&self) -> Interval {
        // The Thue-Morse sequence: both orders occur equally often, and without a period.
        let rests_first = self.trials.count_ones() % 2 == 1;
        match (self.stage, rests_first) {
            (GuardStage::First, true) | (GuardStage::Second, false) => Interval::Resting,
            _ => Interval::Moving,
        }
    }

    /// The factor of the pace: from [`crate::pace::brake::LEAST`] to 1.
    pub fn factor(&self) -> f64 {
        self.brake.factor()
    }

    /// Why the run holds back, for people; empty when it does not.
    pub fn reason(&self) -> String {
        if self.factor() == 1.0 && self.interval() == Interval::Resting {
            return "there is pressure; resting a moment to see whether the move causes it".into();
        }
        self.brake.reason()
    }

    /// Takes what was measured in the interval that has ended. The next one begins.
    pub fn take(&mut self, signals: &[BrakeSignal]) {
        self.stage = match self.stage {
            GuardStage::Watching(left) => self.watch(signals, left),
            GuardStage::First => {
                signals.iter().for_each(|signal| self.suspect(signal).first = signal.percent);
                GuardStage::Second
            }
            GuardStage::Second => {
                self.conclude(signals);
                GuardStage::Watching(self.gap)
            }
        };
    }

    fn suspect(&mut self, signal: &BrakeSignal) -> &mut Suspect {
        self.suspects.entry(signal.what.clone()).or_default()
    }

    /// Weighs an interval of moving outside of a trial: the run causes no more than what was measured.
    fn watch(&mut self, signals: &[BrakeSignal], left: u32) -> GuardStage {
        for signal in signals.iter().filter(|signal| signal.load() < 0.5) {
            self.suspect(signal).weigh(0.0);
        }
        self.ease_if_innocent(signals);
        let bound = if self.factor() < 1.0 { 0.5 } else { 1.0 };
        let is_high = worst(signals).is_some_and(|signal| signal.load() > bound);
        match left {
            0 if is_high => GuardStage::First,
            _ => GuardStage::Watching(left.saturating_sub(1)),
        }
    }

    /// Ends a trial. The pressure while moving, less the pressure while resting, is what the run causes.
    fn conclude(&mut self, signals: &[BrakeSignal]) {
        let moved_last = self.interval() == Interval::Moving;
        self.trials = self.trials.wrapping_add(1);
        let (mut is_rising, mut is_falling) = (false, false);
        let mut guilty: Option<(f64, String)> = None;
        for signal in signals {
            let (what, limit) = (&signal.what, signal.limit);
            let suspect = self.suspect(signal);
            let (mut moving, mut resting) = (suspect.first, signal.percent);
            if moved_last {
                (moving, resting) = (resting, moving);
            }
            let load = (moving - resting) / limit;
            // If little was measured while moving, the run causes little, whatever was measured while resting.
            let change = suspect.weigh(if moving < limit / 2.0 { 0.0 } else { load });
            is_rising |= change > 0.0;
            is_falling |= change < 0.0;
            if suspect.evidence >= ENOUGH && guilty.as_ref().is_none_or(|(most, _)| load > *most) {
                let why = format!(
                    "{what} is {moving:.0}% while it moves and {resting:.0}% while it rests (limit {limit:.0}%)"
                );
                guilty = Some((load, why));
            }
        }
        if let Some((_, why)) = guilty {
            self.brake.tighten(why);
            self.forget();
            return;
        }
        if is_rising || (is_falling && self.factor() < 1.0) {
            self.gap = 0;
        } else if !is_falling {
            // Nothing new was learnt: wait longer before the next trial.
            self.gap = (2 * self.gap + 1).min(LONGEST_GAP);
        }
        self.ease_if_innocent(signals);
    }

    fn is_innocent(&self, signals: &[BrakeSignal]) -> bool {
        let is_innocent = |suspect: &Suspect| suspect.evidence <= -ENOUGH;
        signals.iter().all(|signal| self.suspects.get(&signal.what).is_some_and(is_innocent))
    }

    fn ease_if_innocent(&mut self, signals: &[BrakeSignal]) {
        if self.factor() < 1.0 && self.is_innocent(signals) {
            self.brake.ease();
            self.forget();
        }
    }

    /// Drops the evidence: at another pace the run causes more, or less.
    fn forget(&mut self) {
        self.suspects.values_mut().for_each(|suspect| suspect.evidence = 0.0);
        self.gap = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::brake::LEAST;
    use proptest::{collection::vec, prelude::*};

    /// Passes `count` intervals in a world in which the run causes `caused` percent at full pace, besides what others cause.
    fn intervals(guard: &mut Guard, count: u32, caused: f64, mut others: impl FnMut(u32) -> f64) {
        for interval in 0..count {
            let moving = if guard.interval() == Interval::Moving { guard.factor() } else { 0.0 };
            let percent = (others(interval) + caused * moving).min(100.0);
            guard.take(&[BrakeSignal { what: "io.pressure of /x".into(), percent, limit: 40.0 }]);
        }
    }

    proptest! {
        #[test]
        fn it_never_stops_and_recovers_once_pressure_ends(percents in vec(0f64..=100.0, 0..200)) {
            let mut guard = Guard::new();
            for percent in percents {
                intervals(&mut guard, 1, 0.0, |_| percent);
                prop_assert!((LEAST..=1.0).contains(&guard.factor()));
            }
            intervals(&mut guard, 20, 0.0, |_| 1.0);
            prop_assert_eq!((guard.factor(), guard.reason()), (1.0, String::new()));
        }

        #[test]
        fn the_level_of_others_makes_no_difference(level in 0f64..=100.0) {
            let mut guard = Guard::new();
            for _ in 0..200 {
                intervals(&mut guard, 1, 0.0, |_| level);
                prop_assert_eq!(guard.factor(), 1.0);
            }
        }

        #[test]
        fn what_it_causes_comes_below_the_bound_and_stays(caused in 60f64..300.0, level in 0f64..10.0) {
            let mut guard = Guard::new();
            intervals(&mut guard, 40, caused, |_| level);
            for _ in 0..100 {
                prop_assert!(caused * guard.factor() <= 40.0 * 1.1 || guard.factor() == LEAST);
                intervals(&mut guard, 1, caused, |_| level);
            }
        }
    }

    #[test]
    fn two_trials_that_agree_hold_it_back_and_say_why() {
        let mut guard = Guard::new();
        intervals(&mut guard, 6, 60.0, |_| 20.0);
        let text = "io.pressure of /x is 80% while it moves and 20% while it rests (limit 40%): moving at 1/2 of the pace";
        assert_eq!((guard.factor(), guard.reason().as_str()), (0.5, text));
    }

    #[test]
    fn trials_become_rare_once_it_is_not_the_cause() {
        let mut guard = Guard::new();
        intervals(&mut guard, 30, 0.0, |_| 90.0);
        let mut rests = 0;
        for _ in 0..90 {
            rests += u32::from(guard.interval() == Interval::Resting);
            intervals(&mut guard, 1, 0.0, |_| 90.0);
        }
        assert_eq!(rests, 9);
    }

    #[test]
    fn nothing_to_measure_counts_as_zero_pressure() {
        let mut guard = Guard::new();
        intervals(&mut guard, 6, 100.0, |_| 0.0);
        assert_eq!(guard.factor(), 0.5);
        guard.take(&[]);
        assert_eq!(guard.factor(), 1.0);
    }
}

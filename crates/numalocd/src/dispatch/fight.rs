//! Detects fights: what a schedule moves is moved back again and again. The schedule reports that once and runs less often,
//! because each round moves the application's memory twice and gains nothing.
//!
//! Kept in memory only, 8 KiB for each schedule that has moved something. A restart begins again. No IO.

use numaloc_engine::{Returned, Trail};
use std::sync::Arc;

/// A fight is on after this many runs in a row that found much of the earlier work undone. One such run may have a cause in
/// the target, such as a restart of its workers. Three in a row mean that it will continue.
const RUNS: u32 = 3;
/// The interval is multiplied by at most this. An interval of one minute becomes 16 minutes, so that the end of a fight is
/// still noticed soon.
const SLOWEST: u32 = 16;

/// The message when a fight is over.
pub const STAYS: &str = "the fight is over: what the schedule moves stays in place";

/// Whether the work of a schedule stays done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fight {
    /// What the last run that moved anything has moved.
    trail: Option<Arc<Trail>>,
    /// How many runs in a row found much of it undone.
    undone: u32,
    /// What users are to be told; empty: nothing.
    message: String,
}

impl Fight {
    /// The state after a run. `returned` says how much of the earlier work was undone (`None`: the run could not tell), and
    /// `trail` what the run has moved itself.
    pub fn after(&self, returned: Option<&Returned>, trail: Option<Arc<Trail>>) -> Self {
        let trail = trail.or_else(|| self.trail.clone());
        let Some(returned) = returned else { return Self { trail, ..self.clone() } };
        let undone = if returned.is_much() { self.undone.saturating_add(1) } else { 0 };
        let next = Self { trail, undone, message: String::new() };
        let message = if next.is_on() { next.explain(returned) } else { String::new() };
        Self { message, ..next }
    }

    /// Whether there is a fight: the work is undone again and again.
    pub fn is_on(&self) -> bool {
        self.undone >= RUNS
    }

    /// The factor by which the wait for the next run is longer than the interval.
    pub fn slowdown(&self) -> u32 {
        match self.undone.checked_sub(RUNS) {
            None => 1,
            Some(more) => 2_u32.saturating_pow(more.saturating_add(1)).min(SLOWEST),
        }
    }

    /// What the last run that moved anything has moved.
    pub fn trail(&self) -> Option<&Arc<Trail>> {
        self.trail.as_ref()
    }

    /// What users are to be told; empty: nothing.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn explain(&self, returned: &Returned) -> String {
        let by = match returned.by.is_empty() {
            true => "something that cannot be seen from here, perhaps the target itself".to_owned(),
            false => format!("probably {}", returned.by.join(" or ")),
        };
        format!(
            "fights with {by}: {}% of what a run had moved was remote again at the next one, {} times in a row; waits {} \
             times the interval until that ends",
            returned.percent(),
            self.undone,
            self.slowdown()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn returned(bytes: u64) -> Returned {
        Returned { bytes, moved_bytes: 100, by: vec!["numad (process 7)".to_owned()] }
    }

    /// The factor after each of these runs. Each found so many percent moved back; `None`: it could not tell.
    fn slowdowns(percents: &[Option<u64>]) -> Vec<u32> {
        let mut fight = Fight::default();
        let run = |percent: &Option<u64>| {
            fight = fight.after(percent.map(returned).as_ref(), None);
            fight.slowdown()
        };
        percents.iter().map(run).collect()
    }

    #[test]
    fn three_in_a_row_slow_it_down_more_and_more() {
        assert_eq!(slowdowns(&[Some(25); 9]), [1, 1, 2, 4, 8, 16, 16, 16, 16]);
        assert_eq!(slowdowns(&[Some(24); 4]), [1; 4]);
        let broken = [Some(100), Some(100), Some(0), Some(100), Some(100), Some(100), Some(10)];
        assert_eq!(slowdowns(&broken), [1, 1, 1, 1, 1, 2, 1]);
        // A run that could not tell changes nothing.
        assert_eq!(
            slowdowns(&[None, Some(50), None, Some(50), Some(50), None]),
            [1, 1, 1, 1, 2, 2]
        );
    }

    #[test]
    fn it_is_told_who_it_may_be() {
        let fight = Fight { undone: 2, ..Fight::default() };
        let message = fight.after(Some(&returned(90)), None).message;
        assert!(message.starts_with("fights with probably numad (process 7): 90%"), "{message}");
        let unknown = Returned { by: Vec::new(), ..returned(90) };
        let message = fight.after(Some(&unknown), None).message;
        assert!(message.starts_with("fights with something"), "{message}");
        assert_eq!(fight.after(Some(&returned(0)), None).message, "");
    }

    #[test]
    fn a_run_that_moves_nothing_leaves_the_trail() {
        let trail = |moved_bytes| Some(Arc::new(Trail { moved_bytes, ..Trail::default() }));
        let fight = Fight::default().after(None, trail(1));
        assert_eq!(fight.after(Some(&returned(0)), None).trail, trail(1));
        assert_eq!(fight.after(Some(&returned(0)), trail(2)).trail, trail(2));
    }

    proptest! {
        #[test]
        fn it_tells_exactly_while_it_is_slow(percents in vec(prop::option::of(0..=100_u64), 0..40)) {
            let mut fight = Fight::default();
            for percent in percents {
                fight = fight.after(percent.map(returned).as_ref(), None);
                prop_assert!((1..=SLOWEST).contains(&fight.slowdown()));
                prop_assert_eq!(fight.slowdown() > 1, !fight.message.is_empty());
                if percent.is_some_and(|percent| percent < 25) {
                    prop_assert_eq!(fight.slowdown(), 1);
                }
            }
        }
    }
}

//! Detects contested placements: memory that a schedule moves is repeatedly moved back. The schedule reports that once
//! and runs less often, because each round moves the application's memory twice and gains nothing.
//!
//! Kept in memory only, 8 KiB for each schedule that has moved something. A restart begins again. No IO.

use numaloc_engine::{Returned, Trail};
use std::sync::Arc;

/// A placement is contested after this many runs in a row that found much of the earlier work undone. One such run may
/// have a cause in the target, such as a restart of its workers. Three in a row mean that it will continue.
const RUNS: u32 = 3;
/// The interval is multiplied by at most this. An interval of one minute becomes 16 minutes, so that the end of a
/// contest is still noticed soon.
const SLOWEST: u32 = 16;

/// The message when a contest is over.
pub const STAYS: &str = "placement stable: memory that the schedule moves stays in place again";

/// Whether the work of a schedule stays done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contest {
    /// The trail of the last run that moved anything.
    trail: Option<Arc<Trail>>,
    /// Number of runs in a row that found much of it undone.
    undone: u32,
    /// The state message for users; empty: none.
    message: String,
}

impl Contest {
    /// The state after a run. `returned` says how much of the earlier work was undone (`None`: the run could not tell),
    /// and `trail` what the run has moved itself.
    pub fn after(&self, returned: Option<&Returned>, trail: Option<Arc<Trail>>) -> Self {
        let trail = trail.or_else(|| self.trail.clone());
        let Some(returned) = returned else { return Self { trail, ..self.clone() } };
        let undone = if returned.is_much() { self.undone.saturating_add(1) } else { 0 };
        let next = Self { trail, undone, message: String::new() };
        let message = if next.is_on() { next.explain(returned) } else { String::new() };
        Self { message, ..next }
    }

    /// Whether the placement is contested: the work of several runs in a row was undone.
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

    /// The trail of the last run that moved anything.
    pub fn trail(&self) -> Option<&Arc<Trail>> {
        self.trail.as_ref()
    }

    /// The state message for users; empty: none.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn explain(&self, returned: &Returned) -> String {
        let by = if returned.by.is_empty() {
            " by an unknown mover, perhaps the target itself".to_owned()
        } else {
            format!(", probably by {}", returned.by.join(" or "))
        };
        let process = returned.process.as_ref();
        let most = process.map(|process| format!(", most of it of {process}")).unwrap_or_default();
        format!(
            "placement contested{by}: {}% of the memory that a run had moved was remote again at the next one{most}, {} times \
             in a row; waits {} times the interval until that ends",
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
        let by = vec!["numad (process 7)".to_owned()];
        Returned { bytes, moved_bytes: 100, by, process: None }
    }

    /// The factor after each of these runs. Each found this percentage moved back; `None`: it could not tell.
    fn slowdowns(percents: &[Option<u64>]) -> Vec<u32> {
        let mut contest = Contest::default();
        let run = |percent: &Option<u64>| {
            contest = contest.after(percent.map(returned).as_ref(), None);
            contest.slowdown()
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
    fn the_message_names_the_likely_mover() {
        let contest = Contest { undone: 2, ..Contest::default() };
        let message = contest.after(Some(&returned(90)), None).message;
        assert!(
            message.starts_with("placement contested, probably by numad (process 7): 90%"),
            "{message}"
        );
        let redis =
            Returned { process: Some("process 9 (redis-server)".to_owned()), ..returned(90) };
        let message = contest.after(Some(&redis), None).message;
        assert!(
            message.contains("at the next one, most of it of process 9 (redis-server), 3 times"),
            "{message}"
        );
        let unknown = Returned { by: Vec::new(), ..returned(90) };
        let message = contest.after(Some(&unknown), None).message;
        assert!(message.starts_with("placement contested by an unknown mover"), "{message}");
        assert_eq!(contest.after(Some(&returned(0)), None).message, "");
    }

    #[test]
    fn a_run_that_moves_nothing_leaves_the_trail() {
        let trail = |moved_bytes| Some(Arc::new(Trail { moved_bytes, ..Trail::default() }));
        let contest = Contest::default().after(None, trail(1));
        assert_eq!(contest.after(Some(&returned(0)), None).trail, trail(1));
        assert_eq!(contest.after(Some(&returned(0)), trail(2)).trail, trail(2));
    }

    proptest! {
        #[test]
        fn it_tells_exactly_while_it_is_slow(percents in vec(prop::option::of(0..=100_u64), 0..40)) {
            let mut contest = Contest::default();
            for percent in percents {
                contest = contest.after(percent.map(returned).as_ref(), None);
                prop_assert!((1..=SLOWEST).contains(&contest.slowdown()));
                prop_assert_eq!(contest.slowdown() > 1, !contest.message.is_empty());
                if percent.is_some_and(|percent| percent < 25) {
                    prop_assert_eq!(contest.slowdown(), 1);
                }
            }
        }
    }
}

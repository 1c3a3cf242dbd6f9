//! Bounds the audit lines about calls that are refused: of one caller and method some lines a minute, and then one a
//! minute with the number of those between.

use crate::log::LineRate;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Instant};

/// Most callers and methods that are remembered. Beyond these nothing is logged until some are forgotten: who may use a
/// range of user ids is a caller with each of them.
const MOST: usize = 1024;

/// Log lines per minute that a caller has for each method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuditRate {
    /// A caller without the role for the call: which record it names says nothing.
    One,
    /// A caller with the role: a line for each record, unless it is a program that tries again and again.
    Many,
}

impl AuditRate {
    fn most(self) -> u64 {
        match self {
            Self::One => 1,
            Self::Many => 60,
        }
    }
}

/// Recent refusals. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Denials(Arc<Mutex<HashMap<(String, &'static str), LineRate>>>);

impl Denials {
    /// Counts a call of `method` by `caller` that is refused. Returns the number of calls that a line has to be logged
    /// for now: this one, and those since the last line.
    pub(super) fn count(
        &self,
        caller: &str,
        method: &'static str,
        rate: AuditRate,
        now: Instant,
    ) -> Option<u64> {
        let mut denied = self.0.lock();
        let of = (caller.to_owned(), method);
        if denied.len() >= MOST && !denied.contains_key(&of) {
            denied.retain(|_, lines| !lines.is_over(now));
            if denied.len() >= MOST {
                return None;
            }
        }
        denied.entry(of).or_default().count(rate.most(), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::MINUTE;
    use std::time::Duration;

    #[test]
    fn one_caller_has_a_line_a_minute_for_each_method() {
        let (denials, begin) = (Denials::default(), Instant::now());
        let at = |millis: u64| begin + Duration::from_millis(millis);
        assert_eq!(denials.count("uid:7", "CancelJob", AuditRate::One, at(0)), Some(1));
        let lines = (1..10_000)
            .filter_map(|call| denials.count("uid:7", "CancelJob", AuditRate::One, at(call)));
        assert_eq!(lines.count(), 0);
        assert_eq!(denials.count("uid:7", "CreateJob", AuditRate::One, at(5_000)), Some(1));
        assert_eq!(denials.count("uid:8", "CancelJob", AuditRate::One, at(5_000)), Some(1));
        assert_eq!(denials.count("uid:7", "CancelJob", AuditRate::One, at(60_000)), Some(10_000));
        assert_eq!(denials.count("uid:7", "CancelJob", AuditRate::One, at(60_001)), None);
    }

    /// An operator that cancels what is not its own has a line for each of some dozens, and no more.
    #[test]
    fn a_caller_with_the_role_has_more_lines() {
        let (denials, begin) = (Denials::default(), Instant::now());
        let count = |millis: u64| {
            let at = begin + Duration::from_millis(millis);
            denials.count("uid:7", "CancelJob", AuditRate::Many, at)
        };
        assert_eq!((0..10_000).filter_map(count).collect::<Vec<_>>(), [1; 60]);
        assert_eq!(count(60_000), Some(9_941));
        assert_eq!(count(60_001), Some(1));
    }

    #[test]
    fn callers_that_are_very_many_have_a_bounded_number_of_lines() {
        let (denials, begin) = (Denials::default(), Instant::now());
        let lines = |at: Instant| {
            (0..5_000)
                .filter_map(|uid| {
                    denials.count(&format!("uid:{uid}"), "CancelJob", AuditRate::One, at)
                })
                .count()
        };
        assert_eq!(lines(begin), MOST);
        assert_eq!(lines(begin + MINUTE), MOST, "the same ones, again");
    }
}

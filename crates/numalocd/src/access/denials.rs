//! Bounds the audit lines about calls that callers may not make: of one caller and method one line at once, then one a minute with the
//! number of those between.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Shortest time between two lines of one caller and method.
const BETWEEN: Duration = Duration::from_secs(60);
/// Most callers and methods that are remembered. Beyond these nothing is logged until some are forgotten: who may use a range of user ids
/// is a caller with each of them.
const MOST: usize = 1024;

/// What was denied lately. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Denials(Arc<Mutex<HashMap<(String, &'static str), Denied>>>);

#[derive(Debug)]
struct Denied {
    logged: Instant,
    since: u64,
}

impl Denials {
    /// Counts a call of `method` that `caller` may not make. Returns the number of calls that a line has to be logged for now: this one, and
    /// those since the last line.
    pub(super) fn count(&self, caller: &str, method: &'static str, now: Instant) -> Option<u64> {
        let mut denied = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = denied.get_mut(&(caller.to_owned(), method)) {
            known.since += 1;
            if now.saturating_duration_since(known.logged) < BETWEEN {
                return None;
            }
            known.logged = now;
            return Some(std::mem::take(&mut known.since));
        }
        if denied.len() >= MOST {
            denied.retain(|_, known| now.saturating_duration_since(known.logged) < BETWEEN);
        }
        if denied.len() >= MOST {
            return None;
        }
        denied.insert((caller.to_owned(), method), Denied { logged: now, since: 0 });
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_has_a_line_a_minute_for_each_method() {
        let (denials, begin) = (Denials::default(), Instant::now());
        let at = |millis: u64| begin + Duration::from_millis(millis);
        assert_eq!(denials.count("uid:7", "CancelJob", at(0)), Some(1));
        let lines = (1..10_000).filter_map(|call| denials.count("uid:7", "CancelJob", at(call)));
        assert_eq!(lines.count(), 0);
        assert_eq!(denials.count("uid:7", "CreateJob", at(5_000)), Some(1));
        assert_eq!(denials.count("uid:8", "CancelJob", at(5_000)), Some(1));
        assert_eq!(denials.count("uid:7", "CancelJob", at(60_000)), Some(10_000));
        assert_eq!(denials.count("uid:7", "CancelJob", at(60_001)), None);
    }

    #[test]
    fn callers_that_are_very_many_have_a_bounded_number_of_lines() {
        let (denials, begin) = (Denials::default(), Instant::now());
        let lines = |at: Instant| {
            (0..5_000)
                .filter_map(|uid| denials.count(&format!("uid:{uid}"), "CancelJob", at))
                .count()
        };
        assert_eq!(lines(begin), MOST);
        assert_eq!(lines(begin + BETWEEN), MOST, "the same ones, again");
    }
}

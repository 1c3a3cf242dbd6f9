//! Bounds the lines about something that happens again and again, because clients make it happen.

use std::time::{Duration, Instant};

/// The time in which lines are counted.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Some lines in a minute, and then one a minute with the number of those between.
#[derive(Debug, Default)]
pub struct LineRate(Option<CountedMinute>);

#[derive(Debug)]
struct CountedMinute {
    begin: Instant,
    lines: u64,
    silent: u64,
}

impl LineRate {
    /// Counts what has happened once more, with `most` lines in a minute. Returns the number that a line has to be
    /// logged for now: this one, and those since the last line.
    pub fn count(&mut self, most: u64, now: Instant) -> Option<u64> {
        match &mut self.0 {
            Some(minute) if minute.is_at(now) && minute.lines < most => {
                minute.lines += 1;
                Some(1)
            }
            Some(minute) if minute.is_at(now) => {
                minute.silent += 1;
                None
            }
            last => {
                let silent = last.as_ref().map_or(0, |last| last.silent);
                *last = Some(CountedMinute { begin: now, lines: 1, silent: 0 });
                Some(silent + 1)
            }
        }
    }

    /// Whether it bounds nothing now.
    pub fn is_over(&self, now: Instant) -> bool {
        self.0.as_ref().is_none_or(|minute| !minute.is_at(now))
    }
}

impl CountedMinute {
    fn is_at(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begin) < MINUTE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_a_minute_and_then_one_with_the_number_of_those_between() {
        let (mut rate, begin) = (LineRate::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(rate.is_over(begin));
        let lines: Vec<_> = (0..10).map(|second| rate.count(3, at(second))).collect();
        assert_eq!(lines[..4], [Some(1), Some(1), Some(1), None]);
        assert!(lines[4..].iter().all(Option::is_none) && !rate.is_over(at(59)));
        assert!(rate.is_over(at(60)));
        assert_eq!(rate.count(3, at(60)), Some(8));
        assert_eq!(rate.count(3, at(61)), Some(1));
        // The clock of the last one may be behind.
        assert_eq!(rate.count(1, begin), None);
        assert_eq!(rate.count(1, at(120)), Some(2));
    }
}

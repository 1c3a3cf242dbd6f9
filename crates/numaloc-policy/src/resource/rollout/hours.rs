//! Hours of a day, in UTC.

use numaloc_config::written::{Problem, SHOWN_MAX, Tree, shown, text};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 3600;

/// A range of hours of each day, in seconds since midnight. One that ends before it begins goes past midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: u64,
    to: u64,
}

/// The form of the text, for schemas.
pub const PATTERN: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$";

impl Hours {
    /// Reads `HH:MM-HH:MM`.
    ///
    /// # Errors
    /// It is another text, or its ends are the same.
    pub fn read(path: &str, tree: &Tree) -> Result<Self, Problem> {
        let given = text(path, tree)?;
        let hours = given.split_once('-').and_then(|(from, to)| {
            Some(Self { from: time(from)?, to: time(to)? }).filter(|it| it.from != it.to)
        });
        hours.ok_or_else(|| {
            let problem = format!("is \"{}\"", shown(given, SHOWN_MAX));
            let hint = "expected two times of a day in UTC that differ, such as 22:00-06:00";
            Problem::new(path, problem, hint)
        })
    }

    fn contains(self, second: u64) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&second),
            false => second >= self.from || second < self.to,
        }
    }
}

fn time(text: &str) -> Option<u64> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str, most: u64| -> Option<u64> {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number: &u64| is_plain && *number < most)
    };
    Some(number(hour, 24)? * 3600 + number(minute, 60)? * 60)
}

/// The first time from `at` on that is within the hours; without any it is `at`.
pub fn next(hours: &[Hours], at: SystemTime) -> SystemTime {
    let second = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % DAY;
    if hours.is_empty() || hours.iter().any(|hours| hours.contains(second)) {
        return at;
    }
    let waits = hours.iter().map(|hours| (hours.from + DAY - second) % DAY);
    at + Duration::from_secs(waits.min().unwrap_or_default())
}

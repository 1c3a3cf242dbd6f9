//! Points in time in the form of RFC 3339, in UTC. The calendar counts days since 1970 in the Gregorian calendar. Its years
//! begin in March, so that the leap day ends a year.

use serde::{Serialize, Serializer};
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// A point in time, to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    seconds: i64,
    nanos: u32,
}

/// Seconds of the years 1 to 9999, which is the range of google.protobuf.Timestamp.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
const DAY: i64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01, and days of 400 years.
const EPOCH: i64 = 719_468;
const ERA: i64 = 146_097;

impl Time {
    /// A time from seconds since 1970 and nanoseconds. Values out of bounds become the nearest value within.
    pub fn new(seconds: i64, nanos: i32) -> Self {
        let seconds = seconds.clamp(*SECONDS.start(), *SECONDS.end());
        Self { seconds, nanos: u32::try_from(nanos).unwrap_or(0).min(999_999_999) }
    }
    /// The time without fractions of a second, for tables.
    pub fn short(self) -> String {
        Self { nanos: 0, ..self }.to_string()
    }
    /// Whole seconds from this time to `now`; 0 if this time is in the future.
    pub fn age(self, now: SystemTime) -> u64 {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        u64::try_from(now.saturating_sub(self.seconds)).unwrap_or(0)
    }
}

impl fmt::Display for Time {
    /// Shows milliseconds only if they are not 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match self.nanos / 1_000_000 {
            0 => f.write_str("Z"),
            millis => write!(f, ".{millis:03}Z"),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Year, month and day of the month for a day counted from 1970.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + EPOCH;
    let (era, day) = (day.div_euclid(ERA), day.rem_euclid(ERA));
    // Every 4th year is a leap year, except every 100th, but including every 400th.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, months have 31 and 30 days in such an order that this linear formula gives their first days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The day counted from 1970 for a date.
fn day(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * ERA + 365 * year + year / 4 - year / 100 + of_year - EPOCH
}

/// Reads a time from 1970 to 9999; `None` for other text.
pub fn parse(text: &str) -> Option<SystemTime> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let sign = |at: usize, known: &str| {
        known.contains(char::from(*text.as_bytes().get(at)?)).then_some(())
    };
    let (year, month, of_month) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")]
        .into_iter()
        .try_for_each(|(at, known)| sign(at, known))?;
    let days = day(year, month, of_month);
    // A day that the month does not have is converted back to another date.
    let exists = date(days) == (year, month, of_month) && hour < 24 && minute < 60 && second <= 60;
    let (nanos, zone) = fraction(text.get(19..)?)?;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset(zone)?;
    let since = u64::try_from(seconds).ok().filter(|_| exists && SECONDS.contains(&seconds))?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(since, nanos))
}

/// Nanoseconds of a fraction, and what follows it.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(digits) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, zone) = digits.split_at(end);
    let nanos = format!("{digits:0<9}").get(..9)?.parse().ok()?;
    (!digits.is_empty()).then_some((nanos, zone))
}

/// Seconds by which a time zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |text: &str, below: i64| -> Option<i64> {
        let fits = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| text.parse().ok())?.filter(|&number| number < below)
    };
    Some(sign * (two(hours, 24)? * 3600 + two(minutes, 60)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        Some(parse(text)?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
    }

    #[test]
    fn times_are_written() {
        // Each of these was found with `date -u -d @N`.
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ];
        for (number, text) in cases {
            assert_eq!(Time::new(number, 0).to_string(), text);
            assert_eq!(seconds(text), u64::try_from(number).ok(), "{text}");
        }
        assert_eq!(Time::new(1, 5_999_999).to_string(), "1970-01-01T00:00:01.005Z");
        assert_eq!(Time::new(1, 5_999_999).short(), "1970-01-01T00:00:01Z");
    }

    #[test]
    fn every_day_of_eight_centuries_comes_back() {
        for number in 0..2 * ERA {
            let (year, month, of_month) = date(number);
            assert_eq!(day(year, month, of_month), number);
            assert!((1..=12).contains(&month) && (1..=31).contains(&of_month));
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(seconds("1970-01-01 01:00:00+01:00"), Some(0));
        assert_eq!(seconds("1969-12-31T23:30:00-00:30"), Some(0));
        let half = parse("1970-01-01T00:00:00.5Z").unwrap();
        assert_eq!(half, SystemTime::UNIX_EPOCH + Duration::from_millis(500));
        for text in [
            "",
            "2026",
            "2026-11-20",
            "2026-11-20T08:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-02-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01T00:00:00+01:60",
            "1969-12-31T23:59:59Z",
            "2026-01-01T00:00:00Zz",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00\u{e9}",
        ] {
            assert_eq!(seconds(text), None, "{text:?} was taken");
        }
    }
}

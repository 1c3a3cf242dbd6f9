//! Checks of single fields. Each function adds a violation if the field is wrong, and returns no value then.
//!
//! A field that is wrong in a request may be right in a stored record (`Violations::of_record`). Bounds of number, length and size
//! hold for requests alone, because a bound that is tightened must not make a store unreadable. A field that cannot
//! be parsed, or could do harm, is refused in both.

use super::bounds::WORKLOAD;
use crate::{
    Problem, Violations,
    value::{PATH_MAX, Page, WorkloadId, is_path},
};
use std::{
    ops::RangeInclusive,
    time::{Duration, SystemTime},
};

/// Longest systemd unit name in bytes.
const UNIT_MAX: usize = 255;
/// Most entries of a page, and the number if the client does not give one.
const PAGE_SIZE_MAX: u64 = 1000;
const PAGE_SIZE: usize = 100;
/// Longest resume token in bytes.
const RESUME_MAX: usize = 128;
/// Longest page token in bytes.
const PAGE_TOKEN_MAX: usize = 1024;
/// The last second of the year 9999, as far as google.protobuf.Timestamp goes.
const TIME_MAX: u64 = 253_402_300_799;
/// The longest span of time in a record: what is counted from it stays far below [`TIME_MAX`]. Requests could never have a
/// longer one, and must not.
const RECORD_SPAN_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Reads a number within bounds.
pub fn number(
    field: &str,
    value: Option<i64>,
    range: RangeInclusive<u64>,
    bad: &mut Violations,
) -> Option<u64> {
    let value = value?;
    let number = u64::try_from(value).ok().filter(|number| range.contains(number));
    if number.is_none() {
        let (min, max) = (range.start().to_string(), range.end().to_string());
        bad.push(field, Problem::OutOfRange { min, max });
    }
    number
}

/// Reads a number within the bounds of requests. In a record it may be any number above 0.
pub fn bounded(
    field: &str,
    value: Option<i64>,
    range: RangeInclusive<u64>,
    bad: &mut Violations,
) -> Option<u64> {
    let range = if bad.are_of_request() { range } else { 1..=i64::MAX.unsigned_abs() };
    number(field, value, range, bad)
}

/// Reads a duration within the bounds of requests. In a record it may have up to [`RECORD_SPAN_MAX`], and may be 0 where a request
/// may have that.
pub fn duration(
    field: &str,
    value: Option<prost_types::Duration>,
    range: RangeInclusive<Duration>,
    bad: &mut Violations,
) -> Option<Duration> {
    let prost_types::Duration { seconds, nanos } = value?;
    let range = match bad.are_of_request() {
        true => range,
        false => {
            let least = Duration::from_nanos(1).min(*range.start());
            least..=RECORD_SPAN_MAX.max(*range.end())
        }
    };
    let duration = span(seconds, nanos).filter(|duration| range.contains(duration));
    if duration.is_none() {
        let (min, max) = (format!("{:?}", range.start()), format!("{:?}", range.end()));
        bad.push(field, Problem::OutOfRange { min, max });
    }
    duration
}

/// Reads a time from 1970 to 9999.
pub fn time(
    field: &str,
    value: Option<prost_types::Timestamp>,
    bad: &mut Violations,
) -> Option<SystemTime> {
    let prost_types::Timestamp { seconds, nanos } = value?;
    let since = span(seconds, nanos).filter(|since| since.as_secs() <= TIME_MAX);
    let time = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    if time.is_none() {
        let (min, max) = ("1970-01-01T00:00:00Z".to_owned(), "9999-12-31T23:59:59Z".to_owned());
        bad.push(field, Problem::OutOfRange { min, max });
    }
    time
}

fn span(seconds: i64, nanos: i32) -> Option<Duration> {
    let nanos = u32::try_from(nanos).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// Reads text without control characters, in a record any text; `None` if it is empty.
pub fn text(field: &str, value: String, max: usize, bad: &mut Violations) -> Option<String> {
    let is_bounded = bad.are_of_request();
    if is_bounded && value.len() > max {
        bad.push(field, Problem::TooLong { max });
        return None;
    }
    let expected = "without control characters";
    form(field, value, expected, |text| !is_bounded || !text.contains(char::is_control), bad)
}

/// Reads letters, digits, `.`, `_` and `-`, in a record any text; `None` if it is empty.
pub fn token(field: &str, value: String, max: usize, bad: &mut Violations) -> Option<String> {
    let value = text(field, value, max, bad)?;
    let expected = "made of letters, digits, '.', '_' and '-'";
    let is_bounded = bad.are_of_request();
    form(field, value, expected, |text| !is_bounded || crate::value::is_token(text, max), bad)
}

/// Reads the path of a cgroup; `None` if it is empty.
pub fn cgroup(field: &str, value: String, bad: &mut Violations) -> Option<String> {
    let expected =
        "an absolute path as in /proc/PID/cgroup, without '.', '..' and empty components";
    absolute(field, value, expected, bad)
}

/// Reads the path of a file; `None` if it is empty.
pub fn path(field: &str, value: String, bad: &mut Violations) -> Option<String> {
    absolute(field, value, "an absolute path without '.', '..' and empty components", bad)
}

fn absolute(
    field: &str,
    value: String,
    expected: &'static str,
    bad: &mut Violations,
) -> Option<String> {
    let path = text(field, value, PATH_MAX, bad)?;
    form(field, path, expected, is_path, bad)
}

/// Reads the name of a systemd unit; `None` if it is empty.
pub fn unit(field: &str, value: String, bad: &mut Violations) -> Option<String> {
    let name = text(field, value, UNIT_MAX, bad)?;
    let known = |b: u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b);
    form(field, name, "a unit's name", |name| name.bytes().all(known), bad)
}

/// Reads a resource name; `None` if it is empty.
pub fn resource<T>(
    field: &str,
    name: &str,
    expected: &'static str,
    read: impl Fn(&str) -> Option<T>,
    bad: &mut Violations,
) -> Option<T> {
    let id = read(name);
    if id.is_none() && !name.is_empty() {
        bad.push(field, Problem::Malformed { expected });
    }
    id
}

/// Reads a resource name that is required.
pub fn name<T>(
    field: &str,
    name: &str,
    expected: &'static str,
    read: impl Fn(&str) -> Option<T>,
    bad: &mut Violations,
) -> Option<T> {
    if name.is_empty() {
        bad.push(field, Problem::Missing);
    }
    resource(field, name, expected, read, bad)
}

/// Reads an id that a client chooses; `None` if it is empty. Numbers are refused, because the daemon gives them.
pub fn chosen<T>(
    field: &str,
    id: String,
    read: impl Fn(&str) -> Option<T>,
    bad: &mut Violations,
) -> Option<T> {
    let id = token(field, id, crate::value::TOKEN_MAX, bad)?;
    let expected = "an id that is not a number";
    form(field, id, expected, |id| id.parse::<u64>().is_err(), bad).and_then(|id| read(&id))
}

/// Adds a violation if a required value is missing.
pub fn required<T>(field: &str, value: Option<T>, bad: &mut Violations) -> Option<T> {
    if value.is_none() {
        bad.push(field, Problem::Missing);
    }
    value
}

/// Reads where a page begins and how long it may be.
pub fn page(size: i32, token: String, bad: &mut Violations) -> Page {
    let sizes = 0..=i32::MAX.unsigned_abs().into();
    let size = number("page_size", Some(size.into()), sizes, bad);
    // A size above the maximum means the maximum (AIP-158).
    let size = size.and_then(|size| usize::try_from(size.min(PAGE_SIZE_MAX)).ok());
    let token = text("page_token", token, PAGE_TOKEN_MAX, bad);
    Page { size: size.filter(|&size| size > 0).unwrap_or(PAGE_SIZE), token }
}

/// Whether a list is short enough: always in a record. Adds a violation if it is not.
pub fn count(field: &str, count: usize, max: usize, bad: &mut Violations) -> bool {
    let fits = count <= max || !bad.are_of_request();
    if !fits {
        bad.push(field, Problem::TooMany { max });
    }
    fits
}

fn form(
    field: &str,
    value: String,
    expected: &'static str,
    holds: impl Fn(&str) -> bool,
    bad: &mut Violations,
) -> Option<String> {
    if value.is_empty() {
        return None;
    }
    if !holds(&value) {
        bad.push(field, Problem::Malformed { expected });
        return None;
    }
    Some(value)
}

/// The token with which a watch continues after an answer that it got.
pub fn resume_token(from: String, bad: &mut Violations) -> Option<String> {
    text("resume_token", from, RESUME_MAX, bad)
}

/// Reads the name of a workload; `None` if it is empty.
pub fn workload_name(field: &str, name: &str, bad: &mut Violations) -> Option<WorkloadId> {
    resource(field, name, WORKLOAD, WorkloadId::from_name, bad)
}

//! Sizes, durations, shares and lists of nodes as people write and read them.

use numaloc_core::amount::{self, AmountError};
use std::{fmt::Display, time::Duration};

pub fn parse_size(text: &str) -> Result<u64, AmountError> {
    amount::size(text)
}

/// Parses a size of at least one page.
pub fn parse_batch(text: &str) -> Result<u64, String> {
    match amount::size(text).map_err(|error| error.to_string())? {
        bytes if bytes < numaloc_core::SMALLEST_PAGE => {
            Err("expected at least one page, 4K".into())
        }
        bytes => Ok(bytes),
    }
}

/// Parses an amount per second of at least one page: `512M`, or `512M/s`.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let expected = |_| "expected an amount a second such as 512M or 1.5G/s".to_owned();
    match amount::rate(text).map_err(expected)? {
        bytes if bytes < numaloc_core::SMALLEST_PAGE => {
            Err("expected at least one page a second, 4K".into())
        }
        bytes => Ok(bytes),
    }
}

/// A parser for whole numbers of a range; without an upper bound, for all numbers from `least` on.
pub fn whole<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    least: u64,
    most: Option<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number =
            text.parse().ok().filter(|number| (least..=most.unwrap_or(u64::MAX)).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match most {
            Some(most) => format!("expected a whole number from {least} to {most}"),
            None => format!("expected a whole number of at least {least}"),
        })
    }
}

/// A parser for durations of a range, whose bounds are written as people write them.
pub fn duration_from(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let parsed = |text| amount::duration(text).map_err(|error| error.to_string());
        let range = parsed(least)?..=parsed(most)?;
        let duration = parsed(text)?;
        let is_within = range.contains(&duration).then_some(duration);
        is_within.ok_or_else(|| format!("expected a duration from {least} to {most}"))
    }
}

/// Parses `--max-stall`: how long a call may take.
pub fn parse_stall(text: &str) -> Result<Duration, String> {
    duration_from("100us", "60s")(text)
}

/// Parses a duration above 0.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match amount::duration(text).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("expected a duration above 0".into()),
        duration => Ok(duration),
    }
}

/// Parses a duration that may be 0.
pub fn parse_span(text: &str) -> Result<Duration, AmountError> {
    amount::duration(text)
}

/// Parses a percentage without decimals.
pub fn parse_percent(text: &str) -> Result<u8, String> {
    match amount::percent(text).map_err(|error| error.to_string())? {
        percent if percent.fract() == 0.0 => Ok(percent as u8),
        _ => Err("expected a whole percentage".into()),
    }
}

/// Parses a percentage without decimals, above 0.
pub fn parse_some_percent(text: &str) -> Result<u8, String> {
    match parse_percent(text)? {
        0 => Err("expected a percentage from 1 to 100".into()),
        percent => Ok(percent),
    }
}

/// A size for people: `512.0 MiB`. The daemon sends none below 0.
pub fn size(bytes: impl TryInto<u64>) -> String {
    amount::shown_size(bytes.try_into().unwrap_or(0))
}

/// A size in five characters at most, for narrow columns: `512M`, `1.5G`.
pub fn short(bytes: u64) -> String {
    let units = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 999.5 would be printed as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$}{}", units[unit])
}

/// A span of time in four characters at most, for narrow columns: `5s`, `12m`, `3h`, `99d`.
pub fn age(seconds: f64) -> String {
    match seconds {
        v if v < 100.0 => format!("{v:.0}s"),
        v if v < 100.0 * 60.0 => format!("{:.0}m", v / 60.0),
        v if v < 100.0 * 3600.0 => format!("{:.0}h", v / 3600.0),
        v => format!("{:.0}d", v / 86_400.0),
    }
}

/// MB as numastat counts them (1,048,576 bytes), with one decimal.
pub fn mb(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// Percent with one decimal. Less than all is shown as 99.9 at most.
pub fn percent(value: f64) -> String {
    let shown = if value < 100.0 { value.min(99.9) } else { value };
    format!("{shown:.1}")
}

/// Writes seconds with a unit that people read at once, such as `250 ms`.
pub fn seconds(value: f64) -> String {
    match value {
        v if v < 0.001 => format!("{:.0} us", v * 1e6),
        v if v < 1.0 => format!("{:.0} ms", v * 1e3),
        v if v < 120.0 => format!("{v:.1} s"),
        v => format!("{:.0} min", v / 60.0),
    }
}

/// A duration for people: its two greatest units.
pub fn span(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let parts = UNITS.windows(2).find(|pair| seconds >= pair[0].0);
    match parts {
        Some([(big, name), (small, part)]) => {
            format!("{} {name} {} {part}", seconds / big, seconds % big / small)
        }
        _ => format!("{seconds} s"),
    }
}

/// A number of things, by their name for one and for several of them.
pub fn counted(count: impl Into<i64>, one: &str, many: &str) -> String {
    let count = count.into();
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// Node numbers, separated by commas; a dash if there are none.
pub fn list(nodes: impl IntoIterator<Item: Display>) -> String {
    let nodes: Vec<_> = nodes.into_iter().map(|node| node.to_string()).collect();
    if nodes.is_empty() { "-".into() } else { nodes.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_bounds() {
        assert!(parse_batch("4095").is_err() && parse_batch("4K") == Ok(4096));
        assert!(parse_rate("0").is_err() && parse_rate("4K/s") == Ok(4096));
        assert!(parse_duration("0ms").is_err() && parse_duration("1d").is_ok());
        let bounds = ["100us", "60s"].map(parse_stall);
        assert_eq!(bounds, [numaloc_api::STALL_MIN, numaloc_api::STALL_MAX].map(Ok));
        for text in ["0", "99us", "61s", "-1", "fast"] {
            assert!(parse_stall(text).is_err(), "{text:?} was taken");
        }
        let range = duration_from("100ms", "1h");
        assert_eq!(
            ["100ms", "60m"].map(&range),
            [100, 3_600_000].map(Duration::from_millis).map(Ok)
        );
        let expected = "expected a duration from 100ms to 1h".to_owned();
        assert_eq!(["99ms", "61m"].map(range), [Err(expected.clone()), Err(expected)]);
        assert_eq!(["0", "90%", "100"].map(parse_percent), [Ok(0), Ok(90), Ok(100)]);
        for text in ["0.5", "101", "x"] {
            assert!(parse_percent(text).is_err(), "{text:?} was taken");
        }
        assert!(parse_some_percent("0").is_err() && parse_some_percent("1%") == Ok(1));
    }

    #[test]
    fn what_is_printed_is_parsed() {
        for seconds in [59, 3720, 86_400, 90_000] {
            assert_eq!(parse_span(&span(seconds)), Ok(Duration::from_secs(seconds)), "{seconds}");
        }
        assert_eq!(parse_size(&size(3 << 29)), Ok(3 << 29));
    }

    #[test]
    fn amounts_are_shown() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(4096), "4.0 KiB");
        assert_eq!(size((1 << 30) - 1), "1.0 GiB");
        assert_eq!(size(5_u64 << 40), "5.0 TiB");
        let shorts = [0, 1023, 1 << 20, 1500 << 20, 10 << 30, 1000 << 30, u64::MAX].map(short);
        assert_eq!(shorts, ["0", "1023", "1.0M", "1.5G", "10G", "1.0T", "16E"]);
        assert_eq!([0.4, 99.0, 100.0, 7200.0, 1e6].map(age), ["0s", "99s", "2m", "2h", "12d"]);
        assert_eq!(percent(99.99), "99.9");
        assert_eq!(percent(100.0), "100.0");
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(span(59), "59 s");
        assert_eq!(span(3 * 3600 + 120), "3 h 2 min");
        assert_eq!(span(86_400), "1 d 0 h");
    }
}

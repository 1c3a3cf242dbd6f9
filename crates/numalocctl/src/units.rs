//! Sizes, durations, shares and lists of nodes as people write and read them.

use numaloc_api::{STALL_MAX, STALL_MIN};
use std::time::Duration;

const SIZES: [(&str, u64); 5] = [("", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40)];

/// Reads a size: bytes, or K, M, G, T in multiples of 1,024, also written KB or KiB.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let refuse = || format!("'{text}' is no size such as 4096, 512K, 64M or 2GiB");
    let (digits, suffix) = split(text);
    let suffix = suffix.trim_start().to_ascii_lowercase();
    let unit = suffix.strip_suffix("ib").or(suffix.strip_suffix('b')).unwrap_or(&suffix);
    let (_, shift) = SIZES.iter().find(|(name, _)| *name == unit).ok_or_else(refuse)?;
    if unit.is_empty() && suffix.len() > 1 {
        return Err(refuse());
    }
    let number: u64 = digits.parse().map_err(|_| refuse())?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is more than 16 EiB"))
}

/// Reads a size of at least one page.
pub fn parse_batch(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < numaloc_core::PAGE => Err("a batch holds at least one page, 4K".into()),
        bytes => Ok(bytes),
    }
}

/// Reads an amount per second of at least one page.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < numaloc_core::PAGE => {
            Err("a rate is at least one page a second, 4K".into())
        }
        bytes => Ok(bytes),
    }
}

/// Reads `--max-stall`: how long a call may take.
pub fn parse_stall(text: &str) -> Result<Duration, String> {
    let span = parse_span(text)?;
    match (STALL_MIN..=STALL_MAX).contains(&span) {
        true => Ok(span),
        false => Err("a call may take from 100us to 60s".into()),
    }
}

/// Reads a duration above 0: seconds, or a number with us, ms, s, m or h.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    match parse_span(text)? {
        Duration::ZERO => Err("a duration has to be more than 0".into()),
        duration => Ok(duration),
    }
}

/// Reads a duration that may be 0.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let refuse = || format!("'{text}' is no duration such as 500ms, 10s, 5m or 1h");
    let (digits, suffix) = split(text);
    let unit_us: u64 = match suffix {
        "us" => 1,
        "ms" => 1000,
        "" | "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(refuse()),
    };
    let number: u64 = digits.parse().map_err(|_| refuse())?;
    number.checked_mul(unit_us).map(Duration::from_micros).ok_or_else(refuse)
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// A size for people: `512.0 MiB`.
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
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

/// Seconds for people.
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
pub fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// Node numbers, separated by commas; a dash if there are none.
pub fn list(nodes: impl IntoIterator<Item = u32>) -> String {
    let nodes: Vec<_> = nodes.into_iter().map(|node| node.to_string()).collect();
    if nodes.is_empty() { "-".into() } else { nodes.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("1b", 1),
            ("4k", 4096),
            ("4 KiB", 4096),
            ("2M", 2 << 20),
            ("2MB", 2 << 20),
            ("3GiB", 3 << 30),
            ("1t", 1 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "-1", "+1", "x", "1x", "1.5G", "M", "1 ib", "1kk", "20000000T", "1e9"] {
            assert!(parse_size(text).is_err(), "{text:?} was taken");
        }
        assert!(parse_batch("4095").is_err() && parse_batch("4K") == Ok(4096));
        assert!(parse_rate("0").is_err() && parse_rate("4K") == Ok(4096));
    }

    #[test]
    fn durations_are_read() {
        for (text, ms) in [("10", 10_000), ("10s", 10_000), ("5m", 300_000), ("500ms", 500)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)));
        }
        assert_eq!(parse_span("0"), Ok(Duration::ZERO));
        assert_eq!(parse_stall("100us"), Ok(Duration::from_micros(100)));
        for text in ["0", "99us", "61s", "-1", "fast"] {
            assert!(parse_stall(text).is_err(), "{text:?} was taken");
        }
        for text in ["", "0", "0ms", "-1", "-5s", "1d", "s", "1.5s", "99999999999999999999"] {
            assert!(parse_duration(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn amounts_are_shown() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(4096), "4.0 KiB");
        assert_eq!(size((1 << 30) - 1), "1.0 GiB");
        assert_eq!(size(5 << 40), "5.0 TiB");
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

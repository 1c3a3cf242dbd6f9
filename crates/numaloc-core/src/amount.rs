//! Sizes, durations and percentages as people write them, on the command line and in configurations alike.

mod pattern;

pub use pattern::{duration_pattern, percent_pattern, rate_pattern, size_pattern};

use std::time::Duration;

/// Multiples of 1,024 by their letter, as powers of two.
const SIZES: [(&str, u32); 5] = [("", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40)];
/// Units of time in nanoseconds. `min` is what the programs print.
const TIMES: [(&str, u128); 9] = [
    ("", 1_000_000_000),
    ("ns", 1),
    ("us", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// Most digits before and behind the decimal point: no number of the programs is longer, and no product overflows.
const DIGITS: usize = 20;
const DECIMALS: usize = 9;

/// Why a text could not be parsed as an amount: its message names what is expected instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AmountError {
    #[error("expected a size such as 4096, 512K, 64M or 1.5GiB")]
    Size,
    /// More than 64 bits can hold.
    #[error("expected a size below 16 EiB")]
    TooLarge,
    #[error("expected a duration such as 500ms, 10s, 5m, 12h or 30d")]
    Duration,
    #[error("expected a percentage such as 80 or 80%")]
    Percent,
}

impl AmountError {
    /// The kind of amount that was expected: `size`, `duration` or `percentage`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Size | Self::TooLarge => "size",
            Self::Duration => "duration",
            Self::Percent => "percentage",
        }
    }
}

/// A size for people: `512.0 MiB`. [`size`] reads it.
pub fn shown_size(bytes: u64) -> String {
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

/// Parses a size: bytes, or K, M, G, T in multiples of 1,024, also written KB or KiB, with decimals or without.
///
/// # Errors
/// [`AmountError::Size`], [`AmountError::TooLarge`].
pub fn size(text: &str) -> Result<u64, AmountError> {
    let (number, unit) = Number::split(text.trim()).ok_or(AmountError::Size)?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let letter = match unit.as_str() {
        "b" => "",
        _ => unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit),
    };
    let is_bare = letter.is_empty() && unit.len() > 1;
    let known = SIZES.iter().find(|(name, _)| *name == letter && !is_bare);
    let (_, shift) = known.ok_or(AmountError::Size)?;
    if *shift == 0 && number.decimals > 0 {
        return Err(AmountError::Size);
    }
    u64::try_from(number.times(1 << shift)).map_err(|_| AmountError::TooLarge)
}

/// Parses an amount per second: a size, or a size with `/s` behind it, as the programs print it.
///
/// # Errors
/// The errors of [`size`].
pub fn rate(text: &str) -> Result<u64, AmountError> {
    let text = text.trim_end();
    size(text.strip_suffix("/s").unwrap_or(text))
}

/// Parses a duration: seconds, or numbers with ns, us, ms, s, m (min), h or d, such as `1h30m`. Finer than a nanosecond is cut off.
///
/// # Errors
/// [`AmountError::Duration`].
pub fn duration(text: &str) -> Result<Duration, AmountError> {
    let (mut rest, mut total_ns, mut parts) = (text.trim(), 0u128, 0);
    while parts == 0 || !rest.is_empty() {
        let (number, behind) = Number::split(rest).ok_or(AmountError::Duration)?;
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(behind.len());
        let (unit, after) = behind.split_at(end);
        // Only a number that stands alone is in seconds.
        let is_known =
            |(name, _): &&(&str, u128)| *name == unit && (parts == 0 || !unit.is_empty());
        let (_, unit_ns) = TIMES.iter().find(is_known).ok_or(AmountError::Duration)?;
        total_ns += number.times(*unit_ns);
        parts += 1;
        rest = after.trim_start();
        if unit.is_empty() && !rest.is_empty() {
            return Err(AmountError::Duration);
        }
    }
    let total_ns = u64::try_from(total_ns).map_err(|_| AmountError::Duration)?;
    Ok(Duration::from_nanos(total_ns))
}

/// Parses a percentage, with the sign or without.
///
/// # Errors
/// [`AmountError::Percent`], also for more than 100.
pub fn percent(text: &str) -> Result<f64, AmountError> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let parsed = Number::split(number).filter(|(_, rest)| rest.is_empty());
    let (parsed, _) = parsed.ok_or(AmountError::Percent)?;
    let percent = parsed.digits as f64 / 10f64.powi(i32::from(parsed.decimals));
    if percent <= 100.0 { Ok(percent) } else { Err(AmountError::Percent) }
}

/// A decimal number as its digits, without rounding.
struct Number {
    digits: u128,
    /// Number of digits behind the point.
    decimals: u8,
}

impl Number {
    /// The number at the beginning of a text, and what follows it. `None`: there is none.
    fn split(text: &str) -> Option<(Self, &str)> {
        let (whole, rest) = leading_digits(text);
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(behind) => leading_digits(behind),
            None => ("", rest),
        };
        let has_point = rest.len() + whole.len() < text.len();
        let fits = !whole.is_empty() && whole.len() <= DIGITS && fraction.len() <= DECIMALS;
        if !fits || has_point == fraction.is_empty() {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some((Self { digits, decimals: u8::try_from(fraction.len()).ok()? }, rest))
    }

    /// The product, rounded down. 29 digits times the largest unit may exceed 128 bits: then it is too large for any result.
    fn times(&self, unit: u128) -> u128 {
        self.digits.saturating_mul(unit) / 10u128.pow(u32::from(self.decimals))
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1b", 1),
            ("4k", 4096),
            ("4 KiB", 4096),
            ("2M", 2 << 20),
            ("2MB", 2 << 20),
            ("3GiB", 3 << 30),
            ("1.5G", 3 << 29),
            ("0.25k", 256),
            ("1t", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "-1", "+1", "x", "1x", "M", "1 ib", "1kk", "1e9", "1.", ".5G", "1.5", "1.5.0G",
            "5X",
        ] {
            assert_eq!(size(text), Err(AmountError::Size), "{text:?}");
        }
        for text in ["20000000T", "18446744073709551616", "99999999999999999999T"] {
            assert_eq!(size(text), Err(AmountError::TooLarge), "{text:?}");
        }
    }

    #[test]
    fn rates_are_sizes_a_second() {
        for text in ["512M", "512M/s", "512.0 MiB/s", "512MB/s "] {
            assert_eq!(rate(text), Ok(512 << 20), "{text}");
        }
        for text in ["/s", "512M/m", "512M/s/s"] {
            assert_eq!(rate(text), Err(AmountError::Size), "{text}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, us) in [
            ("0", 0),
            ("10", 10_000_000),
            ("1.5", 1_500_000),
            ("100us", 100),
            ("0.5ms", 500),
            ("10s", 10_000_000),
            ("5m", 300_000_000),
            ("12h", 43_200_000_000),
            ("30d", 2_592_000_000_000),
            ("1h30m", 5_400_000_000),
            ("3 h 2 min", 10_920_000_000),
            ("1 d 0 h", 86_400_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_micros(us)), "{text}");
        }
        assert_eq!(duration("2.000000005s"), Ok(Duration::new(2, 5)));
        for text in [
            "",
            "-1",
            "-5s",
            "s",
            "1.s",
            "1x",
            "1 h 2",
            "1h,2m",
            "5S",
            "99999999999999999999",
            "1e3",
        ] {
            assert_eq!(duration(text), Err(AmountError::Duration), "{text:?}");
        }
    }

    #[test]
    fn percentages_are_parsed() {
        for (text, value) in
            [("0", 0.0), ("80", 80.0), ("80%", 80.0), ("99.5 %", 99.5), ("100", 100.0)]
        {
            assert_eq!(percent(text), Ok(value), "{text}");
        }
        for text in ["", "%", "-1", "101", "100.1%", "1e2", "80%%", "8 0"] {
            assert_eq!(percent(text), Err(AmountError::Percent), "{text:?}");
        }
    }
}

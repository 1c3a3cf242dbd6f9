//! Values for `#[serde(deserialize_with = "...")]`. The bounds stand at the field: `value::count::<1, 256, _, _>`.

use numaloc_core::{
    Profile, SMALLEST_PAGE,
    amount::{self, AmountError},
};
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use std::{fmt, marker::PhantomData, ops::RangeInclusive, time::Duration};

/// Milliseconds in a day, for the bounds of [`duration`].
pub const DAY_MS: u64 = 24 * 3_600_000;

/// The largest number of bytes that messages of the API hold.
const BYTES_MAX: u64 = i64::MAX as u64;

/// A number or a text as it was written.
#[derive(Clone, Copy, Debug)]
pub enum Scalar<'a> {
    /// A whole number, in any base that TOML has.
    Number(i128),
    /// A text without its quotes.
    Text(&'a str),
}

/// Why [`scalar`] refuses a value.
#[derive(Debug)]
pub enum Refusal {
    /// A text where a number is expected, or the other way round.
    Type,
    /// Another reason, which says what is expected.
    Value(String),
}

impl<E: fmt::Display> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Value(error.to_string())
    }
}

/// Reads a number or a text with `read`. `expected` completes the sentence "expected ...".
///
/// # Errors
/// The value is neither, or `read` refuses it.
pub fn scalar<'de, T, D: Deserializer<'de>>(
    from: D,
    expected: &str,
    read: impl FnOnce(Scalar<'_>) -> Result<T, Refusal>,
) -> Result<T, D::Error> {
    from.deserialize_any(ScalarVisitor { expected, read, value: PhantomData })
}

struct ScalarVisitor<'a, T, F> {
    expected: &'a str,
    read: F,
    value: PhantomData<T>,
}

impl<T, F: FnOnce(Scalar<'_>) -> Result<T, Refusal>> ScalarVisitor<'_, T, F> {
    fn visit<E: Error>(self, value: Scalar<'_>, found: Unexpected<'_>) -> Result<T, E> {
        (self.read)(value).map_err(|refusal| match refusal {
            Refusal::Type => E::invalid_type(found, &self.expected),
            Refusal::Value(message) => E::custom(message),
        })
    }
}

impl<'de, T, F: FnOnce(Scalar<'_>) -> Result<T, Refusal>> Visitor<'de> for ScalarVisitor<'_, T, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_i128(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_i128(number.into())
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<T, E> {
        let signed = i64::try_from(number).map(Unexpected::Signed);
        self.visit(Scalar::Number(number), signed.unwrap_or(Unexpected::Other("integer")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.visit(Scalar::Text(text), Unexpected::Str(text))
    }
}

/// A text that `parse` reads.
///
/// # Errors
/// Not a text, or the message of `parse`.
pub fn text<'de, T, D: Deserializer<'de>, E: Into<Refusal>>(
    from: D,
    expected: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    scalar(from, expected, |value| match value {
        Scalar::Text(text) => parse(text).map_err(Into::into),
        Scalar::Number(_) => Err(Refusal::Type),
    })
}

/// A whole number from `LEAST` to `MOST`.
///
/// # Errors
/// Not a whole number, or out of range.
pub fn count<'de, const LEAST: u64, const MOST: u64, T: TryFrom<u64>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    scalar(from, &format!("a whole number from {LEAST} to {MOST}"), |value| match value {
        Scalar::Number(number) => within(number, LEAST..=MOST),
        Scalar::Text(_) => Err(Refusal::Type),
    })
}

/// [`count`] for a field that is an `Option` and defaults to `None`.
///
/// # Errors
/// The errors of [`count`].
pub fn some_count<'de, const LEAST: u64, const MOST: u64, T: TryFrom<u64>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    count::<LEAST, MOST, T, D>(from).map(Some)
}

/// A number of bytes from `LEAST` to `MOST`: a whole number, or text such as `"16M"`. `T` may be `Option<u64>`.
///
/// # Errors
/// Not a size, or out of range.
pub fn size<'de, const LEAST: u64, const MOST: u64, T: TryFrom<u64>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    bytes(from, LEAST..=MOST, amount::size)
}

fn bytes<'de, T: TryFrom<u64>, D: Deserializer<'de>>(
    from: D,
    bounds: RangeInclusive<u64>,
    read: fn(&str) -> Result<u64, AmountError>,
) -> Result<T, D::Error> {
    scalar(from, "a size such as \"16M\"", |value| match value {
        Scalar::Number(number) => within(number, bounds.clone()),
        Scalar::Text(text) => {
            let bytes = read(text).map_err(|error| invalid(text, error))?;
            let most = bounds.end();
            let refuse = || out_of_range(text, *bounds.start(), format_args!("{most} bytes"));
            let fits = bounds.contains(&bytes);
            fits.then(|| T::try_from(bytes).ok()).flatten().ok_or_else(refuse)
        }
    })
}

/// A duration from `LEAST_MS` to `MOST_MS` milliseconds, in text with a unit. `T` may be `Option<Duration>`.
///
/// # Errors
/// Not a duration, or out of range.
pub fn duration<
    'de,
    const LEAST_MS: u64,
    const MOST_MS: u64,
    T: From<Duration>,
    D: Deserializer<'de>,
>(
    from: D,
) -> Result<T, D::Error> {
    text(from, "a duration such as \"30s\"", |text| {
        let span = amount::duration(text).map_err(|error| invalid(text, error))?;
        let bounds = Duration::from_millis(LEAST_MS)..=Duration::from_millis(MOST_MS);
        let fits = bounds.contains(&span);
        let refuse = || out_of_range(text, in_units(LEAST_MS), in_units(MOST_MS));
        fits.then(|| span.into()).ok_or_else(refuse)
    })
}

/// A rate in bytes per second, as [`size`], also with `/s` behind it. The bounds are those of the rate in a request.
///
/// # Errors
/// The errors of [`size`].
pub fn rate<'de, T: TryFrom<u64>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    bytes(from, SMALLEST_PAGE..=BYTES_MAX, amount::rate)
}

/// The name of a profile.
///
/// # Errors
/// The errors of [`one_of`].
pub fn profile<'de, D: Deserializer<'de>>(from: D) -> Result<Profile, D::Error> {
    one_of(from, "profile", &Profile::ALL.map(|profile| (profile.name(), profile)))
}

/// One of several names. `kind` says what they name, such as `profile`.
///
/// # Errors
/// Not a text, or none of the names.
pub fn one_of<'de, T: Copy, D: Deserializer<'de>>(
    from: D,
    kind: &str,
    names: &[(&str, T)],
) -> Result<T, D::Error> {
    let listed: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    let listed = listed.join(", ");
    text(from, &format!("one of {listed}"), |text| {
        let known = names.iter().find(|(name, _)| *name == text);
        let refuse = || format!("unknown {kind} '{text}', expected one of {listed}");
        known.map(|(_, value)| *value).ok_or_else(refuse)
    })
}

/// `number`, if it is in `range` and fits `T`.
///
/// # Errors
/// The message says which numbers are.
pub fn within<T: TryFrom<u64>>(number: i128, range: RangeInclusive<u64>) -> Result<T, Refusal> {
    let fits = u64::try_from(number).ok().filter(|number| range.contains(number));
    let value = fits.and_then(|number| T::try_from(number).ok());
    value.ok_or_else(|| out_of_range(number, range.start(), range.end()))
}

fn out_of_range(
    value: impl fmt::Display,
    least: impl fmt::Display,
    most: impl fmt::Display,
) -> Refusal {
    format!("{value} is out of range: {least} to {most}").into()
}

/// A number of milliseconds in the largest unit that leaves no rest.
fn in_units(milliseconds: u64) -> String {
    let units = [("d", DAY_MS), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let exact =
        units.into_iter().find(|(_, unit)| milliseconds > 0 && milliseconds.is_multiple_of(*unit));
    let (name, unit) = exact.unwrap_or(("ms", 1));
    format!("{}{name}", milliseconds / unit)
}

fn invalid(text: &str, error: AmountError) -> Refusal {
    format!("invalid {} '{text}': {error}", error.kind()).into()
}

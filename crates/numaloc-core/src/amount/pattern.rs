//! Amounts as regular expressions of Go and ECMA 262, for schemas of others. They take what the functions here parse, but for amounts
//! that are too large, and spaces that are not ASCII.

use super::{DECIMALS, DIGITS, SIZES, TIMES};

/// What [`super::size`] parses.
pub fn size_pattern() -> String {
    whole(&size_text())
}

/// What [`super::rate`] parses.
pub fn rate_pattern() -> String {
    whole(&format!("{}(/s)?", size_text()))
}

/// What [`super::duration`] parses.
pub fn duration_pattern() -> String {
    let number = number();
    let units: Vec<&str> =
        TIMES.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
    whole(&format!(r"({number}|({number}\s*({})\s*)+)", units.join("|")))
}

/// What [`super::percent`] parses.
pub fn percent_pattern() -> String {
    let (zeros, decimals) = (DIGITS - 3, DECIMALS);
    let up_to_100 = format!(
        r"0{{0,{zeros}}}(100(\.0{{1,{decimals}}})?|[0-9]{{1,2}}(\.[0-9]{{1,{decimals}}})?)"
    );
    whole(&format!(r"{up_to_100}\s*%?"))
}

fn whole(text: &str) -> String {
    format!(r"^\s*{text}\s*$")
}

fn number() -> String {
    format!(r"[0-9]{{1,{DIGITS}}}(\.[0-9]{{1,{DECIMALS}}})?")
}

/// Bytes are whole; multiples may have decimals.
fn size_text() -> String {
    let letters: String = SIZES.iter().map(|(name, _)| name.to_ascii_uppercase() + name).collect();
    let number = number();
    format!(r"([0-9]{{1,{DIGITS}}}\s*[Bb]?|{number}\s*[{letters}]([Ii]?[Bb])?)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::{AmountError, duration, percent, rate, size};
    use proptest::prelude::*;
    use regex::Regex;

    /// Texts that look like amounts, and mostly are none.
    const NEARLY: &str = r"[ \t]?[0-9]{0,22}(\.[0-9]{0,11})?[ ]?([kKmMgGtTiIbBnuhds%/.]|min|ms|us|ns|/s|iB|0|1){0,5}[ ]?";

    fn is_too_large(parsed: &Result<u64, AmountError>) -> bool {
        *parsed == Err(AmountError::TooLarge)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn patterns_take_what_is_parsed(text in NEARLY) {
            let takes = |pattern: String| Regex::new(&pattern).expect("a pattern").is_match(&text);
            for (parsed, pattern) in [(size(&text), size_pattern()), (rate(&text), rate_pattern())] {
                if !is_too_large(&parsed) {
                    prop_assert_eq!(parsed.is_ok(), takes(pattern), "{:?}", text);
                }
            }
            prop_assert_eq!(percent(&text).is_ok(), takes(percent_pattern()), "{:?}", text);
            // A time of six digits may be too long.
            if text.chars().filter(char::is_ascii_digit).count() < 6 {
                prop_assert_eq!(duration(&text).is_ok(), takes(duration_pattern()), "{:?}", text);
            }
        }
    }

    #[test]
    fn a_mistake_of_a_policy_is_none_of_them() {
        let takes = |pattern: String, text| Regex::new(&pattern).expect("a pattern").is_match(text);
        for (text, expected) in [
            ("30m", true),
            ("1h30m", true),
            ("1 d 2 h", true),
            ("30 minutes", false),
            ("5S", false),
        ] {
            assert_eq!(takes(duration_pattern(), text), expected, "{text}");
        }
        assert!(takes(rate_pattern(), "512 MiB/s") && !takes(size_pattern(), "512M/s"));
        assert!(takes(percent_pattern(), "099.5 %") && !takes(percent_pattern(), "101"));
    }
}

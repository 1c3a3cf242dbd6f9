//! Texts that others wrote, made fit for messages.

/// Longest value or name that a message repeats, in characters.
pub const SHOWN_MAX: usize = 64;
/// Longest error that a message repeats, in characters.
pub const ERROR_MAX: usize = 200;

/// `text` for a message: characters that are not printed, or that change how others are printed, are escaped, and no more than
/// `max` of the text's characters are shown.
pub fn shown(text: &str, max: usize) -> String {
    let mut shown = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == max {
            shown.push_str("...");
            break;
        }
        match is_plain(c) {
            true => shown.push(c),
            false => shown.extend(c.escape_unicode()),
        }
    }
    shown
}

/// Whether a character is shown as what it is. Not so are control characters, and characters that end lines or change
/// the direction of the text after them.
fn is_plain(c: char) -> bool {
    let directs = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}') && !directs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_printed_is_escaped() {
        assert_eq!(shown("redis-0", 64), "redis-0");
        assert_eq!(shown("a\nb\u{1b}[31m\u{202e}", 64), "a\\u{a}b\\u{1b}[31m\\u{202e}");
        assert_eq!(shown("Käse", 3), "Käs...");
        assert_eq!(shown("Käse", 4), "Käse");
    }

    proptest! {
        #[test]
        fn nothing_shown_is_long_or_moves_the_cursor(text in any::<String>(), max in 0..80_usize) {
            let shown = shown(&text, max);
            prop_assert!(shown.chars().all(is_plain));
            // The longest escape is \u{10ffff}.
            prop_assert!(shown.chars().count() <= max * 10 + 3);
        }
    }
}

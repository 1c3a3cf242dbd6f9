//! Colours for the words that readers look for in a text.

use crate::output::View;

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Good,
    Warning,
    Bad,
    /// The subject of the text.
    Heading,
    /// A command to type.
    Command,
}

impl Style {
    /// The parameter of ECMA-48's SGR.
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "31",
            Self::Heading => "1",
            Self::Command => "36",
        }
    }
}

/// Colours the first place of a word in each line, as `which` says; if it is the line, all of it. Without colours, the
/// text as it is.
pub fn words<'t>(
    text: &'t str,
    view: View,
    which: impl Fn(&'t str) -> Option<(&'t str, Style)>,
) -> String {
    if !view.colours {
        return text.to_owned();
    }
    let line = |line: &'t str| match which(line) {
        Some((word, style)) if !word.is_empty() => {
            let painted = format!("\x1b[{}m{word}\x1b[0m", style.code());
            line.replacen(word, &painted, 1) + "\n"
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_coloured_only_where_colours_are_wanted() {
        let text = "a bad day\ngood\n";
        let which = |line| match line {
            "good" => Some((line, Style::Good)),
            _ => Some(("bad", Style::Bad)),
        };
        assert_eq!(words(text, View::TABLE, which), text);
        let coloured = words(text, View { colours: true, ..View::TABLE }, which);
        assert_eq!(coloured, "a \x1b[31mbad\x1b[0m day\n\x1b[32mgood\x1b[0m\n");
    }
}

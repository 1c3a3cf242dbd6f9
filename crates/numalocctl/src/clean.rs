//! Names of processes and messages of daemons, made safe for a terminal.

/// Replaces control characters, so that they do not reach the terminal. Names of processes can contain any characters.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[2J\nb"), "a?[2J?b");
    }
}

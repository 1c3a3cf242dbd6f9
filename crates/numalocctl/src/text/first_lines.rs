//! Prints the first of several things.

/// The most lines of one kind.
pub const LINES: usize = 4;

/// A line for each of the first, and one that counts the others.
pub fn first_lines<T>(kind: &str, all: &[T], line: impl Fn(&T) -> String) -> String {
    let mut text: String = all.iter().take(LINES).map(line).collect();
    if all.len() > LINES {
        text += &format!("{kind}: and {} more\n", all.len() - LINES);
    }
    text
}

//! Sample files, for the tests of programs that ship one.

/// A sample file with the keys in force that it has in comments: `#key = value`. Text has a space after the sign.
pub fn uncommented(sample: &str) -> String {
    let lines = sample.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

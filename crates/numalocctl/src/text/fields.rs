//! Names and values below each other, as `systemctl status` shows them.

use crate::clean::clean;

/// A line for each field; fields with an empty value are left out.
pub fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let shown: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:>width$}: {}\n", clean(value));
    shown.iter().map(line).collect()
}

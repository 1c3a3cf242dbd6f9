//! Labels of records, within the daemon's bounds.

use super::check::{count, text};
use crate::{Problem, Violations};
use std::collections::BTreeMap;

/// Most labels, and their longest keys and values in bytes.
pub const LABELS_MAX: usize = 64;
/// Longest key of a label in bytes: a prefix of 253, a slash and a name of 63.
pub const LABEL_KEY_MAX: usize = 317;
/// Longest value of a label in bytes.
pub const LABEL_VALUE_MAX: usize = 256;

/// Reads labels, and checks their number and lengths.
pub fn labels(
    field: &str,
    from: BTreeMap<String, String>,
    bad: &mut Violations,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if !count(field, from.len(), LABELS_MAX, bad) {
        return labels;
    }
    for (key, value) in from {
        if key.is_empty() {
            bad.push(field, Problem::Malformed { expected: "without an empty key" });
        }
        let Some(key) = text(field, key, LABEL_KEY_MAX, bad) else { continue };
        // Errors are sent in headers, which must stay small.
        let field = format!("{field}[{}]", key.chars().take(32).collect::<String>());
        let value = text(&field, value, LABEL_VALUE_MAX, bad);
        labels.insert(key, value.unwrap_or_default());
    }
    labels
}

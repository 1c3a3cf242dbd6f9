//! Single values as text, in tables and lists.

use crate::time::Time;
use std::collections::BTreeMap;

/// A time to the second; a dash if there is none.
pub fn short(time: Option<Time>) -> String {
    time.map_or("-".to_owned(), Time::short)
}

/// The text; a dash if there is none.
pub fn dash(text: &Option<String>) -> String {
    text.clone().unwrap_or("-".to_owned())
}

/// Labels, separated by commas.
pub fn labels(labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

//! Names in messages for people.

/// Most names of one sort in a message.
const TOLD: usize = 3;

/// For messages: the first few names, and the number of further ones; `None` without names.
pub fn first_few(names: impl ExactSizeIterator<Item: ToString>) -> Option<String> {
    let more = names.len().saturating_sub(TOLD);
    let first: Vec<_> = names.take(TOLD).map(|name| name.to_string()).collect();
    match (first.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(first.join(", ")),
        (false, _) => Some(format!("{} and {more} more", first.join(", "))),
    }
}

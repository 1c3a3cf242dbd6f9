//! Pages of lists. A page ends by number of entries or by size. A token names the list that it belongs to and the last
//! entry that was shown.

use crate::{refusal::Refusal, store::Weight};
use numaloc_api::value::Page;
use std::fmt::Debug;

/// About how many bytes a page has at most: by default gRPC clients accept no message above 4 MiB.
const BYTES: usize = 2 << 20;

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// The entries of this page, at most the requested number.
    pub entries: Vec<T>,
    /// The token of the next page; `None`: there is none.
    pub next: Option<String>,
}

/// Cuts a page out of `entries`, which begin after the position in the token.
///
/// `list` names the list and its filter. `entries` gives the entries after a position (`None`: from the start), each
/// with its own position.
///
/// # Errors
/// The token belongs to another list.
pub fn page<T: Weight, I: Iterator<Item = (String, T)>>(
    page: &Page,
    list: &dyn Debug,
    entries: impl FnOnce(Option<&str>) -> Option<I>,
) -> Result<Listed<T>, Refusal> {
    let mark = format!("{:08x}", crc32fast::hash(format!("{list:?}").as_bytes()));
    let after = match &page.token {
        None => None,
        Some(token) => match token.split_once('.') {
            Some((of, position)) if of == mark => Some(position),
            _ => return Err(Refusal::PageToken),
        },
    };
    let mut rest = entries(after).ok_or(Refusal::PageToken)?.peekable();
    let mut listed = Listed { entries: Vec::new(), next: None };
    let mut position = String::new();
    let mut bytes = 0;
    while listed.entries.len() < page.size
        && bytes < BYTES
        && let Some((at, entry)) = rest.next()
    {
        position = at;
        bytes += entry.weight();
        listed.entries.push(entry);
    }
    if rest.peek().is_some() && !listed.entries.is_empty() {
        listed.next = Some(format!("{mark}.{position}"));
    }
    Ok(listed)
}

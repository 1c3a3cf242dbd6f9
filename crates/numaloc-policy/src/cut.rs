//! Texts that are cut to a number of bytes.

/// Cuts a text to `most` bytes, at the end of a character.
pub(crate) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.shrink_to_fit();
    }
}

//! Prints which files in memory a target has open and not mapped.

use super::first_lines::first_lines;
use crate::{clean::clean, units::size};
use numaloc_api::v1;

/// A line for each of the largest, with what moves it.
pub fn held(files: &[v1::HeldFile]) -> String {
    first_lines("open", files, line)
}

fn line(file: &v1::HeldFile) -> String {
    let (bytes, name, path) = (size(file.bytes), clean(&file.name), clean(&file.path));
    format!(
        "open: {bytes} of {name}, which no process of the target maps: --file {path} moves it\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_have_a_line_each() {
        let file = v1::HeldFile {
            path: "/proc/4711/fd/7".to_owned(),
            name: "/memfd:frames (deleted)".to_owned(),
            bytes: 256 << 20,
            ..v1::HeldFile::default()
        };
        let text = held(&vec![file; 6]);
        let first = "open: 256.0 MiB of /memfd:frames (deleted), which no process of the target maps: --file /proc/4711/fd/7 moves it";
        assert_eq!(text.lines().next(), Some(first));
        assert_eq!(text.lines().last(), Some("open: and 2 more"));
        assert_eq!(held(&[]), "");
    }
}

//! Tests of configurations that all clients share.

use crate::config::{Configuration, parse};
use numaloc_config::samples::uncommented;
use std::fmt::Debug;

/// A text that was read, or all mistakes in it.
///
/// # Errors
/// A line for each mistake.
pub fn parsed<C: Configuration>(text: &str) -> Result<C, String> {
    parse(text).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })
}

/// The sample that is shipped has the defaults, as it is and with all of its keys in force.
///
/// # Panics
/// It has others.
pub fn assert_sample<C: Configuration + Debug>(sample: &str) {
    for text in [sample.to_owned(), uncommented(sample)] {
        let config: C = parsed(&text).expect("it is valid");
        assert_eq!(format!("{config:?}"), format!("{:?}", C::default()));
    }
}

/// The table of keys in the section of a page that begins with `heading` has the keys that are read.
///
/// # Panics
/// It has others.
pub fn assert_documented<C: Configuration + Debug>(page: &str, heading: &str) {
    let error = parsed::<C>("surely_not = 1").expect_err("there is no such key");
    let (_, known) = error.split_once("expected one of ").expect("it lists those that are known");
    let mut read: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let (_, page) = page.split_once(heading).expect("a section");
    let section = page.split("\n## ").next().expect("what there is up to the next one");
    let (_, table) = section.split_once("| key |").expect("a table of them");
    let table = table.split("\n\n").next().expect("what there is up to an empty line");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let mut documented: Vec<&str> =
        rows.flat_map(|(keys, _)| keys.split('`').skip(1).step_by(2)).collect();
    read.sort_unstable();
    documented.sort_unstable();
    assert_eq!(documented, read);
}

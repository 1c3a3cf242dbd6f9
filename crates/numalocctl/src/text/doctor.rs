//! Prints the findings of `numalocctl doctor` as text.

use super::{
    colour::{self, Style},
    csv,
    table::Table,
};
use crate::{doc::DoctorDoc, output::View};
use std::fmt::Write;

/// A row per check. Below, what to do about each check that is not ok.
pub fn doctor(document: &DoctorDoc, view: View) -> String {
    if view.csv {
        return csv::checks(document, view);
    }
    let mut table = Table::new().words("CHECK").words("RESULT").words("FOUND");
    for check in &document.checks {
        table.row(vec![check.name.into(), check.level.name().into(), check.found.clone()]);
    }
    let mut text = table.fitted(view);
    if view.rows_alone() {
        return levels(&text, view);
    }
    let advised = document.checks.iter().filter_map(|c| c.advice.as_ref().map(|a| (c, a)));
    for (index, (check, advice)) in advised.enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}{}: {}: {advice}", check.level.name(), check.name);
    }
    levels(&text, view)
}

/// Colours the level of each check.
fn levels(text: &str, view: View) -> String {
    let levels = [("ok", Style::Good), ("warning", Style::Warning), ("problem", Style::Bad)];
    colour::words(text, view, |line| {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next()?, words.next().unwrap_or_default());
        let of =
            |level: &&(&str, Style)| level.0 == second || first.strip_suffix(':') == Some(level.0);
        levels.iter().find(of).copied()
    })
}

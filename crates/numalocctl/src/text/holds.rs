//! `drain`, `undrain`, `pause-all` and `resume-all`.

use crate::{doc::HoldsDoc, output::View};

/// What keeps moves from beginning, and how to end it.
pub fn holds(document: &HoldsDoc, _: View) -> String {
    let mut lines: Vec<String> = words(document).into_iter().map(|line| line + "\n").collect();
    if lines.is_empty() {
        lines.push("moves begin as their turns come\n".to_owned());
    }
    lines.concat()
}

/// A sentence for each hold.
pub fn words(document: &HoldsDoc) -> Vec<String> {
    let drained = document.drain_time.map(|time| {
        format!("drained since {}: no move begins until numalocctl undrain", time.short())
    });
    let paused = document.pause_time.map(|time| {
        format!("all moves are paused since {} until numalocctl resume-all", time.short())
    });
    drained.into_iter().chain(paused).collect()
}

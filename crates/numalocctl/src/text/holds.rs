//! `drain`, `undrain`, `pause-all` and `resume-all`.

use crate::{fields::short, output::View};
use numaloc_api::v1;

/// The holds that keep moves from beginning, and how to end each.
pub fn holds(holds: &v1::Holds, _: View) -> String {
    let mut lines: Vec<String> = words(holds).into_iter().map(|line| line + "\n").collect();
    if lines.is_empty() {
        lines.push("moves begin as their turns come\n".to_owned());
    }
    lines.concat()
}

/// A sentence for each hold.
pub fn words(holds: &v1::Holds) -> Vec<String> {
    let drained = holds.drain_time.map(|time| {
        format!("drained since {}: no move begins until numalocctl undrain", short(time))
    });
    let paused = holds.pause_time.map(|time| {
        format!("all moves are paused since {} until numalocctl resume-all", short(time))
    });
    drained.into_iter().chain(paused).collect()
}

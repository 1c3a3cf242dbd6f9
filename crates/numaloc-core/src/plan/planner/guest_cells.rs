//! Memory of each cell of a guest by node.

use super::Planner;
use crate::{
    memory::{extent::Extent, rule::Rule},
    plan::PlannedProcess,
};

/// Where to find each cell in the plan: the index of its process, and its own there.
pub(super) fn places(processes: &[PlannedProcess]) -> Vec<(usize, usize)> {
    let of_one = |(index, process): (usize, &PlannedProcess)| {
        (0..process.cells.len()).map(move |cell| (index, cell)).collect::<Vec<_>>()
    };
    processes.iter().enumerate().flat_map(of_one).collect()
}

impl Planner<'_> {
    /// Adds an extent to its cell, if it is memory of one.
    pub(super) fn count_cell(&mut self, extent: &Extent) {
        let place = extent.rule.and_then(Rule::cell).and_then(|cell| self.cells.get(cell));
        let Some(&(process, cell)) = place else { return };
        let cell = &mut self.plan.processes[process].cells[cell];
        for (&node, resident) in &extent.residency.nodes {
            *cell.resident.entry(node).or_default() += resident.total_bytes();
        }
    }
}

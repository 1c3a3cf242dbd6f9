//! The mappings that are the memory of a guest's cells.

use crate::files::maps::Vma;
use numaloc_core::{MappedRange, Options, Process, Rule, cell_memory, home};

/// Notes for each VMA the cell whose memory it is, if the memory of cells belongs where their vCPUs run. `vmas` has one list for each
/// process.
pub(super) fn name(options: &Options, processes: &[Process], vmas: &mut [Vec<Vma>]) {
    let mut before = 0;
    for (process, vmas) in processes.iter().zip(vmas) {
        let count = home::cells(process, options).len();
        let Some(guest) = process.guest.as_ref().filter(|_| count > 0) else { continue };
        let mapped: Vec<MappedRange<'_>> = vmas.iter().map(range).collect();
        let cells = cell_memory::cells(guest, &mapped);
        for (vma, cell) in vmas.iter_mut().zip(cells) {
            vma.rule = cell.map(|cell| Rule::Cell(before + cell));
        }
        before += count;
    }
}

fn range(vma: &Vma) -> MappedRange<'_> {
    let (start, bytes) = (vma.start, vma.end - vma.start);
    MappedRange { start, bytes, name: &vma.name, kind: vma.kind, shared: vma.shared }
}

#[cfg(test)]
mod tests;

//! Pictures: where the memory of processes is, by address, in a bounded number of cells.
//!
//! The address space of a process becomes rows, a row an [`Area`], and a row becomes cells, a cell a range of addresses
//! with the bytes that are resident in it by node. So the size of a picture follows its width, not the amount of memory.

mod areas;
mod bars;
mod collect;
mod sample;
#[cfg(test)]
mod tests;

pub use areas::{Area, areas};
pub use bars::{DRAWN_PERCENT, leave_bars};
pub use collect::{Bounds, Read, Stretch, again, side};

use crate::machine::ids::{NodeId, NodeSet};
use std::collections::BTreeMap;

/// Resident bytes in a range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Bytes on each node; nodes without any are left out.
    pub nodes: BTreeMap<NodeId, u64>,
    /// On a node that could not be determined.
    pub unplaced_bytes: u64,
    /// Subset of all in PMD-sized or larger pages.
    pub huge_bytes: u64,
    /// Subset of all that other processes map, too, or that is not provably mapped by this process alone.
    pub shared_bytes: u64,
}

impl Cell {
    /// The bytes on all nodes and the unplaced ones.
    pub fn resident_bytes(&self) -> u64 {
        self.nodes.values().sum::<u64>() + self.unplaced_bytes
    }

    /// Bytes on nodes that are not `home`. Bytes on no known node are neither remote nor local.
    pub fn remote_bytes(&self, home: &NodeSet) -> u64 {
        let away = self.nodes.iter().filter(|(node, _)| !home.contains(**node));
        away.map(|(_, bytes)| bytes).sum()
    }

    /// Adds what another range holds.
    pub fn add(&mut self, other: &Self) {
        for (node, bytes) in &other.nodes {
            *self.nodes.entry(*node).or_default() += bytes;
        }
        self.unplaced_bytes += other.unplaced_bytes;
        self.huge_bytes += other.huge_bytes;
        self.shared_bytes += other.shared_bytes;
    }
}

/// An area, with its addresses divided into cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaRow {
    /// The range of addresses that the cells divide.
    pub area: Area,
    /// Addresses of a cell in bytes; the last cell may have fewer.
    pub cell_bytes: u64,
    /// In the order of their addresses; never empty.
    pub cells: Vec<Cell>,
    /// Bytes of the area's addresses that were looked at. If they are fewer than the area has, the cells are estimates.
    pub looked_bytes: u64,
}

impl AreaRow {
    /// The sum of its cells.
    pub fn total(&self) -> Cell {
        total(&self.cells)
    }

    /// Addresses of one cell in bytes.
    pub fn bytes_of(&self, cell: usize) -> u64 {
        let before = cell as u64 * self.cell_bytes;
        self.area.bytes().saturating_sub(before).min(self.cell_bytes)
    }

    /// Whether the cells are estimates.
    pub fn is_sampled(&self) -> bool {
        self.looked_bytes < self.area.bytes()
    }
}

/// Areas too small for a row, or too many, together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherAreas {
    /// Number of areas without a row of their own.
    pub areas: u64,
    /// Sum of the lengths of these areas, resident or not.
    pub range_bytes: u64,
    /// Their resident bytes.
    pub cell: Cell,
    /// As [`AreaRow::looked_bytes`], summed over these areas.
    pub looked_bytes: u64,
}

/// An address space at one moment. Areas without resident pages are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// The areas that hold most, in the order of their addresses.
    pub rows: Vec<AreaRow>,
    /// The areas that have no row.
    pub other: OtherAreas,
}

impl Side {
    /// The sum over all rows and other areas.
    pub fn total(&self) -> Cell {
        let mut sum = self.other.cell.clone();
        self.rows.iter().flat_map(|row| &row.cells).for_each(|cell| sum.add(cell));
        sum
    }

    /// Bytes of addresses, and how many of them were looked at.
    pub fn looked(&self) -> (u64, u64) {
        let rows = self.rows.iter().map(|row| (row.area.bytes(), row.looked_bytes));
        let other = (self.other.range_bytes, self.other.looked_bytes);
        rows.fold(other, |sum, row| (sum.0 + row.0, sum.1 + row.1))
    }

    /// Whether any number is an estimate.
    pub fn is_sampled(&self) -> bool {
        let (bytes, looked_bytes) = self.looked();
        looked_bytes < bytes
    }
}

/// The expected picture of a process after a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum After {
    /// Nothing was moved, so there is only one side.
    #[default]
    None,
    /// The process ended before the second look.
    Ended,
    /// The rows of before, looked at once more.
    Seen(Side),
}

/// A process in a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Its pid in the namespace of the reader.
    pub pid: i32,
    /// Its name as in /proc/PID/comm.
    pub comm: String,
    /// The nodes where its memory belongs.
    pub home: NodeSet,
    /// Its memory, before the move if there is one.
    pub before: Side,
    /// Its memory after the move.
    pub after: After,
}

impl Panel {
    /// The moments that were seen, the earlier one first.
    pub fn sides(&self) -> impl Iterator<Item = &Side> {
        let after = match &self.after {
            After::Seen(side) => Some(side),
            After::None | After::Ended => None,
        };
        std::iter::once(&self.before).chain(after)
    }

    fn sides_mut(&mut self) -> impl Iterator<Item = &mut Side> {
        let after = match &mut self.after {
            After::Seen(side) => Some(side),
            After::None | After::Ended => None,
        };
        std::iter::once(&mut self.before).chain(after)
    }
}

/// A picture of the memory of some processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The largest processes, largest first.
    pub panels: Vec<Panel>,
    /// Number of the other ones.
    pub left_out: u64,
    /// Resident bytes in the other ones by the kernel's own count; memory that several of them map is counted several
    /// times.
    pub left_out_bytes: u64,
    /// Number of processes that ended while they were looked at.
    pub ended: u64,
}

impl Picture {
    /// The nodes that any panel has memory or its home on.
    pub fn nodes(&self) -> NodeSet {
        let homes = self.panels.iter().flat_map(|panel| panel.home.iter());
        let totals = self.panels.iter().flat_map(Panel::sides).map(Side::total);
        homes.chain(totals.flat_map(|total| total.nodes.into_keys())).collect()
    }

    /// Whether any number is an estimate.
    pub fn is_sampled(&self) -> bool {
        self.panels.iter().flat_map(Panel::sides).any(Side::is_sampled)
    }

    /// Whether there was a move.
    pub fn has_after(&self) -> bool {
        self.panels.iter().any(|panel| panel.after != After::None)
    }
}

fn total(cells: &[Cell]) -> Cell {
    cells.iter().fold(Cell::default(), |mut sum, cell| {
        sum.add(cell);
        sum
    })
}

//! From the pages of areas to rows of cells: one look at each page, and memory for the rows that are kept.

use super::{Area, AreaRow, Cell, OtherAreas, Side, sample};
use crate::{machine::ids::NodeId, number, page_size};
use std::ops::Range;

/// Rows smaller than this share of the largest row become part of the row "other".
const SMALL: u64 = 256;

/// The largest permitted size of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most cells in a row; at least 1.
    pub cells: u64,
    /// Most rows in a panel.
    pub rows: usize,
    /// Whether parts of very large areas stand for the whole.
    pub sampled: bool,
}

/// Consecutive resident pages of one node, huge or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Their addresses in the process.
    pub range: Range<u64>,
    /// Their node, if it can be told.
    pub node: Option<NodeId>,
    /// Whether they are in PMD-sized or larger pages.
    pub huge: bool,
    /// Mapped by another process as well: as [`Cell::shared_bytes`].
    pub shared: bool,
}

impl Stretch {
    /// Adds the pages that are in `range`.
    fn add(&self, cell: &mut Cell, range: &Range<u64>) {
        let end = self.range.end.min(range.end);
        let bytes = end.saturating_sub(self.range.start.max(range.start));
        match self.node {
            _ if bytes == 0 => return,
            Some(node) => *cell.nodes.entry(node).or_default() += bytes,
            None => cell.unplaced_bytes += bytes,
        }
        cell.huge_bytes += if self.huge { bytes } else { 0 };
        cell.shared_bytes += if self.shared { bytes } else { 0 };
    }
}

/// A function that visits the resident pages of a range of addresses, each once.
pub type Read<'a, E> = dyn FnMut(Range<u64>, &mut dyn FnMut(&Stretch)) -> Result<(), E> + 'a;

/// Looks at an address space. `read` visits the resident pages of a range of addresses, each once.
///
/// # Errors
/// The errors of `read`.
pub fn side<E>(areas: Vec<Area>, bounds: Bounds, read: &mut Read<'_, E>) -> Result<Side, E> {
    let mut side = Side::default();
    for area in areas {
        let row = row(area, bounds, read)?;
        if row.total().resident_bytes() > 0 {
            side.rows.push(row);
        }
        if side.rows.len() > bounds.rows {
            fold_smallest(&mut side);
        }
    }
    let held = |row: &AreaRow| row.total().resident_bytes();
    let least = side.rows.iter().map(held).max().unwrap_or(0) / SMALL;
    let (rows, small): (Vec<_>, Vec<_>) = side.rows.into_iter().partition(|row| held(row) >= least);
    small.iter().for_each(|row| fold(&mut side.other, row));
    side.rows = rows;
    Ok(side)
}

/// Looks again, at the rows of an earlier look. Areas that lie in none of them now are "other".
///
/// # Errors
/// The errors of `read`.
pub fn again<E>(
    before: &Side,
    areas: &[Area],
    bounds: Bounds,
    read: &mut Read<'_, E>,
) -> Result<Side, E> {
    let mut side = Side::default();
    for earlier in &before.rows {
        side.rows.push(row(earlier.area.clone(), bounds, read)?);
    }
    for area in areas {
        for rest in outside(area, &before.rows) {
            let row = row(rest, bounds, read)?;
            if row.total().resident_bytes() > 0 {
                fold(&mut side.other, &row);
            }
        }
    }
    Ok(side)
}

/// The parts of an area that lie in no row.
fn outside(area: &Area, rows: &[AreaRow]) -> Vec<Area> {
    let (mut at, mut parts) = (area.start, Vec::new());
    let mut part = |range: Range<u64>| {
        if range.start < range.end {
            parts.push(Area { start: range.start, end: range.end, ..area.clone() });
        }
    };
    for row in rows {
        part(at..row.area.start.min(area.end));
        at = at.max(row.area.end);
    }
    part(at..area.end);
    parts
}

fn fold_smallest(side: &mut Side) {
    let by_bytes = |(_, row): &(usize, &AreaRow)| row.total().resident_bytes();
    if let Some((index, _)) = side.rows.iter().enumerate().min_by_key(by_bytes) {
        fold(&mut side.other, &side.rows.remove(index));
    }
}

fn fold(other: &mut OtherAreas, row: &AreaRow) {
    other.areas += 1;
    other.range_bytes += row.area.bytes();
    other.looked_bytes += row.looked_bytes;
    other.cell.add(&row.total());
}

fn row<E>(area: Area, bounds: Bounds, read: &mut Read<'_, E>) -> Result<AreaRow, E> {
    let cell_bytes = area.bytes().div_ceil(bounds.cells.max(1)).next_multiple_of(page_size());
    let count = number::index(area.bytes().div_ceil(cell_bytes));
    let (cells, looked_bytes) = (vec![Cell::default(); count], area.bytes());
    let mut row = AreaRow { area, cell_bytes, cells, looked_bytes };
    if bounds.sampled && cell_bytes > sample::whole_max() {
        look_at_samples(&mut row, read)?
    } else {
        look_at_all(&mut row, read)?
    }
    Ok(row)
}

fn range_of(row: &AreaRow, cell: usize) -> Range<u64> {
    let start = row.area.start + cell as u64 * row.cell_bytes;
    start..start + row.bytes_of(cell)
}

fn look_at_all<E>(row: &mut AreaRow, read: &mut Read<'_, E>) -> Result<(), E> {
    let (start, end) = (row.area.start, row.area.end);
    read(start..end, &mut |stretch| {
        let from = stretch.range.start.max(start);
        let to = stretch.range.end.min(end);
        let mut cell = number::index(from.saturating_sub(start) / row.cell_bytes);
        while cell < row.cells.len() && range_of(row, cell).start < to {
            let range = range_of(row, cell);
            stretch.add(&mut row.cells[cell], &range);
            cell += 1;
        }
    })
}

fn look_at_samples<E>(row: &mut AreaRow, read: &mut Read<'_, E>) -> Result<(), E> {
    row.looked_bytes = 0;
    for cell in 0..row.cells.len() {
        let range = range_of(row, cell);
        let windows: Vec<_> = if range.end - range.start > sample::whole_max() {
            sample::windows(&range).collect()
        } else {
            vec![range.clone()]
        };
        let (mut seen, mut looked_bytes) = (Cell::default(), 0);
        for window in windows {
            looked_bytes += window.end - window.start;
            read(window.clone(), &mut |stretch| stretch.add(&mut seen, &window))?;
        }
        row.looked_bytes += looked_bytes;
        row.cells[cell] = scaled(seen, range.end - range.start, looked_bytes);
    }
    Ok(())
}

/// The bytes that `bytes` of addresses hold, if each part holds as much as the parts that were looked at.
fn scaled(seen: Cell, bytes: u64, looked_bytes: u64) -> Cell {
    let scale = |seen: u64| {
        number::amount(u128::from(seen) * u128::from(bytes) / u128::from(looked_bytes.max(1)))
    };
    Cell {
        nodes: seen.nodes.into_iter().map(|(node, seen)| (node, scale(seen))).collect(),
        unplaced_bytes: scale(seen.unplaced_bytes),
        huge_bytes: scale(seen.huge_bytes),
        shared_bytes: scale(seen.shared_bytes),
    }
}

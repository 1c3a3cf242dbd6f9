//! One bar: cells from left to right, nodes one on the other, and marks below.

use super::{
    DrawArea, DrawError,
    style::{self, Colours},
};
use crate::units::size;
use numaloc_core::{
    NodeId,
    picture::{AreaRow, Cell},
};

/// Least width and height in pixels of what a node's number is written on.
const NUMBER: (i32, i32) = (18, 13);

/// What is marked below a bar.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// Most of a cell is in huge pages.
    Huge,
    /// Most of a cell is shared with other processes.
    Shared,
}

impl Mark {
    fn holds(self, cell: &Cell) -> bool {
        let bytes = match self {
            Self::Huge => cell.huge_bytes,
            Self::Shared => cell.shared_bytes,
        };
        bytes > 0 && bytes >= cell.resident_bytes() / 2
    }

    /// A line for huge pages, dots for shared ones: told from each other without colours.
    pub fn draw(
        self,
        area: &DrawArea<'_>,
        (from, y): (i32, i32),
        to: i32,
    ) -> Result<(), DrawError> {
        match self {
            Self::Huge => style::fill(area, style::TICK, (from, y), (to, y + 3)),
            Self::Shared => {
                for x in (from..to).step_by(6) {
                    style::fill(area, style::TICK, (x, y), ((x + 3).min(to), y + 3))?;
                }
                Ok(())
            }
        }
    }
}

/// A row's place in the picture.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    pub row: &'a AreaRow,
    /// Its upper left corner, in pixels.
    pub at: (i32, i32),
    /// Width and height, in pixels.
    pub size: (i32, i32),
}

impl Bar<'_> {
    /// Draws it, with its marks.
    pub fn draw(&self, area: &DrawArea<'_>, colours: &Colours) -> Result<(), DrawError> {
        let ((x, y), (width, height)) = (self.at, self.size);
        style::fill(area, style::EMPTY, (x, y), (x + width, y + height))?;
        let cells = &self.row.cells;
        let layers: Vec<Vec<Layer>> = (0..cells.len())
            .map(|cell| layers(&cells[cell], self.row.bytes_of(cell), height))
            .collect();
        let mut from = 0;
        while from < layers.len() {
            let same = layers[from..].iter().take_while(|of| **of == layers[from]).count();
            for layer in &layers[from] {
                let (top, bottom) = (y + height - layer.end, y + height - layer.begin);
                let (from, to) = ((self.x(from), top), (self.x(from + same), bottom));
                part(area, colours, layer.node, from, to)?;
            }
            from += same;
        }
        self.numbers(area, colours, &layers)?;
        self.marks(area, Mark::Huge, y + height + 1)?;
        self.marks(area, Mark::Shared, y + height + 5)
    }

    /// The left edge of a cell.
    fn x(&self, cell: usize) -> i32 {
        self.at.0 + (cell as i64 * i64::from(self.size.0) / self.row.cells.len() as i64) as i32
    }

    /// Writes a node's number where it has most of several cells.
    fn numbers(
        &self,
        area: &DrawArea<'_>,
        colours: &Colours,
        layers: &[Vec<Layer>],
    ) -> Result<(), DrawError> {
        let high = |cell: usize| {
            let node = dominant(&self.row.cells[cell])?;
            let layer = layers[cell].iter().find(|layer| layer.node == Some(node))?;
            (layer.end - layer.begin >= NUMBER.1).then_some(node)
        };
        let mut from = 0;
        while from < layers.len() {
            let node = high(from);
            let same = (from..layers.len()).take_while(|&cell| high(cell) == node).count();
            let (left, right) = (self.x(from), self.x(from + same));
            let middle = from + same / 2;
            let layer = layers[middle].iter().find(|layer| layer.node == node);
            if let (Some(node), Some(layer)) = (node, layer.filter(|_| right - left >= NUMBER.0)) {
                let y = self.at.1 + self.size.1 - (layer.begin + layer.end) / 2;
                colours.of(node).write(area, &node.to_string(), ((left + right) / 2, y))?;
            }
            from += same;
        }
        Ok(())
    }

    fn marks(&self, area: &DrawArea<'_>, mark: Mark, y: i32) -> Result<(), DrawError> {
        let cells = &self.row.cells;
        let mut from = 0;
        while from < cells.len() {
            let holds = mark.holds(&cells[from]);
            let same = cells[from..].iter().take_while(|cell| mark.holds(cell) == holds).count();
            if holds {
                mark.draw(area, (self.x(from), y), self.x(from + same))?;
            }
            from += same;
        }
        Ok(())
    }
}

/// A rectangle of what is on a node; `None`: on no known node.
fn part(
    area: &DrawArea<'_>,
    colours: &Colours,
    node: Option<NodeId>,
    from: (i32, i32),
    to: (i32, i32),
) -> Result<(), DrawError> {
    match node {
        Some(node) => colours.of(node).fill(area, from, to),
        None => style::fill(area, style::UNPLACED, from, to),
    }
}

/// The node that has most of a cell.
fn dominant(cell: &Cell) -> Option<NodeId> {
    let (node, &bytes) = cell.nodes.iter().max_by_key(|(_, bytes)| **bytes)?;
    (bytes > 0 && bytes >= cell.resident_bytes() / 5 * 3).then_some(*node)
}

/// A node's part of a cell, in pixels from the bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layer {
    node: Option<NodeId>,
    begin: i32,
    end: i32,
}

/// The layers of a cell with `range_bytes` of addresses. What is there has a pixel at least, and all together no more
/// than there are.
fn layers(cell: &Cell, range_bytes: u64, height: i32) -> Vec<Layer> {
    let parts = cell.nodes.iter().map(|(node, &bytes)| (Some(*node), bytes));
    let parts = parts.chain([(None, cell.unplaced_bytes)]).filter(|(_, bytes)| *bytes > 0);
    let pixels = |bytes: u64| {
        let exact = bytes as f64 * f64::from(height) / range_bytes.max(1) as f64;
        (exact.round() as i32).clamp(1, height)
    };
    let mut parts: Vec<_> = parts.map(|(node, bytes)| (node, pixels(bytes))).collect();
    let mut over = parts.iter().map(|part| part.1).sum::<i32>() - height;
    while over > 0 {
        match parts.iter_mut().max_by_key(|part| part.1) {
            Some(largest) if largest.1 > 1 => largest.1 -= 1,
            _ => break,
        }
        over -= 1;
    }
    let mut begin = 0;
    let layer = |(node, pixels): (Option<NodeId>, i32)| {
        let end = (begin + pixels).min(height);
        let layer = Layer { node, begin, end };
        begin = end;
        layer
    };
    parts.into_iter().map(layer).collect()
}

/// A bar of shares by node, from left to right, with their amounts.
pub fn shares(
    area: &DrawArea<'_>,
    cell: &Cell,
    colours: &Colours,
    (x, y): (i32, i32),
    (width, height): (i32, i32),
) -> Result<(), DrawError> {
    style::fill(area, style::EMPTY, (x, y), (x + width, y + height))?;
    // The same arithmetic as upwards.
    for layer in layers(cell, cell.resident_bytes(), width) {
        let (from, to) = (x + layer.begin, x + layer.end);
        part(area, colours, layer.node, (from, y), (to, y + height))?;
        let Some(node) = layer.node else { continue };
        let bytes = cell.nodes.get(&node).copied().unwrap_or(0);
        let texts = [format!("node {node}: {}", size(bytes)), node.to_string()];
        let fits = texts.iter().find(|text| style::width(text, 14) + 6 <= to - from);
        if let Some(text) = fits {
            colours.of(node).write(area, text, ((from + to) / 2, y + height / 2))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heights(nodes: &[(u32, u64)], range_bytes: u64) -> Vec<i32> {
        let nodes = nodes.iter().map(|&(node, bytes)| (NodeId(node), bytes)).collect();
        let cell = Cell { nodes, ..Cell::default() };
        layers(&cell, range_bytes, 26).iter().map(|layer| layer.end - layer.begin).collect()
    }

    #[test]
    fn layers_are_as_high_as_their_share_and_little_is_not_nothing() {
        assert_eq!(heights(&[], 100), [0; 0]);
        assert_eq!(heights(&[(0, 50), (1, 50)], 100), [13, 13]);
        assert_eq!(heights(&[(0, 1), (1, 999)], 1000), [1, 25]);
        assert_eq!(heights(&[(0, 1)], 1 << 40), [1]);
        let many: Vec<_> = (0..40).map(|node| (node, 1)).collect();
        assert_eq!(heights(&many, 40).iter().sum::<i32>(), 26);
    }
}

//! One bar: cells from left to right, nodes one on the other, and marks below.

use super::{
    page::{Page, Shape, width},
    style::Colours,
};
use crate::units::size;
use numaloc_core::{
    NodeId, NodeSet,
    picture::{AreaRow, Cell},
};
use std::collections::BTreeMap;

/// Least width and height in pixels of the area that a node's number is written on.
const NUMBER: (i32, i32) = (20, 14);

/// A mark below a bar.
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

    /// A line for huge pages, dots for shared ones: distinguishable without colours.
    pub fn add(self, shape: &mut Shape, (from, y): (i32, i32), to: i32) {
        match self {
            Self::Huge => shape.add((from, y), (to, y + 3)),
            Self::Shared => {
                for x in (from..to).step_by(6) {
                    shape.add((x, y), ((x + 3).min(to), y + 3));
                }
            }
        }
    }
}

/// The looks of nodes, and the home nodes, for drawing bars.
#[derive(Clone, Copy, Debug)]
pub struct Paint<'a> {
    pub colours: &'a Colours,
    pub home: &'a NodeSet,
}

impl Paint<'_> {
    /// Whether memory on a node is remote.
    fn is_remote(self, node: NodeId) -> bool {
        !self.home.contains(node)
    }

    fn of(self, node: Option<NodeId>) -> String {
        match node {
            Some(node) => self.colours.of(node).paint(self.is_remote(node)),
            None => "class=\"unplaced\"".to_owned(),
        }
    }

    fn shapes(self, page: &mut Page, shapes: &BTreeMap<Option<NodeId>, Shape>) {
        shapes.iter().for_each(|(node, shape)| page.shape(self.of(*node), shape));
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
    pub fn draw(&self, page: &mut Page, paint: Paint<'_>) {
        let ((_, y), (_, height)) = (self.at, self.size);
        page.rect("class=\"empty\"", self.at, self.size);
        let cells = &self.row.cells;
        let layers: Vec<Vec<Layer>> = (0..cells.len())
            .map(|cell| layers(&cells[cell], self.row.bytes_of(cell), height))
            .collect();
        let mut shapes: BTreeMap<Option<NodeId>, Shape> = BTreeMap::new();
        let mut from = 0;
        while from < layers.len() {
            let same = layers[from..].iter().take_while(|of| **of == layers[from]).count();
            for layer in &layers[from] {
                let (top, bottom) = (y + height - layer.end, y + height - layer.begin);
                let shape = shapes.entry(layer.node).or_default();
                shape.add((self.x(from), top), (self.x(from + same), bottom));
            }
            from += same;
        }
        paint.shapes(page, &shapes);
        self.numbers(page, paint, &layers);
        self.marks(page, Mark::Huge, y + height + 1);
        self.marks(page, Mark::Shared, y + height + 5);
    }

    /// The left edge of a cell.
    fn x(&self, cell: usize) -> i32 {
        self.at.0 + (cell as i64 * i64::from(self.size.0) / self.row.cells.len() as i64) as i32
    }

    /// Writes a node's number where it has most of several cells, and fills the whole area below the number.
    fn numbers(&self, page: &mut Page, paint: Paint<'_>, layers: &[Vec<Layer>]) {
        let node = |cell: usize| dominant(&self.row.cells[cell]);
        let mut from = 0;
        while from < layers.len() {
            let same = (from..layers.len()).take_while(|&cell| node(cell) == node(from)).count();
            if let Some(node) = node(from) {
                self.number(page, paint, node, &layers[from..from + same], from);
            }
            from += same;
        }
    }

    /// A node's number in the middle of cells that it has most of, the first of which is number `from`.
    fn number(
        &self,
        page: &mut Page,
        paint: Paint<'_>,
        node: NodeId,
        layers: &[Vec<Layer>],
        from: usize,
    ) {
        let text = node.to_string();
        let middle = (self.x(from) + self.x(from + layers.len())) / 2;
        let wide = width(&text, 12).max(NUMBER.0 - 8) + 8;
        if self.x(from + layers.len()) - self.x(from) < wide {
            return;
        }
        // The node's memory in each of the cells below the number.
        let below = layers.iter().enumerate().filter(|(index, _)| {
            let cell = from + index;
            self.x(cell + 1) > middle - wide / 2 && self.x(cell) < middle + wide / 2
        });
        let mut held =
            below.map(|(_, layers)| layers.iter().find(|layer| layer.node == Some(node)));
        let common = held.try_fold((0, self.size.1), |(begin, end), layer| {
            let layer = layer?;
            Some((begin.max(layer.begin), end.min(layer.end)))
        });
        if let Some((begin, end)) = common.filter(|(begin, end)| end - begin >= NUMBER.1) {
            let y = self.at.1 + self.size.1 - (begin + end) / 2;
            let is_remote = paint.is_remote(node);
            paint.colours.of(node).write(page, &text, (middle, y), is_remote);
        }
    }

    fn marks(&self, page: &mut Page, mark: Mark, y: i32) {
        let (cells, mut shape) = (&self.row.cells, Shape::default());
        let mut from = 0;
        while from < cells.len() {
            let holds = mark.holds(&cells[from]);
            let same = cells[from..].iter().take_while(|cell| mark.holds(cell) == holds).count();
            if holds {
                mark.add(&mut shape, (self.x(from), y), self.x(from + same));
            }
            from += same;
        }
        page.shape("class=\"mark\"", &shape);
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

/// The layers of a cell with `range_bytes` of addresses. Each present layer has at least a pixel, and all together fit
/// the height.
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
    page: &mut Page,
    cell: &Cell,
    paint: Paint<'_>,
    (x, y): (i32, i32),
    (wide, height): (i32, i32),
) {
    page.rect("class=\"empty\"", (x, y), (wide, height));
    // The same arithmetic as upwards.
    let layers = layers(cell, cell.resident_bytes(), wide);
    let mut shapes: BTreeMap<Option<NodeId>, Shape> = BTreeMap::new();
    for layer in &layers {
        let shape = shapes.entry(layer.node).or_default();
        shape.add((x + layer.begin, y), (x + layer.end, y + height));
    }
    paint.shapes(page, &shapes);
    for layer in layers {
        let Some(node) = layer.node else { continue };
        let bytes = cell.nodes.get(&node).copied().unwrap_or(0);
        let texts = [format!("node {node}: {}", size(bytes)), node.to_string()];
        let (from, to) = (x + layer.begin, x + layer.end);
        if let Some(text) = texts.iter().find(|text| width(text, 12) + 8 <= to - from) {
            let middle = ((from + to) / 2, y + height / 2);
            paint.colours.of(node).write(page, text, middle, paint.is_remote(node));
        }
    }
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

//! `locality --draw` in a terminal: a line of blocks for each node that a mapping is on.
//!
//! A line says its node in words, and the height of its blocks how much is there, so colours add nothing that is not
//! to be read without them.

use crate::captions::{
    about, bars_have, facts, name, notes, other, remote, shortened, sums, title,
};
use crate::units::size;
use numaloc_core::NodeId;
use numaloc_core::picture::{AreaRow, Cell, Panel, Picture};
use std::fmt::Write;

/// Characters beside the blocks of a line.
const BESIDE: usize = 26;
/// Fewest blocks in a line.
const LEAST: usize = 16;

/// The form of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    pub columns: usize,
    /// Whether lines are coloured by node.
    pub colours: bool,
}

impl Canvas {
    pub fn blocks(self) -> usize {
        self.columns.saturating_sub(BESIDE).max(LEAST)
    }
}

/// A picture in block characters.
pub fn map(picture: &Picture, canvas: Canvas) -> String {
    let mut text = String::new();
    for panel in &picture.panels {
        let side = &panel.before;
        let _ = writeln!(text, "{}", shortened(&title(panel), canvas.columns));
        let _ = writeln!(text, "{}{}", about(side.is_sampled()), sums(side, &panel.home));
        for row in &side.rows {
            write_row(&mut text, panel, row, picture, canvas);
        }
        if let Some(words) = other(&side.other) {
            let total = &side.other.cell;
            let nodes =
                total.nodes.iter().map(|(node, &bytes)| format!("node {node} {}", size(bytes)));
            let nodes = nodes.collect::<Vec<_>>().join(", ");
            let _ =
                writeln!(text, "\n  {words}, {} resident: {nodes}", size(total.resident_bytes()));
        }
        text += "\n";
    }
    text += "Left to right: addresses. Height: how much of them is resident on the node.\n";
    text += "All lines have the same length, regardless of the mapping's size. *: remote.\n";
    text += "Marks: h mostly huge pages, s mostly shared with other processes, b both.\n";
    text += &format!("{}\n", bars_have());
    notes(picture).iter().for_each(|note| text += &format!("{note}\n"));
    text
}

fn write_row(text: &mut String, panel: &Panel, row: &AreaRow, picture: &Picture, canvas: Canvas) {
    let total = row.total();
    let facts = format!("  {}", facts(row));
    let remote = remote(&total, &panel.home).map_or(String::new(), |remote| format!(", {remote}"));
    let width = canvas.columns.saturating_sub(facts.len() + remote.len() + 4).max(LEAST);
    let _ = writeln!(text, "\n  {}{facts}{remote}", name(row, width));
    let blocks = merged(row, canvas.blocks());
    let colours: Vec<NodeId> = picture.nodes().iter().collect();
    for (node, &bytes) in &total.nodes {
        let held = |cell: &Cell| cell.nodes.get(node).copied().unwrap_or(0);
        let line: String = blocks.iter().map(|(cell, range)| block(held(cell), *range)).collect();
        let number = colours.iter().position(|of| of == node).unwrap_or(0);
        let line = if canvas.colours { coloured(&line, number) } else { line };
        let amount = format!("{}{}", about(row.is_sampled()), size(bytes));
        let remote = if panel.home.contains(*node) { "" } else { "*" };
        let _ = writeln!(text, "    {:<8}|{line}| {amount}", format!("node {node}{remote}"));
    }
    let marks: String = blocks.iter().map(|(cell, _)| mark(cell)).collect();
    if !marks.trim().is_empty() {
        let _ = writeln!(text, "    {:<8}|{marks}|", "marks");
    }
}

/// A row in exactly `blocks` cells, each with the bytes of its addresses. A row with fewer cells shows each several
/// times.
fn merged(row: &AreaRow, blocks: usize) -> Vec<(Cell, u64)> {
    let count = row.cells.len();
    let merge = |block: usize| {
        let first = block * count / blocks;
        let end = ((block + 1) * count / blocks).max(first + 1);
        let mut sum = (Cell::default(), 0);
        for index in first..end {
            sum.0.add(&row.cells[index]);
            sum.1 += row.bytes_of(index);
        }
        sum
    };
    (0..blocks).map(merge).collect()
}

/// A block as high as `bytes` are of `range` bytes. A small share still has a line.
fn block(bytes: u64, range: u64) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = (u128::from(bytes) * 8).div_ceil(u128::from(range.max(1)));
    BLOCKS[(eighths as usize).min(8)]
}

fn mark(cell: &Cell) -> char {
    let resident = cell.resident_bytes();
    let is_most = |bytes: u64| bytes > 0 && bytes >= resident / 2;
    match (is_most(cell.huge_bytes), is_most(cell.shared_bytes)) {
        (true, true) => 'b',
        (true, false) => 'h',
        (false, true) => 's',
        (false, false) => ' ',
    }
}

/// The line in the colour of the picture's node number `node`.
fn coloured(line: &str, node: usize) -> String {
    const COLOURS: [u8; 6] = [34, 33, 32, 35, 36, 31];
    format!("\x1b[{}m{line}\x1b[0m", COLOURS[node % COLOURS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::pictures;

    fn written(picture: &Picture, columns: usize) -> String {
        map(picture, Canvas { columns, colours: false })
    }

    #[test]
    fn a_picture_in_blocks() {
        insta::assert_snapshot!(written(&pictures::mebibyte(54), 80));
    }

    #[test]
    fn a_tebibyte_in_blocks() {
        insta::assert_snapshot!(written(&pictures::tebibyte(54), 80));
    }

    #[test]
    fn lines_are_as_wide_as_the_terminal_at_most() {
        for columns in [40, 80, 300] {
            let canvas = Canvas { columns, colours: false };
            for picture in [pictures::tebibyte(canvas.blocks() as u64), pictures::tebibyte(7)] {
                for line in map(&picture, canvas).lines().filter(|line| line.contains('|')) {
                    let width = line.chars().count();
                    assert!(width <= columns.max(LEAST + BESIDE), "{columns}: {width}: {line}");
                }
            }
        }
    }

    #[test]
    fn colours_add_nothing_but_colour() {
        let picture = pictures::mebibyte(54);
        let coloured = map(&picture, Canvas { columns: 80, colours: true });
        assert!(coloured.contains("\x1b[34m") && coloured.contains("\x1b[33m"), "{coloured}");
        let mut plain = String::new();
        for part in coloured.split("\x1b[") {
            plain += if plain.is_empty() { part } else { part.split_once('m').unwrap().1 };
        }
        assert_eq!(plain, written(&picture, 80));
    }

    #[test]
    fn names_of_others_do_not_reach_the_terminal_as_they_are() {
        assert!(!written(&pictures::hostile(), 80).contains('\x1b'));
    }

    #[test]
    fn little_is_not_nothing_and_all_is_a_full_block() {
        assert_eq!([0, 1, 4096, 8192].map(|bytes| block(bytes, 8192)), [' ', '▁', '▄', '█']);
    }
}

//! Pictures as SVG: a panel a process, a bar a mapping, a column of it a cell.
//!
//! Everything is drawn on whole pixels, and equal neighbours are one rectangle, so that files are small.

mod bar;
mod style;

use crate::captions::{about, facts, name, notes, other, remote, sums, title};
use crate::units::size;
use bar::{Bar, Mark};
use numaloc_core::picture::{After, AreaRow, Cell, OtherAreas, Panel, Picture, Side};
use plotters::{coord::Shift, prelude::*};
use style::{Colours, Style};

/// Why a picture could not be drawn.
pub type DrawError = Box<dyn std::error::Error + Send + Sync>;

type DrawArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// How many cells a row is divided into.
pub const CELLS: u64 = 256;

/// All in pixels. Bars have three for each cell.
const WIDTH: i32 = MARGIN + LABELS + BARS + AMOUNTS;
const MARGIN: i32 = 16;
const LABELS: i32 = 232;
const BARS: i32 = 768;
const AMOUNTS: i32 = 104;
/// From the top to the first panel, without lines of nodes and notes.
const HEAD: i32 = 88;
const NOTE: i32 = 17;
/// Nodes in a line of the legend, and the width of each.
const NODES: usize = 12;
const NODE: i32 = 88;
/// From a panel's top to its first bar, and from its last bar to the next panel.
const TITLE: i32 = 46;
const GAP: i32 = 14;
/// A bar with the marks and the scale below it.
const BAR: i32 = 26;
const MARKS: i32 = 10;
const SCALE: i32 = 18;
const BETWEEN: i32 = 5;
/// The bar of all of a process, and of what is joined.
const SUM: i32 = 18;

/// Draws a picture.
///
/// # Errors
/// None that is known: it is drawn into memory.
pub fn svg(picture: &Picture) -> Result<String, DrawError> {
    let notes = notes(picture);
    let lines = picture.nodes().len().div_ceil(NODES) as i32;
    let head = HEAD + (NOTE + 3) * lines + NOTE * notes.len() as i32;
    let height = head + picture.panels.iter().map(panel_height).sum::<i32>() + GAP;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32));
        let root = root.into_drawing_area();
        root.fill(&WHITE)?;
        let colours = Colours::new(&picture.nodes());
        draw_head(&root, picture, &colours, &notes)?;
        let mut top = head;
        for panel in &picture.panels {
            draw_panel(&root, panel, &colours, top)?;
            top += panel_height(panel);
        }
        root.present()?;
    }
    Ok(text)
}

fn row_height(panel: &Panel) -> i32 {
    let sides = panel.sides().count() as i32;
    sides * (BAR + MARKS) + SCALE + BETWEEN
}

fn sum_height(panel: &Panel) -> i32 {
    panel.sides().count() as i32 * (SUM + 3) + 8
}

fn panel_height(panel: &Panel) -> i32 {
    let others = if panel.before.other.areas > 0 || panel.sides().any(|side| side.other.areas > 0) {
        1
    } else {
        0
    };
    TITLE
        + sum_height(panel) * (1 + others)
        + panel.before.rows.len() as i32 * row_height(panel)
        + GAP
}

fn draw_head(
    root: &DrawArea<'_>,
    picture: &Picture,
    colours: &Colours,
    notes: &[String],
) -> Result<(), DrawError> {
    let what = if picture.has_after() {
        "Where memory was before the move, and is after it"
    } else {
        "Where memory is"
    };
    Style::title().draw(root, what, (MARGIN, 24))?;
    let mut y = 44;
    let nodes: Vec<_> = picture.nodes().iter().collect();
    for line in nodes.chunks(NODES) {
        for (index, node) in line.iter().enumerate() {
            let x = MARGIN + index as i32 * NODE;
            colours.of(*node).fill(root, (x, y), (x + 14, y + 14))?;
            Style::small().draw(root, &format!("node {node}"), (x + 19, y + 7))?;
        }
        y += NOTE + 3;
    }
    let mut x = MARGIN;
    for (words, mark) in [("huge pages", Mark::Huge), ("shared with other processes", Mark::Shared)]
    {
        mark.draw(root, (x, y + 6), x + 22)?;
        Style::small().draw(root, words, (x + 28, y + 7))?;
        x += 48 + style::width(words, 14);
    }
    style::fill(root, style::EMPTY, (x, y), (x + 14, y + 14))?;
    Style::small().draw(root, "not resident", (x + 19, y + 7))?;
    y += NOTE + 8;
    let how = "A bar is a mapping, its addresses from left to right. Heights say how much of a column's addresses is resident, by node.";
    Style::small().draw(root, how, (MARGIN, y))?;
    for (line, note) in notes.iter().enumerate() {
        Style::small().draw(root, note, (MARGIN, y + NOTE * (line as i32 + 1)))?;
    }
    Ok(())
}

fn draw_panel(
    root: &DrawArea<'_>,
    panel: &Panel,
    colours: &Colours,
    top: i32,
) -> Result<(), DrawError> {
    style::fill(root, style::RULE, (MARGIN, top), (WIDTH - MARGIN, top + 1))?;
    Style::bold().draw(
        root,
        &style::fitting(&title(panel), 19, WIDTH - 2 * MARGIN),
        (MARGIN, top + 16),
    )?;
    let sums: Vec<String> = panel
        .sides()
        .map(|side| format!("{}{}", about(side.is_sampled()), sums(side, &panel.home)))
        .collect();
    let mut words = sums.join("; afterwards ");
    if panel.after == After::Ended {
        words += "; it ended before a second look";
    }
    Style::small().draw(root, &words, (MARGIN, top + 34))?;
    let mut y = top + TITLE;
    draw_sums(root, panel, colours, y, "all", |side| (side.total(), side.is_sampled()))?;
    y += sum_height(panel);
    for index in 0..panel.before.rows.len() {
        draw_row(root, panel, colours, (index, y))?;
        y += row_height(panel);
    }
    let most = panel.sides().map(|side| &side.other).max_by_key(|other| other.areas);
    if let Some(words) = most.and_then(other) {
        let cell = |side: &Side| (side.other.cell.clone(), is_sampled(&side.other));
        draw_sums(root, panel, colours, y, &words, cell)?;
    }
    Ok(())
}

fn is_sampled(other: &OtherAreas) -> bool {
    other.looked_bytes < other.range_bytes
}

/// A bar for each side that shows shares of nodes from left to right.
fn draw_sums(
    root: &DrawArea<'_>,
    panel: &Panel,
    colours: &Colours,
    top: i32,
    words: &str,
    cell: impl Fn(&Side) -> (Cell, bool),
) -> Result<(), DrawError> {
    Style::label().draw(root, words, (MARGIN, top + SUM / 2))?;
    for (index, side) in panel.sides().enumerate() {
        let y = top + index as i32 * (SUM + 3);
        let (cell, sampled) = cell(side);
        bar::shares(root, &cell, colours, (MARGIN + LABELS, y), (BARS, SUM))?;
        moment(root, panel, index, y + SUM / 2)?;
        amounts(root, &cell, panel, sampled, y + SUM / 2, false)?;
    }
    Ok(())
}

fn draw_row(
    root: &DrawArea<'_>,
    panel: &Panel,
    colours: &Colours,
    (index, top): (usize, i32),
) -> Result<(), DrawError> {
    let rows: Vec<&AreaRow> = panel.sides().map(|side| &side.rows[index]).collect();
    let row = rows[0];
    let room = LABELS - if rows.len() > 1 { 52 } else { 12 };
    let label = name(row, style::characters(15, room));
    Style::label().draw(root, &label, (MARGIN, top + 8))?;
    let facts = facts(row);
    let facts = style::fitting(&facts, 13, room);
    Style::faint().draw(root, &facts, (MARGIN, top + 23))?;
    for (index, row) in rows.iter().enumerate() {
        let y = top + index as i32 * (BAR + MARKS);
        Bar { row, at: (MARGIN + LABELS, y), size: (BARS, BAR) }.draw(root, colours)?;
        moment(root, panel, index, y + BAR / 2)?;
        amounts(root, &row.total(), panel, row.is_sampled(), y + BAR / 2, true)?;
    }
    scale(root, row, top + rows.len() as i32 * (BAR + MARKS))
}

/// `before` or `after`, if there are both.
fn moment(root: &DrawArea<'_>, panel: &Panel, side: usize, y: i32) -> Result<(), DrawError> {
    match (panel.sides().count() > 1, side) {
        (false, _) => Ok(()),
        (true, 0) => Style::faint().right().draw(root, "before", (MARGIN + LABELS - 6, y)),
        (true, _) => Style::faint().right().draw(root, "after", (MARGIN + LABELS - 6, y)),
    }
}

/// How much is resident, and how much of it is remote, on two lines or one.
fn amounts(
    root: &DrawArea<'_>,
    cell: &Cell,
    panel: &Panel,
    sampled: bool,
    y: i32,
    two: bool,
) -> Result<(), DrawError> {
    let x = MARGIN + LABELS + BARS + 8;
    let bytes = format!("{}{}", about(sampled), size(cell.resident_bytes()));
    Style::small().draw(root, &bytes, (x, if two { y - 7 } else { y }))?;
    match remote(cell, &panel.home).filter(|_| two) {
        Some(remote) => Style::faint().draw(root, &remote, (x, y + 8)),
        None => Ok(()),
    }
}

/// Ticks below a bar, with their distance from its first address.
fn scale(root: &DrawArea<'_>, row: &AreaRow, y: i32) -> Result<(), DrawError> {
    const PARTS: i32 = 4;
    for part in 0..=PARTS {
        let x = MARGIN + LABELS + BARS * part / PARTS;
        style::fill(
            root,
            style::TICK,
            (x.min(MARGIN + LABELS + BARS - 1), y),
            (x.min(MARGIN + LABELS + BARS - 1) + 1, y + 4),
        )?;
        let bytes = (u128::from(row.area.bytes()) * part as u128 / PARTS as u128) as u64;
        let words = if part == 0 { "0".to_owned() } else { format!("+{}", size(bytes)) };
        let style = match part {
            0 => Style::scale(),
            PARTS => Style::scale().right(),
            _ => Style::scale().middle(),
        };
        style.draw(root, &words, (x, y + 10))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

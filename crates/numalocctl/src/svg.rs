//! Pictures as SVG: a panel a process, a bar a mapping, a column of it a cell.
//!
//! Everything is drawn on whole pixels, and what looks the same within a bar is one shape, so that files are small.
//! Colours differ by node; a hatch marks remote memory; numbers and words repeat all of it.

mod bar;
mod page;
mod scale;
mod style;

use crate::captions::{
    Origin, about, amounts, bars_have, name, notes, other, place, remote, sums, title,
};
use crate::units::size;
use bar::{Bar, Mark, Paint};
use numaloc_core::{
    NodeSet,
    picture::{After, AreaRow, Cell, OtherAreas, Panel, Picture, Side},
};
use page::{Anchor, Page, Shape, WIDTH, fitting, width, wrapped};
use style::Colours;

/// The number of cells in a row.
pub const CELLS: u64 = 256;

/// All in pixels. Bars have three for each cell, and begin where the words beside them end.
const MARGIN: i32 = 12;
const LEFT: i32 = MARGIN + 38;
const BARS: i32 = 768;
const ROOM: i32 = WIDTH - 2 * MARGIN;
/// Height of a line of text.
const LINE: i32 = 16;
/// From a panel's top to what is below its title, and from its last bar to the next panel.
const TITLE: i32 = 28;
const GAP: i32 = 12;
/// A bar with the marks and the words below it.
const BAR: i32 = 24;
const MARKS: i32 = 8;
/// Height of the bar for a whole process, and for joined rows.
const SUM: i32 = 18;
const SCALE: i32 = 18;

const HOW: &str = "A bar is a mapping, with its addresses from left to right. All bars are equally long: the scale below a bar says how \
    many addresses it has, and the words below it its share of the process's resident memory. The height says how much of a column's \
    addresses is resident.";

/// Draws a picture, with its origin.
pub fn svg(picture: &Picture, origin: &Origin) -> String {
    let colours = Colours::new(&picture.nodes());
    let mut page = Page::new();
    let mut y = draw_head(&mut page, picture, origin, &colours);
    for panel in &picture.panels {
        y = draw_panel(&mut page, panel, &colours, y);
    }
    let panels =
        picture.panels.iter().map(|panel| format!("{}: {}.", title(panel), summary(panel)));
    let description: Vec<String> = panels.chain(notes(picture)).collect();
    let is_remote = |node| picture.panels.iter().any(|panel| !panel.home.contains(node));
    let patterns = colours.patterns(is_remote);
    page.file(y + GAP, &heading(picture, origin), &description.join(" "), &patterns)
}

/// The name of the whole file.
fn heading(picture: &Picture, origin: &Origin) -> String {
    let who = match &picture.panels[..] {
        [panel] => format!("{} {}", panel.pid, panel.comm),
        panels => format!("{} processes", panels.len() as u64 + picture.left_out),
    };
    format!("NUMA nodes of the memory of {who}: {}", origin.words())
}

fn what(picture: &Picture) -> &'static str {
    match picture.has_after() {
        true => "Where memory was before the move, and is after it",
        false => "Where memory is",
    }
}

/// The title, where the picture is from, and the legend. Returns the height that they take.
fn draw_head(page: &mut Page, picture: &Picture, origin: &Origin, colours: &Colours) -> i32 {
    page.text("title", what(picture), (MARGIN, 26), Anchor::Begins);
    let mut y = 46;
    let command = wrapped(&origin.program(), 12, ROOM);
    for line in [fitting(&origin.place(), 12, ROOM)].into_iter().chain(command) {
        page.text("faint", &line, (MARGIN, y), Anchor::Begins);
        y += LINE;
    }
    y = legend(page, picture, colours, y - 6) + LINE;
    for words in [HOW.to_owned(), bars_have()].into_iter().chain(notes(picture)) {
        for line in wrapped(&words, 12, ROOM) {
            page.text("faint", &line, (MARGIN, y), Anchor::Begins);
            y += LINE;
        }
    }
    y
}

/// The nodes that are home to all processes of a picture; none if they differ.
fn common_home(picture: &Picture) -> Option<&NodeSet> {
    let (first, others) = picture.panels.split_first()?;
    others.iter().all(|panel| panel.home == first.home).then_some(&first.home)
}

/// Samples with their meanings, in as few lines as possible. Returns where they end.
fn legend(page: &mut Page, picture: &Picture, colours: &Colours, top: i32) -> i32 {
    let home = common_home(picture);
    let (mut x, mut y) = (MARGIN, top);
    let mut place = |page: &mut Page, words: &str, draw: &dyn Fn(&mut Page, (i32, i32))| {
        let wide = 26 + width(words, 12) + 14;
        if x > MARGIN && x + wide > WIDTH {
            (x, y) = (MARGIN, y + LINE + 4);
        }
        draw(page, (x, y));
        page.text("", words, (x + 26, y + 11), Anchor::Begins);
        x += wide;
        y
    };
    for node in picture.nodes().iter() {
        let is_home = home.is_some_and(|home| home.contains(node));
        let words = format!("node {node}{}", if is_home { ", home" } else { "" });
        let is_remote = home.is_some_and(|home| !home.contains(node));
        let draw = |page: &mut Page, at| page.rect(colours.of(node).paint(is_remote), at, (20, 14));
        place(page, &words, &draw);
    }
    let hatched = |page: &mut Page, (x, y)| {
        page.rect("class=\"empty\"", (x, y), (20, 14));
        let lines =
            format!("M{x} {}l6-6M{} {}l12-12M{} {}l6-6", y + 7, x + 1, y + 14, x + 12, y + 14);
        page.stroke("mark", &lines);
    };
    place(page, "hatched: remote, not on a home node of the process", &hatched);
    for (words, mark) in
        [("in huge pages", Mark::Huge), ("also mapped by other processes", Mark::Shared)]
    {
        let draw = |page: &mut Page, (x, y): (i32, i32)| {
            let mut shape = Shape::default();
            mark.add(&mut shape, (x, y + 6), x + 20);
            page.shape("class=\"mark\"", &shape);
        };
        place(page, words, &draw);
    }
    let empty = |page: &mut Page, at| page.rect("class=\"empty\"", at, (20, 14));
    place(page, "not resident", &empty) + 14
}

/// The sums of a panel in words, before and after.
fn summary(panel: &Panel) -> String {
    let sums = panel.sides().map(|side| side_words(side, &panel.home));
    let words = sums.collect::<Vec<_>>().join("; afterwards ");
    let ended = if panel.after == After::Ended { "; it ended before the second scan" } else { "" };
    words + ended
}

fn side_words(side: &Side, home: &NodeSet) -> String {
    format!("{}{}", about(side.is_sampled()), sums(side, home))
}

/// Draws a process. Returns where it ends.
fn draw_panel(page: &mut Page, panel: &Panel, colours: &Colours, top: i32) -> i32 {
    let paint = Paint { colours, home: &panel.home };
    page.rect("class=\"rule\"", (MARGIN, top), (ROOM, 1));
    let name = fitting(&title(panel), 15, ROOM);
    page.text("name", &name, (MARGIN, top + 21), Anchor::Begins);
    let mut y = top + TITLE;
    let all: Vec<_> =
        panel.sides().map(|side| (side.total(), side_words(side, &panel.home))).collect();
    y = draw_sums(page, panel, paint, y, &all);
    if panel.after == After::Ended {
        page.text("faint", "it ended before the second scan", (LEFT, y + 10), Anchor::Begins);
        y += LINE;
    }
    y += GAP;
    for index in 0..panel.before.rows.len() {
        y = draw_row(page, panel, paint, index, y);
    }
    let most = panel.sides().map(|side| &side.other).max_by_key(|other| other.areas);
    if let Some(words) = most.and_then(other) {
        page.text("row", &words, (MARGIN, y + 12), Anchor::Begins);
        let sides = panel.sides().map(|side| &side.other);
        let words = |other: &OtherAreas| held(&other.cell, panel, is_sampled(other));
        let sums: Vec<_> = sides.map(|other| (other.cell.clone(), words(other))).collect();
        y = draw_sums(page, panel, paint, y + LINE + 4, &sums) + GAP;
    }
    y
}

fn is_sampled(other: &OtherAreas) -> bool {
    other.looked_bytes < other.range_bytes
}

/// A bar for each side that shows shares of nodes from left to right, with words below it. Returns where they end.
fn draw_sums(
    page: &mut Page,
    panel: &Panel,
    paint: Paint<'_>,
    top: i32,
    sums: &[(Cell, String)],
) -> i32 {
    let mut y = top;
    for (index, (cell, words)) in sums.iter().enumerate() {
        page.group(&amounts(cell, &panel.home), |page| {
            bar::shares(page, cell, paint, (LEFT, y), (BARS, SUM));
        });
        moment(page, panel, index, y + SUM / 2);
        for line in wrapped(words, 12, BARS) {
            page.text("", &line, (LEFT, y + SUM + 14), Anchor::Begins);
            y += LINE;
        }
        y += SUM + 4;
    }
    y
}

/// Draws a mapping. Returns where it ends.
fn draw_row(page: &mut Page, panel: &Panel, paint: Paint<'_>, index: usize, top: i32) -> i32 {
    let rows: Vec<&AreaRow> = panel.sides().map(|side| &side.rows[index]).collect();
    let row = rows[0];
    let mut y = top + 12;
    let place = place(row);
    let left = ROOM - width(&place, 12) - 12;
    let name = name(row, usize::MAX);
    page.text("row", &fitting(&name, 13, ROOM), (MARGIN, y), Anchor::Begins);
    match width(&name, 13) > left {
        true => {
            y += LINE;
            page.text("faint", &place, (MARGIN, y), Anchor::Begins);
        }
        false => page.text("faint", &place, (WIDTH - MARGIN, y), Anchor::Ends),
    }
    y += 6;
    for (index, (row, side)) in rows.iter().zip(panel.sides()).enumerate() {
        let cell = row.total();
        page.group(&amounts(&cell, &panel.home), |page| {
            Bar { row, at: (LEFT, y), size: (BARS, BAR) }.draw(page, paint);
        });
        moment(page, panel, index, y + BAR / 2);
        y += BAR + MARKS;
        if index + 1 == rows.len() {
            scale(page, row, y);
            y += SCALE;
        }
        let held = held(&cell, panel, row.is_sampled());
        let held = format!("{held}, {} of the process", share(&cell, side));
        page.text("", &held, (LEFT + BARS, y + 12), Anchor::Ends);
        let by_node = fitting_list(&amounts(&cell, &panel.home), BARS - width(&held, 12) - 16);
        page.text("", &by_node, (LEFT, y + 12), Anchor::Begins);
        y += LINE + 4;
    }
    y + GAP
}

/// The parts of a list that have room, and the number of others.
fn fitting_list(list: &str, room: i32) -> String {
    let parts: Vec<&str> = list.split(", ").collect();
    let shown = |count: usize| match parts.len() - count {
        0 => list.to_owned(),
        more => format!("{}, and {more} more", parts[..count].join(", ")),
    };
    let fits = (1..=parts.len()).rev().map(shown).find(|text| width(text, 12) <= room);
    fits.unwrap_or_else(|| format!("{} nodes", parts.len()))
}

/// A mapping's share of its process's resident memory: `75 %`.
fn share(cell: &Cell, side: &Side) -> String {
    let (part, all) = (cell.resident_bytes(), side.total().resident_bytes().max(1));
    match u128::from(part) * 100 / u128::from(all) {
        0 => "less than 1 %".to_owned(),
        percent => format!("{percent} %"),
    }
}

/// `~4.0 GiB resident, 50.0 % remote`.
fn held(cell: &Cell, panel: &Panel, sampled: bool) -> String {
    let remote = remote(cell, &panel.home).map(|remote| format!(", {remote}"));
    let bytes = size(cell.resident_bytes());
    format!("{}{bytes} resident{}", about(sampled), remote.unwrap_or_default())
}

/// `before` or `after`, if there are both.
fn moment(page: &mut Page, panel: &Panel, side: usize, middle: i32) {
    let words = if side == 0 { "before" } else { "after" };
    if panel.sides().count() > 1 {
        page.text("faint", words, (LEFT - 4, middle + 4), Anchor::Ends);
    }
}

/// Ticks below a bar, with their distance from its first address.
fn scale(page: &mut Page, row: &AreaRow, y: i32) {
    let bytes = row.area.bytes().max(1);
    let mut shape = Shape::default();
    for (at, words) in scale::ticks(bytes) {
        let x = LEFT + (u128::from(at) * BARS as u128 / u128::from(bytes)) as i32;
        shape.add((x.min(LEFT + BARS - 1), y), (x.min(LEFT + BARS - 1) + 1, y + 4));
        // Words at the ends must not reach beyond the bar.
        let half = width(&words, 12) / 2;
        let anchor = match at {
            0 => Anchor::Begins,
            _ if x + half > LEFT + BARS => Anchor::Ends,
            _ => Anchor::Middle,
        };
        page.text("faint", &words, (x, y + 14), anchor);
    }
    page.shape("class=\"mark\"", &shape);
}

#[cfg(test)]
mod tests;

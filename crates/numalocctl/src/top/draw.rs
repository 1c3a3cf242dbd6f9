//! The picture of the view: a state and a document, drawn into a buffer. Pure.

mod below;
mod detail;
mod fit;
mod popup;

use super::state::{Popup, Spots, TopState};
use crate::{
    clean::clean,
    columns::{Column, NodeColumn, ShownColumn, screen_columns},
    doc::{DetailDoc, TopDoc, TopNodeDoc, TopRowDoc},
    fields::short,
    text,
    top::rows::List,
    units::size,
    wrap::wrapped,
};
use fit::{Content, fit};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::{Color, Modifier, Style},
};

/// The input of a frame of the view.
#[derive(Clone, Copy, Debug)]
pub struct DrawInput<'a> {
    pub document: &'a TopDoc,
    /// The rows that are listed.
    pub rows: &'a [&'a TopRowDoc],
    /// The process that is opened, once it has been read.
    pub detail: Option<&'a DetailDoc>,
}

/// A line of the picture.
fn write(buffer: &mut Buffer, area: Rect, y: u16, text: &str, style: Style) {
    if y < area.bottom() {
        buffer.set_stringn(area.x, y, clean(text), usize::from(area.width), style);
    }
}

/// A line whose background is marked to its end.
fn bar(buffer: &mut Buffer, area: Rect, y: u16, text: &str) {
    if y < area.bottom() {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        buffer.set_style(Rect { y, height: 1, ..area }, style);
        write(buffer, area, y, text, style);
    }
}

/// Draws all of it. Returns where things are, for the mouse.
pub fn draw(buffer: &mut Buffer, state: &TopState, scene: DrawInput<'_>) -> Spots {
    let area = buffer.area;
    let mut y = area.y;
    write(buffer, area, y, &title(state, scene.document, usize::from(area.width)), bold());
    y = nodes(buffer, area, y + 1, scene.document, marks(state));
    let told = told(state, scene.document, area);
    let below = u16::try_from(told.len() + 1).unwrap_or(u16::MAX);
    let rest = Rect { y, height: area.bottom().saturating_sub(y.saturating_add(below)), ..area };
    let mut spots = match (&state.opened, scene.detail) {
        (Some(opened), detail) => {
            let scroll = detail::draw(buffer, rest, state, opened, detail);
            Spots { scroll, ..Spots::default() }
        }
        (None, _) => list(buffer, rest, state, scene),
    };
    footer(buffer, area, &told);
    match state.popup {
        Popup::None => {}
        Popup::Help => spots.scroll = popup::help(buffer, area, state),
        Popup::Columns(at) => popup::columns(buffer, area, &spots, at),
        Popup::Migration => spots.scroll = popup::migration(buffer, area, state),
    }
    spots
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The parts of the title that have room, the more important ones first.
fn title(state: &TopState, document: &TopDoc, width: usize) -> String {
    let time = document.time.map(short).unwrap_or_default().replace('T', " ");
    let order = if state.sort.reverse { "-" } else { "" };
    let parts = [
        "numalocctl top".to_owned(),
        state.host.chars().take(width / 4).collect(),
        time,
        document.source.name().to_owned(),
        format!("by {order}{}", state.sort.column.name()),
        document.traffic.map(text::traffic).unwrap_or_default(),
        format!("scan {:.1} % CPU", document.cpu_used_percent),
        format!("{} processes", document.processes.len()),
    ];
    fitting(parts.into_iter().filter(|part| !part.is_empty()), width)
}

/// From this width on, nodes have bars.
const WIDE: u16 = 120;

/// The used memory of a node, its cache that the kernel would drop, and its free memory, in `room` characters.
fn node_bar(
    node: &TopNodeDoc,
    room: usize,
    [used_mark, cache_mark, free_mark]: [&str; 3],
) -> String {
    let cells = room.saturating_sub(2);
    let part = |bytes: u64| {
        let exact = u128::from(bytes) * cells as u128 / u128::from(node.total_bytes.max(1));
        usize::try_from(exact).unwrap_or(cells).min(cells)
    };
    let free = part(node.free_bytes);
    let cache = part(node.reclaimable_bytes).min(cells - free);
    let used = cells - free - cache;
    format!("[{}{}{}]", used_mark.repeat(used), cache_mark.repeat(cache), free_mark.repeat(free))
}

/// The characters for used memory, cache and free memory.
fn marks(state: &TopState) -> [&'static str; 3] {
    if state.has_blocks { ["█", "▒", "·"] } else { ["#", "=", "."] }
}

/// A line for each node, on a third of the screen at most. Returns the line after them.
fn nodes(
    buffer: &mut Buffer,
    area: Rect,
    y: u16,
    document: &TopDoc,
    marks: [&'static str; 3],
) -> u16 {
    let mut left = usize::from(area.width).saturating_sub(1);
    let columns = screen_columns(&document.nodes).into_iter();
    let (last, first): (Vec<&NodeColumn>, Vec<_>) = columns.partition(|column| column.is_last);
    let shown = first.into_iter().chain(last).take_while(|column| {
        let fits = left > column.width;
        left = left.saturating_sub(column.width + 1);
        fits
    });
    let shown: Vec<&NodeColumn> = shown.collect();
    let line = |cell: &dyn Fn(&NodeColumn) -> String| {
        let cells =
            shown.iter().map(|column| format!("{:>width$}", cell(column), width = column.width));
        format!(" {}", cells.collect::<Vec<_>>().join(" "))
    };
    // The rest of a wide line shows the same sizes as a bar.
    let room = left.saturating_sub(2).min(100);
    let has_bars = area.width >= WIDE;
    let header = line(&|column| column.name.to_owned());
    let [used, cache, free] = marks;
    let legend = format!("  {used} used  {cache} cache  {free} free");
    let legend = if has_bars { &legend[..] } else { "" };
    bar(buffer, area, y, &format!("{header}{legend}"));
    let most = usize::from((area.height / 3).max(2));
    let is_cut = document.nodes.len() > most;
    let count = if is_cut { most - 1 } else { document.nodes.len() };
    let mut y = y + 1;
    for node in document.nodes.iter().take(count) {
        let line = line(&|column| (column.cell)(node));
        let bar =
            if has_bars { format!("  {}", node_bar(node, room, marks)) } else { String::new() };
        write(buffer, area, y, &format!("{line}{bar}"), Style::new());
        y += 1;
    }
    if is_cut {
        let more = document.nodes.len() - count;
        write(buffer, area, y, &format!(" and {more} more nodes: -b shows all"), Style::new());
        y += 1;
    }
    y
}

/// The list with its number of rows and their remote memory: what has not been read yet is not in the sum.
fn heading(state: &TopState, rows: &[&TopRowDoc], document: &TopDoc) -> String {
    let count = rows.len();
    let remote = size(rows.iter().filter_map(|row| row.remote_bytes).sum::<u64>());
    let remote = match document.unseen_count {
        0 => format!("remote: {remote}"),
        unseen => format!("remote: at least {remote}, not read yet: {unseen}"),
    };
    let what = match &state.list {
        List::Workloads => format!("workloads: {count}"),
        List::Processes => format!("processes: {count}"),
        List::Within(cgroup) => {
            let workload =
                document.workloads.iter().find(|row| row.cgroup.as_ref() == Some(cgroup));
            let name = workload.map_or(cgroup.as_str(), TopRowDoc::name);
            format!("processes of {name}: {count}")
        }
    };
    match (state.is_editing, state.filter.is_empty()) {
        (true, _) => format!("{what}  filter: {}_", state.filter),
        (false, true) => format!("{what}  {remote}"),
        (false, false) => format!("{what}  filter: {}  {remote}", state.filter),
    }
}

fn list(buffer: &mut Buffer, area: Rect, state: &TopState, scene: DrawInput<'_>) -> Spots {
    let rows = scene.rows;
    write(buffer, area, area.y, &heading(state, rows, scene.document), bold());
    let header = area.y + 1;
    let height = area.bottom().saturating_sub(header + 1);
    let first = first_line(state, rows.len(), usize::from(height));
    let under = Rect { y: header, height: area.bottom().saturating_sub(header), ..area };
    let slots = table(buffer, under, state, (rows, first), scene.document, Some(state.line));
    let used = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX).min(under.height);
    let room = Rect { y: under.y + used, height: under.height - used, ..area };
    let mut height = height;
    if below::has_room(buffer, room) {
        below::draw(buffer, room, state, scene);
        height = used - 1;
    }
    if rows.is_empty() {
        write(buffer, area, header + 1, &nothing(state, scene.document), Style::new());
    }
    Spots { header, slots, rows: (header + 1, height), first, scroll: 0 }
}

/// Columns and rows from the `first` one on. Returns the places of the columns.
fn table(
    buffer: &mut Buffer,
    area: Rect,
    state: &TopState,
    (rows, first): (&[&TopRowDoc], usize),
    document: &TopDoc,
    selected: Option<usize>,
) -> Vec<(ShownColumn, u16, u16)> {
    let header = area.y;
    let nodes: Vec<u32> = document.nodes.iter().map(|node| node.node).collect();
    let columns = fit(state, &nodes, usize::from(area.width).saturating_sub(1), &content(rows));
    bar(buffer, area, header, "");
    let style = Style::new().add_modifier(Modifier::REVERSED);
    let sorted = |slot: ShownColumn| slot.column() == state.sort.column;
    for &(slot, x, width) in &columns {
        let style = if sorted(slot) { style.add_modifier(Modifier::BOLD) } else { style };
        cell(buffer, (area.x + x, header), width, slot, &slot.header(), style);
    }
    // The room beside the columns shows the same shares as bars.
    let end = columns.last().map_or(0, |&(_, x, width)| x + width + 2);
    let room = area.width.saturating_sub(end).min(BAR_MOST);
    let has_bars = room >= BAR_LEAST;
    if has_bars && header < area.bottom() {
        let text = "WHERE, by node";
        buffer.set_stringn(area.x + end, header, text, usize::from(room), style);
    }
    let top = header + 1;
    for (y, row) in (top..area.bottom()).zip(rows.iter().skip(first)) {
        let is_selected = Some(first + usize::from(y - top)) == selected;
        let style = if is_selected { bold() } else { Style::new() };
        if is_selected {
            write(buffer, area, y, ">", style);
        }
        for &(slot, x, width) in &columns {
            let style = style.patch(colour(state, row, slot));
            cell(buffer, (area.x + x, y), width, slot, &slot.value(row).text(), style);
        }
        if has_bars {
            row_bar(buffer, state, row, (area.x + end, y), usize::from(room));
        }
    }
    let slots = columns.iter().map(|&(slot, x, width)| (slot, area.x + x, area.x + x + width));
    slots.collect()
}

/// Least and most cells of a row's bar.
const BAR_LEAST: u16 = 16;
const BAR_MOST: u16 = 60;

/// The places of a row's memory, in `room` cells: each has the last digit of a node, and remote ones are inverted.
fn row_bar(buffer: &mut Buffer, state: &TopState, row: &TopRowDoc, at: (u16, u16), room: usize) {
    let all: u64 = row.by_node.iter().map(|node| node.bytes).sum();
    let cells = |bytes: u64| {
        let exact = u128::from(bytes) * room as u128 / u128::from(all.max(1));
        usize::try_from(exact).unwrap_or(room)
    };
    let (mut x, mut sum) = (0, 0);
    for node in &row.by_node {
        sum += node.bytes;
        let end = cells(sum).min(room);
        let remote = !row.home_nodes.is_empty() && !row.home_nodes.contains(&node.node);
        let style = match (remote, state.has_colour) {
            (true, true) if row.near_nodes.contains(&node.node) => {
                Style::new().fg(Color::Yellow).add_modifier(Modifier::REVERSED)
            }
            (true, true) => Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED),
            (true, false) => Style::new().add_modifier(Modifier::REVERSED),
            (false, _) => Style::new(),
        };
        let digits = (node.node % 10).to_string().repeat(end - x);
        let from = u16::try_from(x).unwrap_or(u16::MAX);
        buffer.set_stringn(at.0.saturating_add(from), at.1, digits, end - x, style);
        x = end;
    }
}

/// The room that the rows need.
fn content(rows: &[&TopRowDoc]) -> Content {
    let longest = |column: Column| {
        let lengths = rows.iter().map(|row| column.value(row).text().chars().count());
        lengths.max().unwrap_or(0)
    };
    let is_empty = |column: &Column| {
        let has_something = |row: &&TopRowDoc| column.value(row).is_something();
        column.description().is_optional && !rows.iter().any(has_something)
    };
    let empty = Column::ALL.into_iter().filter(is_empty).collect();
    Content { longest: longest(Column::Name), job: longest(Column::Job), empty }
}

/// The reason why there are no rows.
fn nothing(state: &TopState, document: &TopDoc) -> String {
    match (state.filter.is_empty(), document.unseen_count) {
        (false, _) => format!(" nothing matches '{}': Esc takes the filter away", state.filter),
        (true, 0) => " nothing to show".to_owned(),
        (true, _) => " not read yet".to_owned(),
    }
}

/// The first row on the screen: as far down as the selected one asks for.
fn first_line(state: &TopState, count: usize, height: usize) -> usize {
    let height = height.max(1);
    let last = count.saturating_sub(height);
    let before = state.spots.first.min(last);
    before.clamp((state.line + 1).saturating_sub(height).min(last), state.line.min(last))
}

/// Words begin at the left, numbers end at the right. A text that does not fit is cut: a path at the beginning, which
/// many have in common.
fn cell(
    buffer: &mut Buffer,
    (x, y): (u16, u16),
    width: u16,
    slot: ShownColumn,
    text: &str,
    style: Style,
) {
    if !buffer.area.contains(Position { x, y }) {
        return;
    }
    let (width, length) = (usize::from(width), text.chars().count());
    let shown = match slot {
        ShownColumn::One(Column::Name) if length > width && text.starts_with('/') => {
            fit::path(text, width)
        }
        _ if slot.has_words() => text.to_owned(),
        // A number that is cut must not look like another one.
        _ if length > width => text.chars().take(width.saturating_sub(1)).chain(['+']).collect(),
        _ => format!("{text:>width$}"),
    };
    buffer.set_stringn(x, y, shown, width, style);
}

/// A share of local memory below 90 % is yellow, one below 50 % is red and bold. The number says the same.
fn colour(state: &TopState, row: &TopRowDoc, slot: ShownColumn) -> Style {
    let by_share = |percent: f64| match percent {
        p if p < 50.0 => bold().fg(Color::Red),
        p if p < 90.0 => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    match (slot, row.local_percent) {
        (ShownColumn::One(Column::Share | Column::Remote), Some(percent)) if state.has_colour => {
            by_share(percent)
        }
        (ShownColumn::One(Column::Share | Column::Remote), Some(percent)) if percent < 50.0 => {
            bold()
        }
        (ShownColumn::One(Column::Job), _) if state.has_colour => Style::new().fg(Color::Cyan),
        _ => Style::new(),
    }
}

const KEYS: [&str; 8] = [
    "? help",
    "p processes",
    "Enter open",
    "m migrate",
    "/ filter",
    "<> sort",
    "c columns",
    "q quit",
];

/// Parts of a line that have room side by side, the first ones first.
fn fitting(parts: impl IntoIterator<Item = impl AsRef<str>>, width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let (part, gap) = (part.as_ref(), if line.is_empty() { "" } else { "  " });
        if line.chars().count() + gap.len() + part.chars().count() > width && !line.is_empty() {
            break;
        }
        line += gap;
        line += part;
    }
    line
}

/// Missing information and messages, in at most four lines, and a quarter of the screen.
fn told(state: &TopState, document: &TopDoc, area: Rect) -> Vec<String> {
    let missing = text::missing(document);
    let told = state.message.as_deref().or(state.trouble.as_deref()).map(str::to_owned);
    let told = told.unwrap_or_else(|| missing.lines().collect::<Vec<_>>().join("; "));
    let running = popup::progress_line(state).unwrap_or_default();
    let parts: Vec<&str> =
        [running.as_str(), &told].into_iter().filter(|part| !part.is_empty()).collect();
    let width = usize::from(area.width).saturating_sub(1);
    let mut lines = wrapped(&parts.join("; "), width);
    lines.truncate(usize::from(area.height / 4).clamp(1, 4));
    // The list must not move when there is no message.
    lines.resize(lines.len().max(1), String::new());
    lines
}

/// The message, and the keys.
fn footer(buffer: &mut Buffer, area: Rect, told: &[String]) {
    let lines = u16::try_from(told.len() + 1).unwrap_or(u16::MAX);
    let Some(top) = area.bottom().checked_sub(lines) else { return };
    for (y, line) in (top..).zip(told) {
        write(buffer, area, y, &format!(" {line}"), Style::new());
    }
    bar(buffer, area, area.bottom() - 1, &fitting(KEYS, usize::from(area.width)));
}

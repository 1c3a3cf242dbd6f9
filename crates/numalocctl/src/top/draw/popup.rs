//! What lies over the lists: the help, the columns, and a migration.

use super::{bold, write};
use crate::{
    columns::{Column, ShownColumn},
    top::state::{Spots, Stage, TopState},
    units::size,
};
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

const KEYS: [(&str, &str); 15] = [
    ("Up Down j k", "select a row; also PgUp, PgDn, Home, End and the wheel"),
    ("Enter", "workload: its processes; process: its threads and mappings"),
    ("Esc", "back; takes the filter away"),
    ("p", "processes, or workloads (cgroups)"),
    ("/", "filter by name, cgroup or pid; Enter ends it"),
    ("< >", "sort by the column to the left or right; also a click on it"),
    ("r", "reverse the order"),
    ("c", "choose columns"),
    ("m", "plan a migration of the selected row, ask, and carry it out"),
    ("q Ctrl-C", "quit; a migration without the daemon is ended"),
    ("?", "this help"),
    ("", ""),
    ("hid", "in AGE: its page map may not be read"),
    ("FOREIGN/S", "pages a second that were meant for a node and went elsewhere"),
    ("IN OUT", "bytes moved to and from a node by numaloc since top began"),
];

/// A box in the middle with a title; returns what is within.
fn window(buffer: &mut Buffer, area: Rect, title: &str, wide: u16, high: u16) -> Rect {
    let width = wide.saturating_add(4).min(area.width);
    let height = high.saturating_add(2).min(area.height);
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let outer = Rect { x, y, width, height };
    for line in outer.top()..outer.bottom() {
        let is_edge = line == outer.top() || line + 1 == outer.bottom();
        let middle = usize::from(width.saturating_sub(2));
        let text = match is_edge {
            true => format!("+{}+", "-".repeat(middle)),
            false => format!("|{}|", " ".repeat(middle)),
        };
        buffer.set_style(Rect { y: line, height: 1, ..outer }, Style::reset());
        write(buffer, outer, line, &text, Style::new());
    }
    let inner = Rect { x: x + 2, width: width.saturating_sub(4), ..outer };
    write(buffer, inner, y, &format!(" {title} "), bold());
    Rect { y: y + 1, height: height.saturating_sub(2), ..inner }
}

/// Lines in a box, scrolled no further than their end. Returns how far.
fn show(buffer: &mut Buffer, area: Rect, title: &str, lines: &[String], scroll: usize) -> usize {
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let within =
        window(buffer, area, title, cells(longest.max(title.len() + 2)), cells(lines.len()));
    let first = scroll.min(lines.len().saturating_sub(usize::from(within.height)));
    for (y, line) in (within.y..within.bottom()).zip(&lines[first..]) {
        write(buffer, within, y, line, Style::new());
    }
    first
}

/// Draws the help: what each key does and each column shows.
pub fn help(buffer: &mut Buffer, area: Rect, state: &TopState) -> usize {
    let keys = KEYS.iter().map(|(key, meaning)| format!("{key:<12} {meaning}"));
    let columns = Column::ALL.iter().map(|each| format!("{:<12} {}", each.name(), each.meaning()));
    let lines: Vec<String> = keys.chain(columns).collect();
    show(buffer, area, "help: any other key closes it", &lines, state.scroll)
}

/// The columns to choose from.
pub fn columns(buffer: &mut Buffer, area: Rect, spots: &Spots, at: usize) {
    let is_shown = |column: Column| {
        spots.slots.iter().any(|(slot, ..)| match slot {
            ShownColumn::One(shown) => *shown == column,
            ShownColumn::Node(_) => column == Column::Nodes,
        })
    };
    let lines: Vec<String> = Column::ALL
        .into_iter()
        .enumerate()
        .map(|(index, column)| {
            let (cursor, mark) =
                (if index == at { '>' } else { ' ' }, if is_shown(column) { 'x' } else { ' ' });
            format!("{cursor}[{mark}] {:<6} {}", column.name(), column.meaning())
        })
        .collect();
    show(buffer, area, "columns: Space, d for those that fit, Enter", &lines, at.saturating_sub(5));
}

pub fn migration(buffer: &mut Buffer, area: Rect, state: &TopState) -> usize {
    let Some(migration) = &state.migration else { return 0 };
    let target = &migration.target;
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    match &migration.stage {
        Stage::Planning => show(buffer, area, target, &lines("planning; Esc gives up"), 0),
        Stage::Asked(plan) => {
            let title = format!("migrate {target}? y or n");
            show(buffer, area, &title, &lines(plan), state.scroll)
        }
        Stage::Running(progress) => {
            const BAR: u64 = 40;
            let planned = progress.planned_bytes.max(1);
            let done = (progress.settled_bytes.min(planned) as u128 * u128::from(BAR))
                / u128::from(planned);
            let done = usize::try_from(done).unwrap_or(0);
            let held = match progress.held_back.as_str() {
                "" => String::new(),
                why => format!("held back: {why}"),
            };
            let text = [
                progress.job.clone(),
                format!("[{:<40}]", "=".repeat(done)),
                format!("{} of {}", size(progress.settled_bytes), size(progress.planned_bytes)),
                held,
                if progress.is_cancelled {
                    "ends after the batches in hand"
                } else {
                    "x ends it, Esc hides it"
                }
                .to_owned(),
            ];
            show(buffer, area, target, &text, 0)
        }
        Stage::Ended(result) => {
            let title = format!("{target}: Enter closes");
            show(buffer, area, &title, &lines(result), state.scroll)
        }
    }
}

/// The migration in one line, while it is under way.
pub fn progress_line(state: &TopState) -> Option<String> {
    let migration = state.migration.as_ref()?;
    let Stage::Running(progress) = &migration.stage else { return None };
    let percent = progress.settled_bytes * 100 / progress.planned_bytes.max(1);
    Some(format!("migrating {}: {percent} % of {}", migration.target, size(progress.planned_bytes)))
}

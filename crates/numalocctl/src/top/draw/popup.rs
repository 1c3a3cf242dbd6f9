//! Popups over the lists: the help, the columns, and a migration.

use super::{bold, write};
use crate::{
    columns::Column,
    top::state::{Question, Spots, Stage, TopState},
    units::{seconds, size},
    wrap::wrapped,
};
use numaloc_core::Profile;
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

const KEYS: [(&str, &str); 11] = [
    ("Up Down", "select; j k PgUp PgDn, too"),
    ("Enter", "what is in it; Esc goes back"),
    ("p", "processes or workloads"),
    ("/", "filter; Esc takes it away"),
    ("< >", "sort by the next column"),
    ("r", "reverse the order"),
    ("c", "choose columns"),
    ("m", "plan a migration, then ask"),
    ("q", "quit"),
    ("mouse", "select a row, sort"),
    ("", ""),
];

/// Words of the table of nodes, and of a cell.
const WORDS: [(&str, &str); 8] = [
    ("hid", "AGE of what is not readable"),
    ("CACHE", "page cache dropped first"),
    ("SPILL/S", "pages/s that went elsewhere"),
    ("TRAFFIC", "memory bytes/s; > at least"),
    ("IN OUT", "moved by numaloc since start"),
    ("TIER", "memory tier, lower is faster"),
    ("WHERE", "its nodes, remote inverted"),
    ("workload", "a cgroup, without those below"),
];

/// A box in the middle with a title; returns the area within.
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

/// Lines in a box, wrapped to its width and scrolled no further than their end. Returns how far.
fn show(buffer: &mut Buffer, area: Rect, title: &str, lines: &[String], scroll: usize) -> usize {
    let room = usize::from(area.width.saturating_sub(4)).max(1);
    let lines: Vec<String> = lines
        .iter()
        .flat_map(|line| match line.is_empty() {
            true => vec![String::new()],
            false => wrapped(line, room),
        })
        .collect();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let within =
        window(buffer, area, title, cells(longest.max(title.len() + 2)), cells(lines.len()));
    let height = usize::from(within.height);
    let first = scroll.min(lines.len().saturating_sub(height));
    for (y, line) in (within.y..within.bottom()).zip(&lines[first..]) {
        write(buffer, within, y, line, Style::new());
    }
    let below = lines.len().saturating_sub(first + height);
    if first + below > 0 {
        let mark = format!(" Up Down: {first} lines above, {below} below ");
        let edge = Rect { height: within.height + 1, ..within };
        write(buffer, edge, within.bottom(), &mark, bold());
    }
    first
}

/// Draws the help: what each key does and each column shows, side by side if there is room.
pub fn help(buffer: &mut Buffer, area: Rect, state: &TopState) -> usize {
    const WIDE: usize = 38;
    let entry = |(name, meaning): (&str, &str)| match name.len() > 8 {
        true => format!("{name} {meaning}"),
        false => format!("{name:<8} {meaning}"),
    };
    let left: Vec<String> = KEYS.into_iter().chain(WORDS).map(entry).collect();
    let columns = Column::ALL.iter().map(|each| (each.name(), each.description().meaning));
    let right: Vec<String> = columns.map(entry).collect();
    let lines = match usize::from(area.width) >= 2 * WIDE + 4 {
        true => {
            let nothing = String::new();
            let pair = |line: usize| {
                let right = right.get(line).unwrap_or(&nothing);
                format!("{:<WIDE$}{right}", left.get(line).unwrap_or(&nothing)).trim_end().into()
            };
            (0..left.len().max(right.len())).map(pair).collect()
        }
        false => [left, right].concat(),
    };
    show(buffer, area, "help: any other key closes it", &lines, state.scroll)
}

/// The columns to choose from.
pub fn columns(buffer: &mut Buffer, area: Rect, spots: &Spots, at: usize) {
    let is_shown = |column: Column| spots.slots.iter().any(|(slot, ..)| slot.column() == column);
    let lines: Vec<String> = Column::ALL
        .into_iter()
        .enumerate()
        .map(|(index, column)| {
            let (cursor, mark) =
                (if index == at { '>' } else { ' ' }, if is_shown(column) { 'x' } else { ' ' });
            format!("{cursor}[{mark}] {:<6}  {}", column.name(), column.description().meaning)
        })
        .collect();
    show(buffer, area, "columns: Space, d for those that fit, Enter", &lines, at.saturating_sub(5));
}

const ASKED: &str = "y migrate  n cancel  g gentle  b balanced  f fast";

/// The duration of a migration with each profile; the chosen one is in brackets.
fn profiles(question: &Question, chosen: Profile) -> String {
    let words = |profile: Profile| {
        let time = seconds(question.takes(profile).as_secs_f64());
        match profile == chosen {
            true => format!("[{} {time}]", profile.name()),
            false => format!(" {} {time} ", profile.name()),
        }
    };
    format!("takes    about {}", Profile::ALL.map(words).join(" "))
}

pub fn migration(buffer: &mut Buffer, area: Rect, state: &TopState) -> usize {
    let Some(migration) = &state.migration else { return 0 };
    let target = &migration.target;
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    match &migration.stage {
        Stage::Planning => show(buffer, area, target, &lines("planning; Esc gives up"), 0),
        Stage::Asked(question) => {
            let title = format!("migrate {target}?");
            let mut text = lines(&question.plan);
            text.push(profiles(question, migration.profile));
            text.extend([String::new(), ASKED.to_owned()]);
            show(buffer, area, &title, &text, state.scroll)
        }
        Stage::Running(progress) => {
            const BAR: u64 = 40;
            let planned = progress.planned_bytes.max(1);
            let done = (progress.settled_bytes.min(planned) as u128 * u128::from(BAR))
                / u128::from(planned);
            let done = usize::try_from(done).unwrap_or(0);
            let held = match progress.held_back.as_str() {
                "" => String::new(),
                why => format!("throttled: {why}"),
            };
            let text = [
                progress.job.clone(),
                format!("[{:<40}]", if state.has_blocks { "█" } else { "=" }.repeat(done)),
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

//! The room below a short list on a large screen: the processes of the selected workload, or the jobs.

use super::{DrawInput, bold, table, write};
use crate::{
    doc::{TopDoc, TopRowDoc},
    top::{
        rows::{List, rows},
        state::TopState,
    },
};
use ratatui::{buffer::Buffer, layout::Rect, style::Style};
use std::collections::BTreeMap;

/// The least height of a screen that has it, in lines, and of the room.
const SCREEN: u16 = 40;
const ROOM: u16 = 6;

/// Whether there is something below a list whose last row is followed by `room`.
pub fn has_room(buffer: &Buffer, room: Rect) -> bool {
    buffer.area.height >= SCREEN && room.height >= ROOM
}

pub fn draw(buffer: &mut Buffer, room: Rect, state: &TopState, scene: DrawInput<'_>) {
    let room = Rect { y: room.y + 1, height: room.height.saturating_sub(2), ..room };
    match (&state.list, scene.rows.get(state.line)) {
        (List::Workloads, Some(row)) => processes(buffer, room, state, scene.document, row),
        (List::Workloads, None) => {}
        _ => jobs(buffer, room, scene.document),
    }
}

fn processes(
    buffer: &mut Buffer,
    room: Rect,
    state: &TopState,
    document: &TopDoc,
    row: &TopRowDoc,
) {
    let cgroup = row.cgroup.clone().unwrap_or_default();
    let state = TopState { list: List::Within(cgroup), ..state.clone() };
    let rows = rows(document, &state.list, "", state.sort);
    let heading = format!("processes of {}: {}", row.name(), rows.len());
    write(buffer, room, room.y, &heading, bold());
    let room = Rect { y: room.y + 1, height: room.height.saturating_sub(1), ..room };
    table(buffer, room, &state, (&rows, 0), document, None);
}

/// The jobs that rows have, each with its names.
fn jobs(buffer: &mut Buffer, room: Rect, document: &TopDoc) {
    let mut named: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for row in document.processes.iter().chain(&document.workloads) {
        if let Some(job) = &row.job {
            let held_back = row.held_back.as_deref().unwrap_or_default();
            named.entry((job, held_back)).or_default().push(row.name());
        }
    }
    if named.is_empty() {
        return;
    }
    write(buffer, room, room.y, &format!("jobs: {}", named.len()), bold());
    for (y, ((job, held_back), names)) in (room.y + 1..room.bottom()).zip(named) {
        let held_back = if held_back.is_empty() { String::new() } else { format!(": {held_back}") };
        let line = format!(" {job}{held_back}  {}", names.join(", "));
        write(buffer, room, y, &line, Style::new());
    }
}

//! Effects of keys and the mouse on the view. Pure.

use super::{
    rows::{List, RowKey, key},
    state::{BegunMigration, Popup, Progress, Stage, TopState},
};
use crate::{
    columns::{Column, Sort, with_age},
    doc::TopRowDoc,
};
use numaloc_core::{Identity, Profile};
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

/// A further action to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    None,
    Quit,
    /// Watch the process that has been opened, or none.
    Watch,
    /// Plan a migration of this.
    Plan(RowKey),
    /// Carry it out, this gently.
    Begin(Profile),
    /// Give up the plan, or end the migration.
    Cancel,
}

/// Takes an event. `rows` are the listed ones.
pub fn take(state: &mut TopState, event: &Event, rows: &[&TopRowDoc]) -> Act {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => press(state, *key, rows),
        Event::Mouse(mouse) => {
            match mouse.kind {
                MouseEventKind::ScrollDown => step(state, 3, rows),
                MouseEventKind::ScrollUp => step(state, -3, rows),
                MouseEventKind::Down(MouseButton::Left) => {
                    click(state, mouse.column, mouse.row, rows);
                }
                _ => {}
            }
            Act::None
        }
        _ => Act::None,
    }
}

fn press(state: &mut TopState, key: KeyEvent, rows: &[&TopRowDoc]) -> Act {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if key.code == KeyCode::Char('c') { Act::Quit } else { Act::None };
    }
    if state.is_editing {
        edit(state, key.code);
        return Act::None;
    }
    state.message = None;
    match state.popup {
        Popup::None => return list(state, key.code, rows),
        Popup::Help => read(state, key.code),
        Popup::Columns(at) => choose(state, key.code, at),
        Popup::Migration => return migration(state, key.code),
    }
    Act::None
}

fn edit(state: &mut TopState, code: KeyCode) {
    match code {
        KeyCode::Char(letter) => state.filter.push(letter),
        KeyCode::Backspace => drop(state.filter.pop()),
        KeyCode::Enter => state.is_editing = false,
        KeyCode::Esc => {
            state.filter.clear();
            state.is_editing = false;
        }
        _ => {}
    }
}

fn list(state: &mut TopState, code: KeyCode, rows: &[&TopRowDoc]) -> Act {
    let page = i64::from(state.spots.rows.1.max(1));
    match code {
        KeyCode::Char('q') => return Act::Quit,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => over(state, Popup::Help),
        KeyCode::Char('c') => over(state, Popup::Columns(0)),
        KeyCode::Char('/') => state.is_editing = true,
        KeyCode::Char('r') => state.sort.reverse = !state.sort.reverse,
        KeyCode::Char('<' | ',') => sort_beside(state, Column::ALL.len() - 1),
        KeyCode::Char('>' | '.') => sort_beside(state, 1),
        KeyCode::Char('p') => {
            let list =
                if state.list == List::Workloads { List::Processes } else { List::Workloads };
            (state.list, state.back) = (list, None);
            return close(state);
        }
        KeyCode::Up | KeyCode::Char('k') => step(state, -1, rows),
        KeyCode::Down | KeyCode::Char('j') => step(state, 1, rows),
        KeyCode::PageUp => step(state, -page, rows),
        KeyCode::PageDown | KeyCode::Char(' ') => step(state, page, rows),
        KeyCode::Home => step(state, i64::MIN, rows),
        KeyCode::End => step(state, i64::MAX, rows),
        KeyCode::Enter | KeyCode::Right => return open(state, rows),
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => return back(state),
        KeyCode::Char('m') => return migrate(state, rows),
        _ => {}
    }
    Act::None
}

fn over(state: &mut TopState, popup: Popup) {
    (state.popup, state.scroll) = (popup, 0);
}

/// Moves the selection, or what is opened.
fn step(state: &mut TopState, by: i64, rows: &[&TopRowDoc]) {
    let moved = |from: usize| {
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        usize::try_from(from.saturating_add(by).max(0)).unwrap_or(usize::MAX)
    };
    match state.opened.is_some() || state.popup != Popup::None {
        // Drawing bounds it.
        true => state.scroll = moved(state.scroll).min(1 << 20),
        false => {
            state.is_chosen = true;
            state.select(moved(state.line), rows);
        }
    }
}

fn sort_beside(state: &mut TopState, by: usize) {
    let at = Column::ALL.iter().position(|&column| column == state.sort.column).unwrap_or(0);
    state.sort = Sort { column: Column::ALL[(at + by) % Column::ALL.len()], reverse: false };
}

/// A workload opens its processes, a process its threads and mappings.
fn open(state: &mut TopState, rows: &[&TopRowDoc]) -> Act {
    let Some(row) = rows.get(state.line).filter(|_| state.opened.is_none()) else {
        return Act::None;
    };
    match key(row) {
        RowKey::Cgroup(path) => {
            state.back = Some(state.list.clone());
            state.list = List::Within(path);
            (state.line, state.selected, state.is_chosen) = (0, None, false);
            // It was for names of cgroups, and their processes have others.
            state.filter.clear();
            Act::None
        }
        RowKey::Process(pid, start_time) => {
            let comm = row.comm.clone().unwrap_or_default();
            state.opened = Some((Identity { pid, start_time }, comm));
            (state.scroll, state.is_chosen) = (0, true);
            Act::Watch
        }
    }
}

/// Leaves the threads of the process that is opened, and begins the list at its top.
fn close(state: &mut TopState) -> Act {
    (state.scroll, state.line, state.selected, state.is_chosen) = (0, 0, None, false);
    if state.opened.take().is_some() { Act::Watch } else { Act::None }
}

/// One level up: from threads to processes, to workloads, and then the filter goes.
fn back(state: &mut TopState) -> Act {
    if state.opened.take().is_some() {
        state.scroll = 0;
        return Act::Watch;
    }
    match (state.back.take(), &state.list) {
        (Some(list), List::Within(path)) => {
            (state.selected, state.is_chosen) = (Some(RowKey::Cgroup(path.clone())), true);
            state.list = list;
        }
        _ => state.filter.clear(),
    }
    Act::None
}

fn migrate(state: &mut TopState, rows: &[&TopRowDoc]) -> Act {
    let is_open = |migration: &BegunMigration| !matches!(migration.stage, Stage::Ended(_));
    if state.migration.as_ref().is_some_and(is_open) {
        over(state, Popup::Migration);
        return Act::None;
    }
    let opened = state.opened.as_ref().map(|(identity, comm)| {
        (RowKey::Process(identity.pid, identity.start_time), format!("{} ({comm})", identity.pid))
    });
    let of_row = |row: &&TopRowDoc| match key(row) {
        RowKey::Cgroup(path) => (RowKey::Cgroup(path.clone()), path),
        RowKey::Process(pid, start_time) => {
            let target = format!("{pid} ({})", row.comm.as_deref().unwrap_or_default());
            (RowKey::Process(pid, start_time), target)
        }
    };
    let Some((key, target)) = opened.or_else(|| rows.get(state.line).map(of_row)) else {
        state.message = Some("nothing is selected to migrate".into());
        return Act::None;
    };
    let profile = Profile::default();
    state.is_chosen = true;
    state.migration = Some(BegunMigration { target, profile, stage: Stage::Planning });
    over(state, Popup::Migration);
    Act::Plan(key)
}

/// In a popup that is read.
fn read(state: &mut TopState, code: KeyCode) {
    match code {
        KeyCode::Up | KeyCode::Char('k') => state.scroll = state.scroll.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => state.scroll += 1,
        KeyCode::PageUp => state.scroll = state.scroll.saturating_sub(10),
        KeyCode::PageDown | KeyCode::Char(' ') => state.scroll += 10,
        _ => over(state, Popup::None),
    }
}

fn choose(state: &mut TopState, code: KeyCode, at: usize) {
    let last = Column::ALL.len() - 1;
    match code {
        KeyCode::Up | KeyCode::Char('k') => state.popup = Popup::Columns(at.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => state.popup = Popup::Columns((at + 1).min(last)),
        // The columns that fit.
        KeyCode::Char('d') => state.columns = None,
        KeyCode::Char(' ') => {
            let shown = state.spots.slots.iter().map(|(slot, ..)| slot.column());
            let mut columns = state.columns.clone().unwrap_or_else(|| shown.collect());
            columns.dedup();
            let column = Column::ALL[at];
            match columns.iter().position(|&other| other == column) {
                Some(place) => drop(columns.remove(place)),
                None => columns.push(column),
            }
            if columns.is_empty() {
                state.message = Some("one column has to stay".into());
            } else {
                columns.sort();
                state.columns = Some(with_age(columns));
            }
        }
        _ => over(state, Popup::None),
    }
}

/// In the popup of the migration.
fn migration(state: &mut TopState, code: KeyCode) -> Act {
    let Some(migration) = &mut state.migration else {
        over(state, Popup::None);
        return Act::None;
    };
    match (&mut migration.stage, code) {
        (Stage::Asked(_), KeyCode::Char('y')) => {
            migration.stage = Stage::Running(Progress::default());
            return Act::Begin(migration.profile);
        }
        (Stage::Asked(_), KeyCode::Char('g')) => migration.profile = Profile::Gentle,
        (Stage::Asked(_), KeyCode::Char('b')) => migration.profile = Profile::Balanced,
        (Stage::Asked(_), KeyCode::Char('f')) => migration.profile = Profile::Fast,
        (Stage::Asked(_) | Stage::Planning, KeyCode::Char('n') | KeyCode::Esc) => {
            state.migration = None;
            over(state, Popup::None);
            return Act::Cancel;
        }
        (Stage::Running(progress), KeyCode::Char('x')) => {
            progress.is_cancelled = true;
            return Act::Cancel;
        }
        // It continues; `m` shows it again.
        (Stage::Running(_), KeyCode::Esc | KeyCode::Enter | KeyCode::Char('m')) => {
            over(state, Popup::None);
        }
        (Stage::Ended(_), KeyCode::Esc | KeyCode::Enter | KeyCode::Char('m' | 'q')) => {
            over(state, Popup::None);
        }
        (Stage::Running(_) | Stage::Planning, _) => {}
        (Stage::Asked(_) | Stage::Ended(_), KeyCode::Up | KeyCode::Char('k')) => {
            state.scroll = state.scroll.saturating_sub(1);
        }
        (Stage::Asked(_) | Stage::Ended(_), KeyCode::Down | KeyCode::Char('j')) => {
            state.scroll += 1;
        }
        _ => {}
    }
    Act::None
}

/// A row is selected by a click, and its column is sorted by with one on its name.
fn click(state: &mut TopState, x: u16, y: u16, rows: &[&TopRowDoc]) {
    if state.popup != Popup::None || state.opened.is_some() {
        return;
    }
    let (top, count) = state.spots.rows;
    if (top..top.saturating_add(count)).contains(&y) {
        let line = state.spots.first + usize::from(y - top);
        if line < rows.len() {
            state.is_chosen = true;
            state.select(line, rows);
        }
    } else if y == state.spots.header {
        let hit = state.spots.slots.iter().find(|(_, from, to)| (*from..*to).contains(&x));
        if let Some((slot, ..)) = hit {
            let column = slot.column();
            let reverse = state.sort.column == column && !state.sort.reverse;
            state.sort = Sort { column, reverse };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::ShownColumn;
    use crate::{doc::TopDoc, top::state::Question};

    fn document() -> TopDoc {
        let process = |pid: i32| TopRowDoc {
            pid: Some(pid),
            start_time_ticks: Some(1),
            comm: Some(format!("p{pid}")),
            cgroup: Some("/a".into()),
            ..TopRowDoc::default()
        };
        let workload = |path: &str| TopRowDoc { cgroup: Some(path.into()), ..TopRowDoc::default() };
        TopDoc {
            processes: (1..=30).map(process).collect(),
            workloads: ["/a", "/b"].map(workload).into(),
            ..TopDoc::default()
        }
    }

    fn state() -> TopState {
        let sort = Sort { column: Column::Pid, reverse: false };
        TopState::new(List::Workloads, sort, String::new(), None)
    }

    /// Presses keys, by their characters; `\n` is Enter and `\x1b` is Esc.
    fn keys(state: &mut TopState, document: &TopDoc, keys: &str) -> Vec<Act> {
        let mut acts = Vec::new();
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            let rows = super::super::rows::rows(document, &state.list, &state.filter, state.sort);
            let event = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
            acts.push(take(state, &event, &rows));
            let rows = super::super::rows::rows(document, &state.list, &state.filter, state.sort);
            state.settle(document, &rows);
        }
        acts.retain(|act| *act != Act::None);
        acts
    }

    #[test]
    fn a_way_down_and_back() {
        let (mut state, document) = (state(), document());
        assert_eq!(keys(&mut state, &document, "\n"), []);
        assert_eq!(state.list, List::Within("/a".into()));
        assert_eq!(keys(&mut state, &document, "jj\n"), [Act::Watch]);
        assert_eq!(state.opened, Some((Identity { pid: 3, start_time: 1 }, "p3".into())));
        assert_eq!(keys(&mut state, &document, "\x1b"), [Act::Watch]);
        assert_eq!(state.selected, Some(RowKey::Process(3, 1)));
        assert_eq!(keys(&mut state, &document, "\x1b"), []);
        assert_eq!((&state.list, state.line), (&List::Workloads, 0));
        assert_eq!(keys(&mut state, &document, "pq"), [Act::Quit]);
        assert_eq!(state.list, List::Processes);
    }

    #[test]
    fn a_filter_is_written_and_goes_with_escape() {
        let (mut state, document) = (state(), document());
        keys(&mut state, &document, "p/p1q\n");
        assert_eq!((state.filter.as_str(), state.is_editing), ("p1q", false));
        assert_eq!((state.selected.clone(), state.line), (None, 0), "nothing matches");
        assert_eq!(keys(&mut state, &document, "\nm"), [], "nothing to open or migrate");
        assert_eq!(state.message.as_deref(), Some("nothing is selected to migrate"));
        keys(&mut state, &document, "\x1b");
        assert_eq!(state.filter, "");
        keys(&mut state, &document, "/p2\x1b");
        assert_eq!((state.filter.as_str(), state.is_editing), ("", false));
    }

    #[test]
    fn a_process_that_ends_while_it_is_selected_or_open() {
        let (mut state, mut document) = (state(), document());
        keys(&mut state, &document, "pjj\n");
        document.processes.retain(|row| row.pid != Some(3));
        let rows = super::super::rows::rows(&document, &state.list, &state.filter, state.sort);
        state.settle(&document, &rows);
        assert_eq!(state.opened, None);
        assert_eq!(state.selected, Some(RowKey::Process(4, 1)), "the one in its place");
        assert_eq!(state.message.as_deref(), Some("process 3 has ended"));
        document.processes.clear();
        state.settle(&document, &[]);
        assert_eq!((state.selected.clone(), state.line), (None, 0));
    }

    #[test]
    fn a_migration_asks_first_and_goes_on_without_its_popup() {
        let (mut state, document) = (state(), document());
        assert_eq!(keys(&mut state, &document, "m"), [Act::Plan(RowKey::Cgroup("/a".into()))]);
        assert_eq!(keys(&mut state, &document, "y"), [], "there is no plan yet");
        let migration = state.migration.as_mut().unwrap();
        migration.stage = Stage::Asked(Question::default());
        assert_eq!(keys(&mut state, &document, "fbgy"), [Act::Begin(Profile::Gentle)]);
        keys(&mut state, &document, "\x1b");
        assert_eq!(state.popup, Popup::None);
        assert_eq!(keys(&mut state, &document, "jm"), [], "it is shown again, no other begins");
        assert_eq!(state.popup, Popup::Migration);
        assert_eq!(keys(&mut state, &document, "x"), [Act::Cancel]);
        state.migration.as_mut().unwrap().stage = Stage::Ended("done".into());
        keys(&mut state, &document, "\n");
        let next = keys(&mut state, &document, "m");
        assert_eq!(next, [Act::Plan(RowKey::Cgroup("/b".into()))]);
        assert_eq!(keys(&mut state, &document, "n"), [Act::Cancel]);
        assert_eq!((state.popup.clone(), state.migration.clone()), (Popup::None, None));
    }

    #[test]
    fn columns_are_chosen_and_a_share_keeps_its_age() {
        let (mut state, document) = (state(), document());
        state.columns = Some(vec![Column::Name, Column::Share, Column::Age]);
        let age = Column::ALL.iter().position(|&column| column == Column::Age).unwrap();
        keys(&mut state, &document, "c");
        keys(&mut state, &document, &"j".repeat(age));
        keys(&mut state, &document, " ");
        assert_eq!(state.columns, Some(vec![Column::Name, Column::Share, Column::Age]));
        keys(&mut state, &document, &"k".repeat(age));
        keys(&mut state, &document, " ");
        let with_pid = vec![Column::Pid, Column::Name, Column::Share, Column::Age];
        assert_eq!(state.columns, Some(with_pid));
        keys(&mut state, &document, "d");
        assert_eq!((state.columns.clone(), state.popup.clone()), (None, Popup::Columns(0)));
    }

    #[test]
    fn clicks_select_and_sort() {
        let (mut state, document) = (state(), document());
        keys(&mut state, &document, "p");
        let slots = vec![(ShownColumn::One(Column::Cpu), 10, 15)];
        state.spots =
            super::super::state::Spots { header: 5, slots, rows: (6, 10), first: 4, scroll: 0 };
        let rows = super::super::rows::rows(&document, &state.list, "", state.sort);
        let click = |state: &mut TopState, column, row| {
            let (kind, modifiers) = (MouseEventKind::Down(MouseButton::Left), KeyModifiers::NONE);
            let mouse = ratatui::crossterm::event::MouseEvent { kind, column, row, modifiers };
            take(state, &Event::Mouse(mouse), &rows)
        };
        click(&mut state, 0, 8);
        assert_eq!(state.selected, Some(RowKey::Process(7, 1)));
        click(&mut state, 12, 5);
        click(&mut state, 12, 5);
        assert_eq!(state.sort, Sort { column: Column::Cpu, reverse: true });
        click(&mut state, 200, 200);
    }
}

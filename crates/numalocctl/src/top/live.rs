//! The loop of the live view: events, looks, pictures.

use super::{
    draw::{self, DrawInput},
    keys::{self, Act},
    moving::MigrationThread,
    rows::{List, RowKey, key, rows},
    screen::Screen,
    state::{Popup, Stage, TopState},
};
use crate::{
    args::TopArgs,
    doc::{DetailDoc, TopDoc},
    engine::{Chosen, ViewFeed},
    exit::Failure,
    signals,
};
use numaloc_core::Identity;
use ratatui::crossterm::event::{self, Event};
use std::{
    env, mem,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// The longest wait for a key. Between waits the host is looked at.
const TURN: Duration = Duration::from_millis(100);

/// State of the loop of keys, scans and frames.
struct LiveLoop {
    feed: Box<dyn ViewFeed>,
    /// Carries out migrations.
    engine: Chosen,
    state: TopState,
    document: TopDoc,
    /// The process that is watched closely, once it has been read.
    detail: Option<DetailDoc>,
    mover: Option<(MigrationThread, RowKey)>,
    /// The process that a migration has moved, and when: its row shows the state before the move until it is scanned
    /// again.
    moved: Option<(Identity, Instant)>,
}

/// Shows the view of a feed until it is left. `engine` carries out migrations. `note` is shown first.
///
/// # Errors
/// There is no terminal.
pub fn run(
    args: &TopArgs,
    engine: Chosen,
    feed: Box<dyn ViewFeed>,
    note: Option<String>,
) -> Result<(), Failure> {
    let list = if args.processes { List::Processes } else { List::Workloads };
    let columns = args.columns.clone().map(|columns| columns.0);
    let mut state =
        TopState::new(list, args.sort, args.filter.clone().unwrap_or_default(), columns);
    state.has_colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    state.has_blocks = is_utf8(|name| env::var(name).ok());
    state.message = note;
    state.host = engine.host_name();
    let (document, detail, mover, moved) = (TopDoc::default(), None, None, None);
    let mut view = LiveLoop { feed, engine, state, document, detail, mover, moved };
    let interrupted = signals::interrupted()?;
    let mut screen = Screen::open()?;
    let mut due = Instant::now();
    let mut is_old = true;
    loop {
        if interrupted.load(Relaxed) {
            break;
        }
        view.feed.work();
        let now = Instant::now();
        if now >= due {
            view.feed.refresh();
            view.feed.work();
            view.look();
            // The first pictures come sooner, because they have little on them.
            let is_little = is_first(&view.document) || view.waits();
            due = now + if is_little { TURN * 3 } else { args.delay };
            is_old = true;
        }
        is_old |= view.hear();
        if is_old && screen.draw(|buffer| view.draw(buffer)).is_err() {
            break;
        }
        is_old = false;
        // A terminal that has gone gives errors, or nothing forever (`Screen::open`).
        match event::poll(TURN) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => break,
        }
        let Ok(event) = event::read() else { break };
        is_old = true;
        match view.take(&event) {
            Act::Quit => break,
            Act::Watch => due = Instant::now() + TURN * 3,
            _ => {}
        }
    }
    drop(screen);
    view.mover.into_iter().for_each(|(mover, _)| mover.end());
    Ok(())
}

/// Whether the locale has UTF-8: the first variable that is set decides (locale(7)).
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let locale = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Whether a process has ended or was scanned less than `since` ago.
fn is_scanned(document: &TopDoc, process: Identity, since: Duration) -> bool {
    let row = document
        .processes
        .iter()
        .find(|row| key(row) == RowKey::Process(process.pid, process.start_time));
    let age = row.map(|row| row.age_seconds);
    age.is_none_or(|age| age.is_some_and(|age| age < since.as_secs_f64()))
}

/// Whether CPU use is not known yet.
fn is_first(document: &TopDoc) -> bool {
    document.nodes.iter().all(|node| node.cpu_percent.is_none())
}

impl LiveLoop {
    /// Takes over the latest state.
    fn look(&mut self) {
        let view = self.feed.view();
        self.document = TopDoc::new(&view, self.feed.source());
        self.detail = view.detail.as_ref().map(DetailDoc::new);
        self.state.trouble = self.feed.trouble();
        self.settle();
        if let Some((process, at)) = self.moved
            && self.state.opened.is_none()
            && is_scanned(&self.document, process, at.elapsed())
        {
            self.moved = None;
            self.feed.watch(None);
        }
    }

    fn settle(&mut self) {
        let state = &mut self.state;
        let rows = rows(&self.document, &state.list, &state.filter, state.sort);
        let was_open = state.opened.is_some();
        state.settle(&self.document, &rows);
        if was_open && state.opened.is_none() {
            self.feed.watch(None);
        }
    }

    /// The process that is opened, once it has been read.
    fn opened(&self) -> Option<&DetailDoc> {
        let (opened, _) = self.state.opened.as_ref()?;
        self.detail.as_ref().filter(|detail| detail.is_of(*opened))
    }

    /// Whether a process is opened and has not been read yet.
    fn waits(&self) -> bool {
        self.state.opened.is_some() && self.opened().is_none()
    }

    fn draw(&mut self, buffer: &mut ratatui::buffer::Buffer) {
        let state = &self.state;
        let rows = rows(&self.document, &state.list, &state.filter, state.sort);
        let detail = self.opened();
        let scene = DrawInput { document: &self.document, rows: &rows, detail };
        let spots = draw::draw(buffer, state, scene);
        (self.state.scroll, self.state.spots) = (spots.scroll, spots);
    }

    fn take(&mut self, event: &Event) -> Act {
        let state = &mut self.state;
        let rows = rows(&self.document, &state.list, &state.filter, state.sort);
        let act = keys::take(state, event, &rows);
        match &act {
            Act::None | Act::Quit => {}
            Act::Watch => {
                self.moved = None;
                let opened = self.state.opened.as_ref().map(|(identity, _)| *identity);
                self.feed.watch(opened);
                self.feed.refresh();
                self.feed.work();
                self.look();
            }
            Act::Plan(key) => {
                self.mover = Some((MigrationThread::plan(self.engine.clone(), key), key.clone()))
            }
            Act::Begin(profile) => {
                if let Some((mover, _)) = &self.mover {
                    mover.begin(*profile);
                }
            }
            Act::Cancel => {
                if let Some((mover, _)) = &self.mover {
                    mover.cancel();
                }
                if self.state.migration.is_none() {
                    self.mover = None;
                }
            }
        }
        self.settle();
        act
    }

    /// Takes the migration's reports. Returns whether there was any.
    fn hear(&mut self) -> bool {
        let Some((mover, _)) = &self.mover else { return false };
        let stages = mover.stages();
        let is_new = !stages.is_empty();
        stages.into_iter().for_each(|stage| self.reach(stage));
        is_new
    }

    fn reach(&mut self, stage: Stage) {
        if let (Stage::Ended(_), Some((_, RowKey::Process(pid, start_time)))) =
            (&stage, &self.mover)
            && self.state.opened.is_none()
        {
            // The watched process is scanned before all others.
            let process = Identity { pid: *pid, start_time: *start_time };
            self.moved = Some((process, Instant::now()));
            self.feed.watch(Some(process));
        }
        if let Some(migration) = &mut self.state.migration {
            if mem::discriminant(&migration.stage) != mem::discriminant(&stage)
                && self.state.popup == Popup::Migration
            {
                self.state.scroll = 0;
            }
            migration.stage = stage;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::TopRowDoc;

    #[test]
    fn a_process_that_was_moved_is_watched_until_it_has_been_scanned_again() {
        let row = |age_seconds| TopRowDoc {
            pid: Some(7),
            start_time_ticks: Some(1),
            age_seconds,
            ..TopRowDoc::default()
        };
        let process = Identity { pid: 7, start_time: 1 };
        for (rows, scanned) in [
            (vec![row(Some(5.0))], false),
            (vec![row(Some(1.0))], true),
            (vec![row(None)], false),
            (vec![], true),
        ] {
            let document = TopDoc { processes: rows, ..TopDoc::default() };
            assert_eq!(is_scanned(&document, process, Duration::from_secs(3)), scanned);
        }
    }

    #[test]
    fn the_first_variable_of_the_locale_decides() {
        let is = |set: &[(&str, &str)]| {
            is_utf8(|name| Some(set.iter().find(|(known, _)| *known == name)?.1.to_owned()))
        };
        assert!(is(&[("LANG", "de_DE.UTF-8")]) && is(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!is(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!is(&[]) && !is(&[("LANG", "de_DE@euro")]));
    }
}

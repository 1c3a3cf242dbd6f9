//! The loop of the live view: events, looks, pictures.

use super::{
    Host,
    draw::{self, DrawInput},
    keys::{self, Act},
    moving::{By, MigrationThread, moving},
    rows::{List, RowKey, rows},
    screen::Screen,
    state::{Popup, Stage, TopState},
};
use crate::{args::TopArgs, doc::TopDoc, exit::Failure, signals};
use numaloc_core::live::{Detail, Snapshot};
use ratatui::crossterm::event::{self, Event};
use std::{
    env, mem,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// The longest wait for a key. Between waits the host is looked at.
const TURN: Duration = Duration::from_millis(100);

/// What the loop of keys, looks and frames works on.
struct LiveLoop {
    host: Host,
    by: By,
    state: TopState,
    document: TopDoc,
    snapshot: Snapshot,
    mover: Option<(MigrationThread, RowKey)>,
}

/// Shows the view until it is left. `note` is shown first.
///
/// # Errors
/// There is no terminal.
pub fn run(args: &TopArgs, by: By, host: Host, note: Option<String>) -> Result<(), Failure> {
    let list = if args.processes { List::Processes } else { List::Workloads };
    let columns = args.columns.clone().map(|columns| columns.0);
    let mut state =
        TopState::new(list, args.sort, args.filter.clone().unwrap_or_default(), columns);
    state.has_colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    state.message = note;
    let (document, snapshot) = (TopDoc::default(), Snapshot::default());
    let mut view = LiveLoop { host, by, state, document, snapshot, mover: None };
    let interrupted = signals::interrupted()?;
    let mut screen = Screen::open()?;
    let mut due = Instant::now();
    let mut is_old = true;
    loop {
        if interrupted.load(Relaxed) {
            break;
        }
        view.host.work();
        let now = Instant::now();
        if now >= due {
            view.host.refresh();
            view.host.work();
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
    // A run of this program's own ends after its batches in hand; one of the daemon continues.
    if let Some((mover, _)) = view.mover.take()
        && matches!(view.by, By::Here(_))
    {
        mover.end();
    }
    Ok(())
}

/// Whether CPU use is not known yet.
fn is_first(document: &TopDoc) -> bool {
    document.nodes.iter().all(|node| node.cpu_percent.is_none())
}

impl LiveLoop {
    /// Takes over what is known.
    fn look(&mut self) {
        (self.document, self.snapshot) = self.host.now();
        self.state.trouble = self.host.trouble();
        self.settle();
    }

    fn settle(&mut self) {
        let state = &mut self.state;
        let rows = rows(&self.document, &state.list, &state.filter, state.sort);
        let was_open = state.opened.is_some();
        state.settle(&self.document, &rows);
        if was_open && state.opened.is_none() {
            self.host.watch(None);
        }
    }

    /// The process that is opened, once it has been read.
    fn opened(&self) -> Option<&Detail> {
        let (opened, _) = self.state.opened.as_ref()?;
        self.snapshot.details.iter().find(|detail| detail.identity == *opened)
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
                let opened = self.state.opened.as_ref().map(|(identity, _)| *identity);
                self.host.watch(opened);
                self.host.refresh();
                self.host.work();
                self.look();
            }
            Act::Plan(key) => {
                self.mover = Some((MigrationThread::plan(self.by.clone(), key), key.clone()))
            }
            Act::Begin => {
                if let Some((mover, key)) = &self.mover {
                    mover.begin();
                    if matches!(self.by, By::Here(_)) {
                        self.host.begins(moving(key));
                    }
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

    /// Takes what the migration tells. Returns whether there was anything.
    fn hear(&mut self) -> bool {
        let Some((mover, _)) = &self.mover else { return false };
        let reports = mover.reports();
        let is_new = !reports.is_empty();
        for report in reports {
            if let Some(stage) = self.host.hear(report) {
                self.reach(stage);
            }
        }
        is_new
    }

    fn reach(&mut self, stage: Stage) {
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

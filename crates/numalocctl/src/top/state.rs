//! State of the live view: the list, its order, the selection, and the popup over it. Pure.

use super::rows::{List, RowKey, key};
use crate::{
    columns::{Column, ShownColumn, Sort},
    doc::{TopDoc, TopRowDoc},
};
use numaloc_core::{Identity, Pacing, Profile};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct TopState {
    /// The host that is shown, for the title.
    pub host: String,
    pub list: List,
    /// The list that Esc leads back to.
    pub back: Option<List>,
    /// A process whose threads and mappings are shown instead, by pid and start time, with its name.
    pub opened: Option<(Identity, String)>,
    /// The order of the rows.
    pub sort: Sort,
    /// The text that rows have to contain.
    pub filter: String,
    /// Whether the filter is being written.
    pub is_editing: bool,
    /// Chosen columns; `None`: by the width of the screen.
    pub columns: Option<Vec<Column>>,
    /// The row that is selected.
    pub selected: Option<RowKey>,
    /// Its place among the rows.
    pub line: usize,
    /// Whether it was selected by hand. Until then the first row is selected, whichever row that is.
    pub is_chosen: bool,
    /// Scroll position of the threads and mappings, the help or a plan.
    pub scroll: usize,
    pub popup: Popup,
    /// The migration that this view has begun.
    pub migration: Option<BegunMigration>,
    /// The last message, until the next key.
    pub message: Option<String>,
    /// Failed requests to the daemon.
    pub trouble: Option<String>,
    pub has_colour: bool,
    /// Whether the terminal shows block characters: its locale has UTF-8.
    pub has_blocks: bool,
    /// Positions of the last frame, for the mouse.
    pub spots: Spots,
}

/// The popup over the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Popup {
    None,
    Help,
    /// The columns to choose, with the one that is selected.
    Columns(usize),
    Migration,
}

/// A migration that the view has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunMigration {
    /// The target in words, for the title of the popup.
    pub target: String,
    /// The profile, which may be chosen until it begins.
    pub profile: Profile,
    pub stage: Stage,
}

/// Progress of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    Planning,
    /// The plan waits for a yes.
    Asked(Question),
    Running(Progress),
    /// It has ended: the result, or why there is none.
    Ended(String),
}

/// The effect that a migration would have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The plan in a few lines.
    pub plan: String,
    /// About how long it takes with the default profile, for which it was planned.
    pub takes: Duration,
}

impl Question {
    /// About how long it takes with a profile, which copies another part of the time.
    pub fn takes(&self, profile: Profile) -> Duration {
        let share = |pacing: &Pacing| u32::from(pacing.pace().duty_percent.max(1));
        let planned = share(&Pacing::default());
        self.takes * planned / share(&Pacing { profile, ..Pacing::default() })
    }
}

/// The progress of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The daemon's job, or what is done: `jobs/42 running`.
    pub job: String,
    /// Bytes moved or given up.
    pub settled_bytes: u64,
    /// Bytes that are to move.
    pub planned_bytes: u64,
    /// The reason why it is throttled; empty if it is not.
    pub held_back: String,
    /// Whether it was asked to end.
    pub is_cancelled: bool,
}

/// Positions of the last frame, for clicks of the mouse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spots {
    /// The line of the columns' names.
    pub header: u16,
    /// The columns with the cells of the screen that they take.
    pub slots: Vec<(ShownColumn, u16, u16)>,
    /// The first line of rows, and how many are on the screen.
    pub rows: (u16, u16),
    /// The number of the row in the first of them.
    pub first: usize,
    /// Largest scroll position of the opened row or the popup: its end.
    pub scroll: usize,
}

impl TopState {
    /// A view of this list.
    pub fn new(list: List, sort: Sort, filter: String, columns: Option<Vec<Column>>) -> Self {
        Self {
            host: String::new(),
            list,
            back: None,
            opened: None,
            sort,
            filter,
            is_editing: false,
            columns,
            selected: None,
            line: 0,
            is_chosen: false,
            scroll: 0,
            popup: Popup::None,
            migration: None,
            message: None,
            trouble: None,
            has_colour: true,
            has_blocks: false,
            spots: Spots::default(),
        }
    }

    /// Selects the row at a place.
    pub fn select(&mut self, line: usize, rows: &[&TopRowDoc]) {
        self.line = line.min(rows.len().saturating_sub(1));
        self.selected = rows.get(self.line).map(|row| key(row));
    }

    /// Keeps the selection on its row after rows have changed. If that row has gone, the one in its place is selected,
    /// and a process that has ended is reported.
    pub fn settle(&mut self, document: &TopDoc, rows: &[&TopRowDoc]) {
        let lives = |key: &RowKey| match key {
            RowKey::Process(pid, start) => document.processes.iter().any(|row| {
                row.pid == Some(*pid) && row.start_time_ticks.unwrap_or_default() == *start
            }),
            RowKey::Cgroup(path) => {
                document.workloads.iter().any(|row| row.cgroup.as_ref() == Some(path))
            }
        };
        if let Some((identity, comm)) = &self.opened
            && !lives(&RowKey::Process(identity.pid, identity.start_time))
        {
            self.message = Some(format!("process {} ({comm}) has ended", identity.pid));
            self.opened = None;
        }
        if !self.is_chosen {
            self.select(0, rows);
        }
        let place = rows.iter().position(|row| Some(key(row)) == self.selected);
        if let (None, Some(gone)) = (place, self.selected.as_ref().filter(|key| !lives(key))) {
            self.message = Some(match gone {
                RowKey::Process(pid, _) => format!("process {pid} has ended"),
                RowKey::Cgroup(path) => format!("{path} has no processes any more"),
            });
        }
        self.select(place.unwrap_or(self.line), rows);
    }
}

//! The notes of the changes that advice makes: each change before it is made, and each that has been undone.

use super::{Change, Undone, make, undo};
use crate::{Error, Roots, journal::Journal};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AdviceNote {
    /// A change of the run with this number.
    Made { run: usize, change: Change },
    /// The change of the line with this number has been taken back.
    Undone(usize),
}

/// The right to carry advice out and to undo it, with all changes that can be undone.
#[derive(Debug)]
pub struct ChangeLog {
    journal: Journal<AdviceNote>,
    notes: usize,
    run: usize,
    /// Changes that were made and not undone, by their line.
    made: BTreeMap<usize, (usize, Change)>,
}

fn path(roots: &Roots) -> PathBuf {
    roots.run.join("numalocctl").join("advice")
}

fn made(notes: Vec<AdviceNote>) -> BTreeMap<usize, (usize, Change)> {
    let mut made = BTreeMap::new();
    for (line, note) in notes.into_iter().enumerate() {
        match note {
            AdviceNote::Made { run, change } => drop(made.insert(line, (run, change))),
            AdviceNote::Undone(line) => drop(made.remove(&line)),
        }
    }
    made
}

fn last_run(made: &BTreeMap<usize, (usize, Change)>) -> Vec<(usize, Change)> {
    let last = made.values().map(|(run, _)| *run).max();
    let of_it = made.iter().rev().filter(|(_, (run, _))| Some(*run) == last);
    of_it.map(|(&line, (_, change))| (line, change.clone())).collect()
}

impl ChangeLog {
    /// Takes the right, for a run of its own.
    ///
    /// # Errors
    /// [`Error::AdviceTaken`], [`Error::Write`], [`Error::Read`], [`Error::Parse`].
    pub fn take(roots: &Roots) -> Result<Self, Error> {
        let journal = Journal::take_at(roots, path(roots))?.ok_or(Error::AdviceTaken)?;
        let notes = journal.all()?;
        let count = notes.len();
        let made = made(notes);
        let run = made.values().map(|(run, _)| run + 1).max().unwrap_or(0);
        Ok(Self { journal, notes: count, run, made })
    }

    /// The value of [`ChangeLog::last_run`], without the right to undo it.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Parse`].
    pub fn peek(roots: &Roots) -> Result<Vec<Change>, Error> {
        let made = made(Journal::peek_all(roots, &path(roots))?);
        Ok(last_run(&made).into_iter().map(|(_, change)| change).collect())
    }

    /// The changes of the last run that made any, the last one first, each with its number.
    pub fn last_run(&self) -> Vec<(usize, Change)> {
        last_run(&self.made)
    }

    /// The number that the next change gets.
    pub fn next(&self) -> usize {
        self.notes
    }

    /// Notes a change, then makes it. A change that fails halfway stays noted. Returns its number.
    ///
    /// # Errors
    /// [`Error::Write`] if it could not be noted, and then nothing is changed; as [`make`].
    pub fn make(&mut self, roots: &Roots, change: Change) -> Result<usize, Error> {
        self.note(&AdviceNote::Made { run: self.run, change: change.clone() })?;
        let number = self.notes - 1;
        self.made.insert(number, (self.run, change.clone()));
        make(roots, &change).map(|()| number)
    }

    /// Takes a change back, and forgets it.
    ///
    /// # Errors
    /// [`Error::Write`]; as [`undo`].
    pub fn undo(&mut self, roots: &Roots, number: usize) -> Result<Undone, Error> {
        let undone = match self.made.get(&number) {
            Some((_, change)) => undo(roots, change)?,
            None => Undone::Gone,
        };
        self.forget(number)?;
        Ok(undone)
    }

    /// Forgets a change that has been taken back elsewhere.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn forget(&mut self, number: usize) -> Result<(), Error> {
        if self.made.remove(&number).is_none() {
            return Ok(());
        }
        if !self.made.is_empty() {
            return self.note(&AdviceNote::Undone(number));
        }
        self.notes = 0;
        self.journal.forget()
    }

    fn note(&mut self, note: &AdviceNote) -> Result<(), Error> {
        self.journal.note(note)?;
        self.notes += 1;
        Ok(())
    }
}

//! Which run has which of DAMON's kernel threads. The interface makes all of them at once, and refuses to change their number while one
//! runs (mm/damon/sysfs.c, `nr_kdamonds_store`). So the first run makes [`SLOTS`], each run uses one, and the last run removes them.
//!
//! Each slot has a journal with the pids that its run watches. A run that was killed leaves that note.

use super::{DamonJournal, kdamonds, write};
use crate::{
    Error, Roots,
    files::{read, wait::wait},
    journal::{self, Journal},
};
use std::{
    fs,
    time::{Duration, Instant},
};

/// Runs that can watch at the same time.
pub const SLOTS: usize = 16;
/// The name of the journal that a process has while it sets up or takes down its slot.
const LOCK: &str = "damon.lock";
/// Time between two attempts to get something that other runs have.
const BETWEEN: Duration = Duration::from_millis(20);
/// Number of times that a setup has to look foreign: one that changes meanwhile does so, too.
const LOOKS: usize = 3;

/// The name of the journal of a slot.
pub fn name(slot: usize) -> String {
    if slot == 0 { "damon".into() } else { format!("damon.{slot}") }
}

/// Whose the present setup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    None,
    Ours,
    Foreign,
}

/// Whose the present setup is, without the right to change it.
pub fn setup(roots: &Roots) -> Result<Setup, Error> {
    for _ in 1..LOOKS {
        let setup = setup_now(roots)?;
        if setup != Setup::Foreign || !is_any_noted(roots) {
            return Ok(setup);
        }
        wait(BETWEEN, &|| false);
    }
    setup_now(roots)
}

/// A setup is ours if each of its kernel threads watches only processes that the run with this slot has noted, or is off and has
/// no process yet.
fn setup_now(roots: &Roots) -> Result<Setup, Error> {
    let count = count(roots)?;
    let is_ours = || is_any_noted(roots) && (0..count).all(|slot| is_ours(roots, slot));
    Ok(match count {
        0 => Setup::None,
        1..=SLOTS if is_ours() => Setup::Ours,
        _ => Setup::Foreign,
    })
}

/// Number of kernel threads that are set up.
fn count(roots: &Roots) -> Result<usize, Error> {
    let path = kdamonds(roots).join("nr_kdamonds");
    let text = read::text(&path)?;
    let parsed = text.trim().parse();
    parsed.map_err(|error| Error::Parse { path, reason: format!("{error}") })
}

fn is_ours(roots: &Roots, slot: usize) -> bool {
    let noted = DamonJournal::peek(roots, &name(slot)).unwrap_or_default();
    let kdamond = kdamonds(roots).join(slot.to_string());
    let targets = fs::read_dir(kdamond.join("contexts/0/targets")).into_iter().flatten().flatten();
    let pids = targets.filter_map(|target| {
        let text = read::text(&target.path().join("pid_target")).ok()?;
        text.trim().parse().ok()
    });
    // The pid is 0 until it is written.
    let watched: Vec<i32> = pids.filter(|&pid| pid != 0).collect();
    let is = |file: &str, value| {
        fs::read_to_string(kdamond.join(file)).is_ok_and(|text| text.trim() == value)
    };
    // Physical memory has no processes.
    let is_begun = || is("state", "off") && !is("contexts/0/operations", "paddr");
    watched.iter().all(|pid| noted.contains(pid)) && (!watched.is_empty() || is_begun())
}

pub fn is_any_noted(roots: &Roots) -> bool {
    (0..SLOTS).any(|slot| journal::is_noted(roots, &name(slot)))
}

/// Whether a run could begin to watch at once.
pub fn has_free(roots: &Roots) -> bool {
    (0..SLOTS).any(|slot| !journal::is_noted(roots, &name(slot)))
}

/// The right to set slots up and to take them down. It is held for moments.
pub struct Lock<'a> {
    pub(super) roots: &'a Roots,
    _journal: Journal<()>,
}

impl<'a> Lock<'a> {
    /// `None`: another process or thread has it.
    pub fn take(roots: &'a Roots) -> Result<Option<Self>, Error> {
        let journal = Journal::take(roots, LOCK)?;
        Ok(journal.map(|journal| Self { roots, _journal: journal }))
    }

    /// Waits for it; `None`: `stop` has returned true, or it took too long.
    pub fn wait(
        roots: &'a Roots,
        most: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, Error> {
        let begin = Instant::now();
        while !stop() && begin.elapsed() < most {
            if let Some(lock) = Self::take(roots)? {
                return Ok(Some(lock));
            }
            wait(BETWEEN, stop);
        }
        Ok(None)
    }

    /// Takes down what killed runs have left. Returns whether there was something.
    pub fn clean(&self) -> Result<bool, Error> {
        let mut left = Vec::new();
        for slot in 0..SLOTS {
            if journal::is_noted(self.roots, &name(slot))
                && let Some(journal) = DamonJournal::take(self.roots, &name(slot))?
            {
                left.push((slot, journal));
            }
        }
        if left.is_empty() {
            return Ok(false);
        }
        let is_ours = setup(self.roots)? == Setup::Ours;
        for (slot, mut journal) in left {
            if is_ours {
                self.take_down(slot)?;
            }
            journal.forget()?;
        }
        Ok(is_ours)
    }

    /// Makes the kernel threads, unless they exist, and gives one to a run that watches these processes; `None`: all are in use.
    /// What killed runs have left has to be taken down before.
    ///
    /// # Errors
    /// What [`super::in_use`] makes: another program has set up DAMON; errors of reading and writing.
    pub fn assign(&self, pids: &Vec<i32>) -> Result<Option<(usize, DamonJournal)>, Error> {
        let (slots, is_made) = match setup(self.roots)? {
            Setup::None => (SLOTS, false),
            Setup::Ours => (count(self.roots)?, true),
            Setup::Foreign => return Err(super::in_use()),
        };
        for slot in 0..slots {
            if !journal::is_noted(self.roots, &name(slot))
                && let Some(mut journal) = DamonJournal::take(self.roots, &name(slot))?
            {
                journal.note(pids)?;
                if !is_made
                    && let Err(error) = write(&kdamonds(self.roots).join("nr_kdamonds"), SLOTS)
                {
                    let _ = journal.forget();
                    return Err(error);
                }
                return Ok(Some((slot, journal)));
            }
        }
        Ok(None)
    }

    /// Stops the kernel thread of a slot and removes what it watched; the last one in use removes all. The slot stays noted.
    pub fn take_down(&self, slot: usize) -> Result<(), Error> {
        let all = kdamonds(self.roots);
        let kdamond = all.join(slot.to_string());
        // Refused if it is off already, which does not matter. If it stays on, the next write is refused.
        let _ = write(&kdamond.join("state"), "off");
        let is_other = |other| other != slot && journal::is_noted(self.roots, &name(other));
        match (0..SLOTS).any(is_other) {
            true => write(&kdamond.join("contexts/nr_contexts"), 0),
            false => write(&all.join("nr_kdamonds"), 0),
        }
    }
}

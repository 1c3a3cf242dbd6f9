//! How many calls of one caller are answered at once. More wait in line, and of these there are only so many, too: what a
//! caller does not take holds up nobody else's calls, and no more memory than this.

use crate::dispatch::Refusal;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many calls of a caller wait for each kind.
const WAITING: usize = 1024;
/// As many lines are remembered before those without a call are looked for.
const LINES: usize = 64;

/// What a call costs while it is answered. Each kind has a line of its own, so that a quick call does not wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// One record, or a few numbers.
    Read,
    /// A list or a look at the host: megabytes.
    List,
    /// A change, which waits for the disk.
    Change,
    /// Goes on until its client ends it.
    Stream,
    /// Such a one with a quota of its own.
    Watch,
}

impl Kind {
    /// Calls of one caller at once.
    pub fn at_once(self) -> usize {
        match self {
            Self::Read => 256,
            Self::List => 8,
            Self::Change | Self::Stream => 64,
            Self::Watch => Semaphore::MAX_PERMITS,
        }
    }
}

/// Keeps calls in line. Clones keep the same lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Arc<Mutex<Remembered>>);

#[derive(Debug, Default)]
struct Remembered {
    lines: HashMap<(String, Kind), Weak<Line>>,
    /// How many were left when idle ones were last forgotten.
    busy: usize,
}

#[derive(Debug)]
struct Line {
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A call that is answered, until this is dropped: keep it with the answer.
#[derive(Debug)]
pub(super) struct Turn {
    _permit: OwnedSemaphorePermit,
    _line: Arc<Line>,
}

/// One that waits.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Lines {
    /// Waits for the turn of a call of `name`.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: as many wait as may.
    pub async fn turn(&self, name: &str, kind: Kind) -> Result<Turn, Refusal> {
        let line = self.line(name, kind);
        let permit = match line.turns.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let waiting = line.waiting.fetch_add(1, Relaxed);
                let _waits = Waits(&line.waiting);
                if waiting >= WAITING {
                    let (what, limit) = ("waiting calls", WAITING);
                    return Err(Refusal::Quota { what, limit, caller: name.to_owned() });
                }
                let turn = line.turns.clone().acquire_owned().await;
                turn.map_err(|error| Refusal::Internal { message: error.to_string() })?
            }
        };
        Ok(Turn { _permit: permit, _line: line })
    }

    /// The line of a caller; a new one if none of its calls is under way.
    fn line(&self, name: &str, kind: Kind) -> Arc<Line> {
        // Nothing panics while it holds the lock, so that what a poisoned one guards is whole.
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.lines.len() >= LINES.max(2 * remembered.busy) {
            remembered.lines.retain(|_, line| line.strong_count() > 0);
            remembered.busy = remembered.lines.len();
        }
        let known = remembered.lines.entry((name.to_owned(), kind)).or_default();
        known.upgrade().unwrap_or_else(|| {
            let turns = Arc::new(Semaphore::new(kind.at_once()));
            let line = Arc::new(Line { turns, waiting: AtomicUsize::new(0) });
            *known = Arc::downgrade(&line);
            line
        })
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lines.len()
    }
}

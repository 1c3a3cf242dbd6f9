//! Bounds how many calls are answered at once, per caller and for all callers together. Further calls wait in line, and
//! their number is bounded, too. So a caller that does not take its answers does not block other callers, and takes
//! only a bounded amount of memory.

use crate::{
    accounts::{Client, Holder},
    config::Calls,
    refusal::Refusal,
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Most calls of one caller that wait, for each kind of call: one part ([`crate::accounts`]).
const WAITING: usize = 1024;
/// Lines that are kept before those without a call are removed.
const LINES: usize = 64;

/// Cost of a call while it is answered. Each kind has a line of its own, so a quick call does not wait for slow ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallKind {
    /// Reads one record, or a few numbers.
    Read,
    /// A list or a look at the host. The answer may have megabytes.
    List,
    /// A look that mostly waits for time to pass.
    Advice,
    /// A change, which waits for the disk.
    Change,
    /// A change that comes in parts. They may have megabytes, which are kept until the request is whole.
    Bulk,
    /// Lasts until its client ends it.
    Stream,
    /// A stream that is charged as a watch.
    Watch,
}

impl CallKind {
    /// Most calls of one caller that are answered at once.
    pub fn at_once(self) -> usize {
        match self {
            Self::Read => 256,
            Self::List | Self::Advice => 4,
            Self::Bulk => 2,
            Self::Change | Self::Stream => 64,
            Self::Watch => Semaphore::MAX_PERMITS,
        }
    }

    /// Most calls of all callers that are answered at once. Calls of root and of the daemon's own user do not count
    /// here: they have turns of their own, twice those of another caller.
    pub fn over_all(self) -> usize {
        match self {
            Self::Read => 1024,
            // The answers have some megabytes each.
            Self::List | Self::Advice => 16,
            Self::Bulk => 8,
            Self::Change | Self::Stream => 256,
            // They are bounded by what is charged for them.
            Self::Watch => Semaphore::MAX_PERMITS,
        }
    }

    /// Longest time until a call is answered, waiting in line included; `None`: as long as its client likes.
    pub fn deadline(self, calls: &Calls) -> Option<Duration> {
        match self {
            Self::Read | Self::Change => Some(calls.timeout),
            Self::List | Self::Advice | Self::Bulk => Some(calls.long_timeout),
            Self::Stream | Self::Watch => None,
        }
    }

    /// Whether a call is answered by one message after the other, for as long as its client likes.
    pub fn goes_on(self) -> bool {
        matches!(self, Self::Stream | Self::Watch)
    }
}

/// Keeps calls in line. Clones share the same lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    remembered: Arc<Mutex<Remembered>>,
    all: CommonTurns,
}

/// Turns of all callers together.
#[derive(Clone, Debug)]
struct CommonTurns {
    reads: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    advice: Arc<Semaphore>,
    changes: Arc<Semaphore>,
    bulk: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl Default for CommonTurns {
    fn default() -> Self {
        let turns = |kind: CallKind| Arc::new(Semaphore::new(kind.over_all()));
        Self {
            reads: turns(CallKind::Read),
            lists: turns(CallKind::List),
            advice: turns(CallKind::Advice),
            changes: turns(CallKind::Change),
            bulk: turns(CallKind::Bulk),
            streams: turns(CallKind::Stream),
            watches: turns(CallKind::Watch),
        }
    }
}

impl CommonTurns {
    fn of(&self, kind: CallKind) -> Arc<Semaphore> {
        let turns = match kind {
            CallKind::Read => &self.reads,
            CallKind::List => &self.lists,
            CallKind::Advice => &self.advice,
            CallKind::Change => &self.changes,
            CallKind::Bulk => &self.bulk,
            CallKind::Stream => &self.streams,
            CallKind::Watch => &self.watches,
        };
        turns.clone()
    }
}

#[derive(Debug, Default)]
struct Remembered {
    lines: HashMap<(Holder, CallKind), Weak<CallLine>>,
    /// Number of lines left when idle ones were last removed.
    busy: usize,
}

#[derive(Debug)]
struct CallLine {
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

impl CallLine {
    /// Waits for a turn of `caller`.
    async fn turn(&self, caller: &str) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(permit) = self.turns.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = self.waiting.fetch_add(1, Relaxed);
        let _waits = Waits(&self.waiting);
        if waiting >= self.most_waiting {
            let (what, limit, caller) = ("waiting calls", self.most_waiting, caller.to_owned());
            return Err(Refusal::Quota { what, limit, caller });
        }
        self.turns.clone().acquire_owned().await.map_err(closed)
    }
}

/// A call that is being answered. It counts until this is dropped: keep it with the answer.
#[derive(Debug)]
pub(super) struct Turn {
    /// Turns of the caller and of its cohort.
    _own: Vec<(OwnedSemaphorePermit, Arc<CallLine>)>,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// A waiting call. It is counted until this is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Lines {
    /// Waits for the turn of a call of `client`.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the most calls of this caller that may wait already do.
    pub async fn turn(&self, client: &Client, kind: CallKind) -> Result<Turn, Refusal> {
        let mut own = Vec::with_capacity(2);
        // The caller's own turn is taken first and that of all callers last, so that no caller waits for others with
        // more calls than it may have at once.
        for (holder, parts) in client.holders() {
            let line = self.line(holder, kind, parts);
            own.push((line.turn(&client.name).await?, line));
        }
        let of_all = if client.is_host() {
            None
        } else {
            Some(self.all.of(kind).acquire_owned().await.map_err(closed)?)
        };
        Ok(Turn { _own: own, _of_all: of_all })
    }

    /// The line of a caller or cohort. It is a new one if none of its calls is under way.
    fn line(&self, holder: Holder, kind: CallKind, parts: usize) -> Arc<CallLine> {
        let mut remembered = self.remembered.lock();
        if remembered.lines.len() >= LINES.max(2 * remembered.busy) {
            remembered.lines.retain(|_, line| line.strong_count() > 0);
            remembered.busy = remembered.lines.len();
        }
        let known = remembered.lines.entry((holder, kind)).or_default();
        known.upgrade().unwrap_or_else(|| {
            let most = kind.at_once().saturating_mul(parts).min(Semaphore::MAX_PERMITS);
            let turns = Arc::new(Semaphore::new(most));
            let waiting = WAITING.saturating_mul(parts);
            let line =
                Arc::new(CallLine { turns, waiting: AtomicUsize::new(0), most_waiting: waiting });
            *known = Arc::downgrade(&line);
            line
        })
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.remembered.lock().lines.len()
    }
}

fn closed(error: AcquireError) -> Refusal {
    Refusal::Internal { message: error.to_string() }
}

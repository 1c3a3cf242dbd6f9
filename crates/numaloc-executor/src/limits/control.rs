//! State that a run shares with its watchers.

use crate::limits::allowance::Allowance;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// State that is shared with the watchers of a run.
#[derive(Debug, Default)]
pub struct Control {
    /// Set it to stop the run after the batches in hand.
    pub cancel: AtomicBool,
    /// Set it while others go first: the run then does next to nothing.
    pub yielding: AtomicBool,
    /// Bytes that have been settled so far, whatever the result.
    pub settled_bytes: AtomicU64,
    /// Bytes confirmed on their target so far.
    pub moved_bytes: AtomicU64,
    /// Number of workers that wait because of a bandwidth limit.
    limited: AtomicU64,
    /// Number of workers that wait because no more page cache may be dropped, or moved away, yet.
    dropping: AtomicU64,
    /// Bytes that may be moved by now, if others set that while the run is under way.
    pub(crate) allowance: Option<Allowance>,
    pressure: Mutex<String>,
    /// The reason why a call has not returned for long; empty: no call waits.
    waiting: Mutex<String>,
    /// Why the run ends before its time, if a call has not returned.
    end: Mutex<Option<String>>,
}

impl Control {
    /// The control of a run that moves no more than this allowance.
    pub(crate) fn allowed(allowance: Allowance) -> Self {
        Self { allowance: Some(allowance), ..Self::default() }
    }

    /// Why the run holds back at the moment, for people; empty when it does not.
    pub fn held_back(&self) -> String {
        if self.yielding.load(Relaxed) {
            return "work of a higher class goes first".into();
        }
        let waiting = self.waiting.lock().clone();
        if !waiting.is_empty() {
            return waiting;
        }
        let pressure = self.pressure.lock().clone();
        if pressure.is_empty() && self.limited.load(Relaxed) > 0 {
            return "bandwidth limit".into();
        }
        if pressure.is_empty() && self.dropping.load(Relaxed) > 0 {
            return "page cache on the target makes room slowly".into();
        }
        pressure
    }

    /// Sets why pressure holds the run back; empty: it does not.
    pub(crate) fn set_pressure(&self, why: String) {
        *self.pressure.lock() = why;
    }

    /// Sets what a call waits for that has not returned for long; empty: it has.
    pub(crate) fn set_waiting(&self, why: String) {
        *self.waiting.lock() = why;
    }

    /// Ends the run because a call has not returned. The first reason stays.
    pub(crate) fn end_with(&self, why: String) {
        self.end.lock().get_or_insert(why);
    }

    /// Why the run has ended before its time, if a call has not returned.
    pub fn ended_with(&self) -> Option<String> {
        self.end.lock().clone()
    }

    /// Begins a wait for bandwidth. It ends when the returned value is dropped.
    pub(crate) fn limited(&self) -> Limited<'_> {
        Limited::new(&self.limited)
    }

    /// Begins a wait until more page cache may be dropped. It ends when the returned value is dropped.
    pub(crate) fn dropping(&self) -> Limited<'_> {
        Limited::new(&self.dropping)
    }
}

/// A wait for a limit: counted while it lasts.
#[derive(Debug)]
pub(crate) struct Limited<'a>(&'a AtomicU64);

impl<'a> Limited<'a> {
    fn new(waits: &'a AtomicU64) -> Self {
        waits.fetch_add(1, Relaxed);
        Self(waits)
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weightiest_reason_is_given() {
        let control = Control::default();
        assert_eq!(control.held_back(), "");
        let dropping = control.dropping();
        assert!(control.held_back().contains("page cache"));
        let limited = control.limited();
        assert_eq!(control.held_back(), "bandwidth limit");
        control.set_pressure("node 0 is busy".into());
        assert_eq!(control.held_back(), "node 0 is busy");
        control.yielding.store(true, Relaxed);
        assert!(control.held_back().contains("higher class"));
        control.yielding.store(false, Relaxed);
        control.set_pressure(String::new());
        drop((limited, dropping));
        assert_eq!(control.held_back(), "");
    }
}

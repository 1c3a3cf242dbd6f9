//! A job that the engine is at work on.

use super::queue::Stage;
use crate::{
    access::Caller,
    engine::{Found, Returned, Trail},
};
use numaloc_api::value::{JobProgress, QosClass};
use numaloc_executor::Control;
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};
use tokio::{sync::oneshot, time::Instant};

/// A job that the engine is at work on.
#[derive(Debug)]
pub struct Run {
    /// Ends it, and tells how far it is.
    pub control: Arc<Control>,
    /// Who it belongs to, as what it might do when it was begun.
    pub owner: Caller,
    /// Its class: no better than its owner might ask for.
    pub qos_class: QosClass,
    /// Tells the engine to move; gone once it has been told.
    pub go: Option<oneshot::Sender<()>>,
    /// Whether the engine has planned it.
    pub is_planned: bool,
    /// Since when it moves.
    pub moving: Option<Instant>,
    /// Why it was told to end and to go back into the queue, if it was.
    pub back: Option<&'static str>,
    /// Who and where; before it is planned only what was known then.
    pub found: Option<Found>,
    /// Bytes that it set out to move; 0 before it is planned.
    pub planned_bytes: u64,
    /// What users are to be told of it though it goes well.
    pub note: Option<String>,
    /// What it found of what the last run of its schedule had moved.
    pub returned: Option<Returned>,
    /// What it has moved.
    pub trail: Option<Arc<Trail>>,
    /// What was last shown to those who watch it.
    pub shown: Shown,
    /// What was last shown to those who watch all jobs.
    pub listed: Shown,
}

/// What was last shown to watchers of a run.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Settled bytes, and what holds it back.
    state: (u64, String),
    /// When.
    at: Instant,
}

impl Shown {
    /// Nothing yet.
    pub fn new(now: Instant) -> Self {
        Self { state: (0, String::new()), at: now }
    }

    /// Whether `state` is to be shown: another one, after so long. Then it has been.
    pub fn is_news(&mut self, state: &(u64, String), now: Instant, pause: Duration) -> bool {
        let is_news = *state != self.state && now >= self.at + pause;
        if is_news {
            (self.state, self.at) = (state.clone(), now);
        }
        is_news
    }
}

impl Run {
    /// Whether it has been told to move.
    pub fn is_moving(&self) -> bool {
        self.go.is_none()
    }
    /// How far it is.
    pub fn stage(&self, now: Instant) -> Stage {
        match (self.moving, self.is_planned) {
            (Some(since), _) => Stage::Moving(now.saturating_duration_since(since)),
            (None, true) => Stage::Ready,
            (None, false) => Stage::Planning,
        }
    }
    /// Ends it after the batches in hand.
    pub fn cancel(&self) {
        self.control.cancel.store(true, Ordering::Relaxed);
    }
    /// Whether it was told to end.
    pub fn is_cancelled(&self) -> bool {
        self.control.cancel.load(Ordering::Relaxed)
    }
    /// How far it is, with what holds it back at the moment. That is for watchers: no record keeps it.
    pub fn progress_now(&self, now: SystemTime) -> JobProgress {
        JobProgress { held_back: self.control.held_back(), ..self.progress(now) }
    }
    /// How far it is.
    pub fn progress(&self, now: SystemTime) -> JobProgress {
        JobProgress {
            planned_bytes: self.planned_bytes,
            moved_bytes: self.control.moved_bytes.load(Ordering::Relaxed),
            settled_bytes: self.control.settled_bytes.load(Ordering::Relaxed),
            held_back: String::new(),
            measured: now,
        }
    }
}

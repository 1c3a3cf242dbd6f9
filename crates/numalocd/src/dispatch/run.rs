//! Jobs that the engine is working on.

use super::queue::JobStage;
use crate::access::Caller;
use numaloc_api::value::{JobProgress, QosClass};
use numaloc_engine::{FoundTarget, Returned, Trail};
use numaloc_executor::Control;
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};
use tokio::{sync::oneshot, time::Instant};

/// Time that the planning of a cancelled job may take to end. Nothing has been moved by then. Its thread may wait in
/// the kernel for a process that does not answer, and ends when it returns from there.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Time that a cancelled run that moves may take to end. Its calls are left behind sooner, by the run itself. What
/// remains is a read of a page map that does not return. The run moves nothing more when it does.
const GIVE_UP_MOVING: Duration = Duration::from_secs(30);

/// A job that the engine is working on.
#[derive(Debug)]
pub struct Run {
    /// Cancels the run, and counts what it has done.
    pub control: Arc<Control>,
    /// The owner, with the rights it had when the run began.
    pub owner: Caller,
    /// Its class, lowered to what its owner could ask for when the run began.
    pub qos_class: QosClass,
    /// Signals the engine to move; `None` once that has been done.
    pub go: Option<oneshot::Sender<()>>,
    /// Whether the engine has planned it.
    pub is_planned: bool,
    /// Since when the job has been moving; `None` before.
    pub moving: Option<Instant>,
    /// The reason why the run is to end and go back into the queue, if it is.
    pub back: Option<&'static str>,
    /// The client that wants the job cancelled or paused, if one does. The record says what it wants.
    pub ended_by: Option<String>,
    /// Since when a client has wanted the job cancelled, if one does.
    pub cancelled: Option<Instant>,
    /// Its processes and nodes; before it is planned, only those known then.
    pub found: Option<FoundTarget>,
    /// Bytes that the plan is to move; 0 before it is planned.
    pub planned_bytes: u64,
    /// A note for users, also if the job goes well.
    pub note: Option<String>,
    /// The part of its schedule's last moves that it found moved back.
    pub returned: Option<Returned>,
    /// The trail of the run's moves.
    pub trail: Option<Arc<Trail>>,
    /// State last shown to clients that watch this job.
    pub shown: Shown,
    /// State last shown to clients that watch all jobs.
    pub listed: Shown,
}

/// The progress that watchers of a run were last shown.
#[derive(Clone, Debug)]
pub struct Shown {
    state: ShownState,
    at: Instant,
}

/// The progress of a run, as far as a change of it is news.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownState {
    pub settled_bytes: u64,
    /// The reason why it is slowed down at the moment; empty if it is not.
    pub held_back: String,
}

impl Shown {
    pub fn new(now: Instant) -> Self {
        Self { state: ShownState::default(), at: now }
    }

    /// Takes over `state` as what is shown, if it is another one and `pause` has passed. Gives back whether it is to be
    /// shown.
    pub fn take_news(&mut self, state: &ShownState, now: Instant, pause: Duration) -> bool {
        let is_news = *state != self.state && now >= self.at + pause;
        if is_news {
            (self.state, self.at) = (state.clone(), now);
        }
        is_news
    }
}

impl Run {
    /// Whether the engine was signalled to move.
    pub fn is_moving(&self) -> bool {
        self.go.is_none()
    }
    /// From when on a cancelled job that is being planned or moves is not waited for. `None`: it is not such a job.
    pub fn given_up(&self) -> Option<Instant> {
        let patience = match (self.is_moving(), self.is_planned) {
            (true, _) => GIVE_UP_MOVING,
            (false, false) => GIVE_UP,
            (false, true) => return None,
        };
        self.cancelled.map(|since| since + patience)
    }
    /// The stage that the queue counts it in.
    pub fn stage(&self, now: Instant) -> JobStage {
        match (self.moving, self.is_planned) {
            (Some(since), _) => JobStage::Moving(now.saturating_duration_since(since)),
            (None, true) => JobStage::Ready,
            (None, false) => JobStage::Planning,
        }
    }
    /// Ends the run after its current batches.
    pub fn cancel(&self) {
        self.control.cancel.store(true, Ordering::Relaxed);
    }
    /// Whether it was ordered to end.
    pub fn is_cancelled(&self) -> bool {
        self.control.cancel.load(Ordering::Relaxed)
    }
    /// Progress of the run, and what holds it back at the moment. Only for watchers: no record keeps what holds it
    /// back.
    pub fn progress_now(&self, now: SystemTime) -> JobProgress {
        JobProgress { held_back: self.control.held_back(), ..self.progress(now) }
    }
    /// The progress by the counters of its control.
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

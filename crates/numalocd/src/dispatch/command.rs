//! Commands: what clients have the dispatcher do, one after the other.

use crate::refusal::Refusal;
use numaloc_api::value::{Job, Schedule, Workload, WorkloadSpec};
use std::{fmt, sync::Arc};
use tokio::sync::oneshot;

/// The channel for an answer. If the caller has gone, the answer is dropped, but the change stays made.
pub type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// A job, and whether it was there before.
pub type Made = (Arc<Job>, bool);

/// A schedule, and whether it was there before.
pub type MadeSchedule = (Arc<Schedule>, bool);

/// The remaining step to register a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registering {
    /// Nothing: an earlier request with the same request_id has registered this.
    Done(Arc<Workload>),
    /// The workload to register, if the present one under its name still has this etag (empty: none is registered).
    Whole(Box<WorkloadSpec>, String),
}

/// The result of replacing a set of workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Workloads that are new or have changed.
    pub written: usize,
    /// Workloads that were registered with the same values already.
    pub unchanged: usize,
    /// Workloads of the previous set that the new one does not have.
    pub removed: usize,
}

/// An action of a client on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAction {
    /// The job ends after its current batches.
    Cancel,
    Pause,
    /// The job waits in the queue again, and is planned again when it is admitted.
    Resume,
}

/// The kinds of hold. An operator sets and clears each independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// No move begins; those under way continue to their end.
    Drain,
    /// No move begins, and those under way end after their current batches and go back into the queue.
    Pause,
}

/// Something that `S`, the dispatcher, does in its turn.
pub type DispatchWork<S> = Box<dyn FnOnce(&mut S) + Send>;

/// An entry in the dispatcher's queue. Each command answers its caller.
pub enum Command<S> {
    /// Changes no record. Questions that wait behind changes are answered first.
    Question(DispatchWork<S>),
    /// A change that has to be stored before its answer.
    Change(Change<S>),
    /// Ends runs after their current batches, then the dispatcher.
    Stop,
}

/// A change of records. Changes that wait together share a commit.
pub struct Change<S> {
    /// About how much it writes, in bytes.
    pub bytes: usize,
    /// Makes it, and answers its caller once it is stored.
    pub make: DispatchWork<S>,
}

impl<S> fmt::Debug for Command<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Question(_) => "Question",
            Self::Change(_) => "Change",
            Self::Stop => "Stop",
        })
    }
}

/// The refusal of calls once the daemon is stopping.
pub fn stopping() -> Refusal {
    Refusal::Unavailable { message: "the daemon is stopping".to_owned() }
}

//! Events for a pod, word for word as the contract has them.

use crate::ContainerResult;

/// An event for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// Normal or Warning.
    pub kind: EventKind,
    /// Its reason.
    pub reason: Reason,
    /// Its message: lines without an end of line after the last.
    pub message: String,
}

/// Types of Kubernetes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Information.
    Normal,
    /// Somebody should look into it.
    Warning,
}

/// Reasons of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Memory of at least one container was moved.
    Completed,
    /// Nothing was to be done for any container.
    Skipped,
    /// It failed for some, and was completed for none.
    Failed,
}

/// What became of a pod: of all of its containers that have a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResult {
    /// In the pod's order.
    pub containers: Vec<ContainerResult>,
    /// Whether it will be done again: the interval of a container's policy is above 0.
    pub repeats: bool,
}

impl PodResult {
    /// The reason of the event: completed if any container is, else failed if any is, else skipped.
    pub fn reason(&self) -> Reason {
        Reason::Skipped
    }
    /// Local share in percent of the memory of all containers, rounded up; -1 if it could not be read.
    pub fn ratio(&self) -> i64 {
        -1
    }
    /// Remote pages of 4 KiB of all containers.
    pub fn remote_pages(&self) -> u64 {
        0
    }
    /// The event.
    pub fn event(&self) -> PodEvent {
        PodEvent { kind: EventKind::Normal, reason: self.reason(), message: String::new() }
    }
}

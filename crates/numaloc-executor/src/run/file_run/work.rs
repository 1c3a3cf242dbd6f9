//! The bounds of a run over files: its own rate and that of all runs, pressure, and the room that other runs take.

use crate::{
    Control,
    limits::{bounded::CallBounds, rooms::SharedRooms},
    pace::pacer::Pacer,
    run::file_run::{FileRun, Unmapped},
    work::rest::Paced,
};
use numaloc_core::{NodeSet, Reason};
use numaloc_host::Roots;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

/// The limits of a run over files.
#[derive(Debug)]
pub struct FileWork<'a> {
    roots: &'a Roots,
    control: &'a Control,
    /// Decides how fast the run may go. Files have no processes, so the pressure of the whole host is watched.
    pub pacer: Pacer<'a>,
    /// Room on the nodes, as far as it is taken.
    pub rooms: Arc<SharedRooms>,
    deadline: Option<Instant>,
    budget_bytes: Option<u64>,
    /// The migration that it is a part of, if it is.
    unmapped: Option<Unmapped<'a>>,
}

impl<'a> FileWork<'a> {
    /// Begins a run that moves to nodes of `targets`.
    pub fn new(run: &FileRun<'a>, targets: &NodeSet) -> Self {
        let FileRun { roots, topology, options, limits, control, unmapped, .. } = *run;
        let nodes = topology.nodes().filter(|node| targets.contains(node.id));
        let nodes = nodes.map(|node| (node.id, node.cpus.clone())).collect();
        Self {
            roots,
            control,
            pacer: Pacer::new(roots, &options.pacing.pace(), &[], nodes, limits, control),
            rooms: limits.rooms.clone().unwrap_or_default(),
            deadline: limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            budget_bytes: limits.budget_bytes,
            unmapped,
        }
    }

    /// The bounds of the run's calls.
    pub fn bounds(&self) -> CallBounds<'_> {
        let Self { roots, control, deadline, .. } = *self;
        CallBounds { roots, control, calls: &self.rooms.calls, deadline }
    }
}

impl Paced for FileWork<'_> {
    fn pacer(&self) -> &Pacer<'_> {
        &self.pacer
    }

    fn control(&self) -> &Control {
        self.control
    }

    fn stop(&self) -> Option<Reason> {
        if self.control.cancel.load(Relaxed) {
            return Some(Reason::Cancelled);
        }
        if let Some(reason) = self.unmapped.and_then(|unmapped| (unmapped.stop)()) {
            return Some(reason);
        }
        if self.control.ended_with().is_some() {
            return Some(Reason::NotReturned);
        }
        let moved = self.control.moved_bytes.load(Relaxed);
        if self.budget_bytes.is_some_and(|budget| moved >= budget) {
            return Some(Reason::OutOfBudget);
        }
        self.deadline.filter(|deadline| Instant::now() >= *deadline).map(|_| Reason::OutOfTime)
    }
}

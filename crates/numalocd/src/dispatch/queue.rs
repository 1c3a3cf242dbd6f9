//! Whose turn it is: pure.

use crate::{config::Queue, engine::Found};
use numaloc_api::value::QosClass;
use numaloc_core::{Identity, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// A job that waits.
#[derive(Clone, Debug)]
pub struct Waiting<'a> {
    /// Its number: the lower, the older.
    pub number: u64,
    /// Its class.
    pub qos_class: QosClass,
    /// How many jobs of the same owner come before it in its class, those under way among them.
    pub turn: usize,
    /// Who and where, as far as known.
    pub found: Option<&'a Found>,
}

/// A job that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Active<'a> {
    /// Its number.
    pub number: u64,
    /// Its class.
    pub qos_class: QosClass,
    /// Who and where, as far as known.
    pub found: &'a Found,
}

/// What is taken: address spaces and nodes.
#[derive(Clone, Debug, Default)]
pub struct Taken<'a> {
    processes: BTreeSet<&'a Identity>,
    nodes: BTreeMap<NodeId, usize>,
    jobs: usize,
}

impl<'a> Taken<'a> {
    /// By jobs that are under way.
    pub fn by(active: impl IntoIterator<Item = &'a Found>) -> Self {
        let mut taken = Self::default();
        active.into_iter().for_each(|found| taken.add(found));
        taken
    }
    /// Takes what a job needs.
    pub fn add(&mut self, found: &'a Found) {
        self.jobs += 1;
        self.processes.extend(&found.processes);
        found.nodes.iter().for_each(|node| *self.nodes.entry(node).or_default() += 1);
    }
    /// Why a job has to wait, for people; `None`: it need not.
    pub fn blocks(&self, found: &Found, limits: &Queue) -> Option<String> {
        if let Some(process) =
            found.processes.iter().find(|process| self.processes.contains(process))
        {
            return Some(format!("another job is at work on process {}", process.pid));
        }
        let is_full =
            |node: &NodeId| self.nodes.get(node).is_some_and(|&jobs| jobs >= limits.moves_per_node);
        found
            .nodes
            .iter()
            .find(is_full)
            .map(|node| format!("node {} is taken by another job", node.0))
    }
}

/// Whether a job under way makes room while jobs of these classes are planned or moved, itself among them: best effort does
/// for all others.
pub fn makes_room(own: QosClass, active: &[QosClass]) -> bool {
    own == QosClass::Be && active.iter().any(|class| *class != QosClass::Be)
}

/// Best-effort jobs under way that have to go back into the queue, because jobs of other classes wait for what they have: a
/// process, a node or a place. No more of them than that takes, the youngest first.
pub fn preempted<'a>(waiting: &[Waiting<'a>], active: &[Active<'a>], limits: &Queue) -> Vec<u64> {
    let is_best_effort = |job: &Active<'a>| job.qos_class == QosClass::Be;
    let (own, others): (Vec<Active<'a>>, Vec<Active<'a>>) =
        active.iter().copied().partition(is_best_effort);
    let waiting: Vec<Waiting<'a>> =
        waiting.iter().filter(|job| job.qos_class != QosClass::Be).cloned().collect();
    let above = || others.iter().map(|job| job.found);
    let starting = next(waiting.clone(), above(), limits);
    let mut taken = Taken::by(above());
    for job in waiting.iter().filter(|job| starting.contains(&job.number)) {
        match job.found {
            Some(found) => taken.add(found),
            None => taken.jobs += 1,
        }
    }
    let mut back = Vec::new();
    // The oldest is asked first.
    for job in own.iter().filter(|_| !starting.is_empty()) {
        match taken.jobs < limits.moves && taken.blocks(job.found, limits).is_none() {
            true => taken.add(job.found),
            false => back.push(job.number),
        }
    }
    back
}

/// The numbers of the jobs to start now, in order: by class, then in turn by owner, then by age. What an earlier one has to
/// wait for is kept for it, so that none is passed over for ever; those that want other nodes go ahead of it.
pub fn next<'a>(
    mut waiting: Vec<Waiting<'a>>,
    active: impl IntoIterator<Item = &'a Found>,
    limits: &Queue,
) -> Vec<u64> {
    let mut taken = Taken::by(active);
    waiting.sort_by_key(|job| (job.qos_class, job.turn, job.number));
    let mut free = limits.moves.saturating_sub(taken.jobs);
    let mut next = Vec::new();
    for job in waiting {
        if free == 0 {
            break;
        }
        // One of which nothing is known yet is planned to find out.
        if job.found.is_none_or(|found| taken.blocks(found, limits).is_none()) {
            next.push(job.number);
            free -= 1;
        }
        job.found.into_iter().for_each(|found| taken.add(found));
    }
    next
}

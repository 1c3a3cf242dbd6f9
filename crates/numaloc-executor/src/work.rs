//! State that the workers share: the windows still to be visited, the room on the targets, and the conditions that end
//! a run early.

pub(crate) mod ledger;
pub(crate) mod report;
pub(crate) mod rest;
pub(crate) mod sample;
pub(crate) mod searches;
pub(crate) mod windows;

use crate::{
    Control, RunLimits,
    limits::{
        allowance::Allowance, assignment::Assignment, bounded::CallBounds, rooms::SharedRooms,
    },
    pace::pacer::Pacer,
    pages::{move_index::MoveIndex, row::Row},
    work::{
        rest::Paced,
        searches::Searches,
        windows::{WindowGroup, Windows},
    },
};
use numaloc_core::{CpuSet, Heat, Mappers, Move, Node, NodeId, NodeSet, Plan, Reason, Topology};
use numaloc_host::{NodeMemoryReader, Roots, probe};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

/// Shared by all workers of a run.
#[derive(Debug)]
pub struct Work<'a> {
    /// The machine's nodes and CPUs.
    pub topology: &'a Topology,
    /// The plan to carry out.
    pub plan: &'a Plan,
    pub limits: &'a RunLimits,
    /// Cancellation and progress, shared with the caller.
    pub control: &'a Control,
    /// Decides how fast the run may go.
    pub pacer: Pacer<'a>,
    /// Decides which of the plan's moves a page belongs to.
    pub move_index: MoveIndex,
    /// Number of threads that move pages when the run begins.
    pub workers: usize,
    /// The most that it may have later.
    pub most_workers: usize,
    /// Reads how much memory the nodes have.
    pub memory: &'a NodeMemoryReader,
    /// Room on the targets, as far as it is taken.
    pub rooms: Arc<SharedRooms>,
    /// Whether memory may be compacted for huge pages.
    pub compacts: bool,
    /// Where the host's files are read.
    pub roots: &'a Roots,
    /// Whether this kernel may use folios larger than a base page and smaller than a huge page for anonymous memory (mTHP).
    pub small_folios: bool,
    /// The pages that are left to find in reservations.
    pub searches: Searches,
    windows: Mutex<Windows<'a>>,
    claimed_bytes: AtomicU64,
    budget_bytes: Option<u64>,
    deadline: Option<Instant>,
}

/// The profile's number of threads, or fewer: never more threads than calls of a size that is worth one.
fn useful_workers(plan: &Plan, call_bytes: u64) -> usize {
    let call_bytes = call_bytes.min(windows::LEAST);
    let bytes: u64 = plan.moves.iter().map(Move::remote_bytes).sum();
    let calls = bytes.div_ceil(call_bytes.max(1)).try_into().unwrap_or(usize::MAX);
    plan.options.pacing.pace().workers.min(calls)
}

/// All nodes that the plan moves something to.
pub fn targets(plan: &Plan) -> NodeSet {
    let routes = plan.moves.iter().map(|planned_move| &plan.routes[planned_move.routes].targets);
    routes.fold(NodeSet::new(), |targets, more| targets.or(more))
}

impl Paced for Work<'_> {
    fn pacer(&self) -> &Pacer<'_> {
        &self.pacer
    }

    fn control(&self) -> &Control {
        self.control
    }

    fn stop(&self) -> Option<Reason> {
        Work::stop(self)
    }
}

impl<'a> Work<'a> {
    /// Begins at the plan's first window, in address order.
    pub fn new(run: Assignment<'a>) -> Self {
        let Assignment { roots, topology, memory, plan, survey, limits, control } = run;
        let targets = targets(plan);
        let cpus = |node: &Node| targets.contains(node.id).then(|| (node.id, node.cpus.clone()));
        let nodes = topology.nodes().filter_map(cpus).collect();
        let pids: Vec<i32> = survey.spaces.iter().map(|space| space.pid()).collect();
        let pace = plan.options.pacing.pace();
        let pacer = Pacer::new(roots, &pace, &pids, nodes, limits, control);
        let rooms = limits.rooms.clone().unwrap_or_default();
        let asked = plan.options.pacing.workers;
        let most_workers = plan.options.pacing.pace().most_workers;
        let workers = asked.unwrap_or_else(|| useful_workers(plan, pacer.most_bytes)).max(1);
        Self {
            topology,
            plan,
            move_index: MoveIndex::new(&plan.moves, &plan.common_stays),
            limits,
            control,
            windows: Mutex::new(Windows::by_address(&plan.moves, pacer.most_bytes, workers)),
            pacer,
            workers,
            most_workers: most_workers.max(workers),
            memory,
            compacts: plan.options.compact.applies(plan.options.pacing.profile),
            rooms,
            roots,
            small_folios: probe::small_folios(roots),
            searches: Searches::new(&plan.moves, survey.page_access.can_scan),
            claimed_bytes: AtomicU64::new(0),
            budget_bytes: limits.budget_bytes,
            deadline: limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        }
    }

    /// Begins again at the plan's first window, in the order of `heat`: the most used memory first.
    pub fn hottest_first(&self, heat: &Heat) {
        let (moves, bytes) = (&self.plan.moves, self.pacer.most_bytes);
        *self.windows.lock() = match &self.plan.options.relief {
            // What leaves a node for its room is still used from its CPUs; what leaves it for its traffic is to take that with it.
            Some(relief) if relief.returning_bytes.is_none() && !relief.measures_traffic() => {
                Windows::coldest_first(moves, bytes, heat)
            }
            _ => Windows::hottest_first(moves, bytes, heat),
        };
    }

    /// Cuts further windows for this many workers.
    pub fn share_among(&self, workers: usize) {
        self.windows.lock().share_among(workers);
    }

    /// Whether processes may share the page tables that show these folios.
    pub fn shares_tables(&self, row: &Row) -> bool {
        self.plan.moves[row.first.move_index].mappers != Mappers::Counted
    }

    /// The next windows to visit.
    pub fn next(&self) -> Option<WindowGroup> {
        let mut windows = self.windows.lock();
        let first = windows.find(|window| !self.searches.is_over(window.move_index))?;
        Some(windows.with_neighbours(first))
    }

    /// For each of the plan's moves: whether a part of it was not visited. Takes all remaining windows, so none is visited after
    /// this.
    pub fn take_unvisited(&self) -> Vec<bool> {
        let mut unvisited = vec![false; self.plan.moves.len()];
        self.windows.lock().by_ref().for_each(|window| unvisited[window.move_index] = true);
        unvisited
    }

    /// Why no further batch may begin; `None`: it may.
    pub fn stop(&self) -> Option<Reason> {
        if self.control.cancel.load(Ordering::Relaxed) {
            Some(Reason::Cancelled)
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(Reason::OutOfTime)
        } else if self.control.ended_with().is_some() {
            Some(Reason::NotReturned)
        } else if self.has_moved(self.budget_bytes) {
            Some(Reason::OutOfBudget)
        } else if self.has_moved(self.plan.limit_bytes) {
            let is_relief = self.plan.options.relief.is_some();
            Some(if is_relief { Reason::NotNeeded } else { Reason::RatioReached })
        } else if self.control.allowance.as_ref().is_some_and(Allowance::is_closed) {
            Some(Reason::NotNeeded)
        } else {
            None
        }
    }

    /// The bounds of the run's calls.
    pub fn bounds(&self) -> CallBounds<'_> {
        let Self { roots, control, deadline, .. } = *self;
        CallBounds { roots, control, calls: &self.rooms.calls, deadline }
    }

    /// CPUs of a node; empty if the node is unknown.
    pub fn target_cpus(&self, node: NodeId) -> CpuSet {
        self.topology.node(node).map(|node| node.cpus.clone()).unwrap_or_default()
    }

    /// Reserves up to `bytes` of the memory that may still be moved under a target ratio, an allowance or a budget, so that all
    /// workers together do not move more. Returns how much was reserved: 0 while other workers have reserved the
    /// rest, or while no more is allowed.
    pub fn claim(&self, bytes: u64) -> u64 {
        let allowed = self.control.allowance.as_ref().map(Allowance::bytes);
        let needed = allowed.or(self.plan.limit_bytes);
        let Some(limit) = needed.into_iter().chain(self.budget_bytes).min() else { return bytes };
        let grant = |claimed: u64| bytes.min(limit.saturating_sub(claimed));
        let add = |claimed| Some(claimed + grant(claimed));
        let (Ok(claimed) | Err(claimed)) =
            self.claimed_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        grant(claimed)
    }

    /// Ends a claim: gives back `claimed` bytes and counts the `moved` bytes. `moved` may be the larger one, because a folio is
    /// not divided.
    pub fn release(&self, claimed: u64, moved: u64) {
        self.claimed_bytes.fetch_add(moved, Ordering::Relaxed);
        self.claimed_bytes.fetch_sub(claimed, Ordering::Relaxed);
    }

    /// Whether the run has moved as much as one of its limits allows.
    fn has_moved(&self, limit: Option<u64>) -> bool {
        let moved = self.control.moved_bytes.load(Ordering::Relaxed);
        limit.is_some_and(|limit| moved >= limit)
    }
}

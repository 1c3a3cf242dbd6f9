//! What the workers share: the windows still to be visited, room, and what ends a run early.

use crate::{
    Control, Limits,
    cover::Cover,
    pacer::Pacer,
    windows::{Window, Windows},
};
use numaloc_core::{CpuSet, Heat, Move, Node, NodeId, NodeSet, Plan, Reason, Topology};
use numaloc_host::{Error, NodeMemoryReader, Roots, Survey, probe};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long it takes at most until a wait is broken off because the run is to stop.
const NAP: Duration = Duration::from_millis(5);

/// What pages are taken from: a node's free memory, or its pool of hugetlb pages of a size.
pub type Pool = (NodeId, Option<u64>);

/// Room in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// So many bytes may be put there.
    Granted(u64),
    /// Nobody can tell while others are putting pages there: some of these may show in its numbers already.
    Unsettled,
    /// It is full.
    None,
}

/// Shared by all workers of a run.
#[derive(Debug)]
pub struct Work<'a> {
    /// The machine.
    topology: &'a Topology,
    /// What is to be done.
    pub plan: &'a Plan,
    /// Bounds.
    pub limits: &'a Limits,
    /// Who watches.
    pub control: &'a Control,
    /// How fast it may go on.
    pub pacer: Pacer<'a>,
    /// Whose pages are whose.
    pub cover: Cover,
    /// Threads that do the work.
    pub workers: usize,
    /// How much memory nodes have.
    pub memory: NodeMemoryReader,
    /// Whether anonymous memory may come in folios between a base page and a huge one.
    pub small_folios: bool,
    windows: Mutex<Windows<'a>>,
    claimed_bytes: AtomicU64,
    in_flight: Mutex<BTreeMap<Pool, u64>>,
    deadline: Option<Instant>,
}

/// As many threads as the pace has, unless there is less to move than a call for each of them: a thread has its price.
fn useful_workers(plan: &Plan, call_bytes: u64) -> usize {
    let bytes: u64 = plan.moves.iter().map(Move::remote_bytes).sum();
    let calls = bytes.div_ceil(call_bytes.max(1)).try_into().unwrap_or(usize::MAX);
    plan.options.pacing.pace().workers.min(calls)
}

/// All nodes that something may be moved to.
pub fn targets(plan: &Plan) -> NodeSet {
    let routes = plan.moves.iter().map(|step| &plan.routes[step.routes].targets);
    routes.fold(NodeSet::new(), |targets, more| targets.or(more))
}

impl<'a> Work<'a> {
    /// Begins at the plan's first window, and goes by address.
    ///
    /// # Errors
    /// If the memory of nodes cannot be read.
    pub fn new(
        roots: &'a Roots,
        topology: &'a Topology,
        plan: &'a Plan,
        survey: &Survey,
        limits: &'a Limits,
        control: &'a Control,
    ) -> Result<Self, Error> {
        let targets = targets(plan);
        let cpus = |node: &Node| targets.contains(node.id).then(|| (node.id, node.cpus.clone()));
        let nodes = topology.nodes().filter_map(cpus).collect();
        let pacer = Pacer::new(roots, plan, survey, nodes, limits, control);
        let workers =
            limits.workers.unwrap_or_else(|| useful_workers(plan, pacer.most_bytes)).max(1);
        Ok(Self {
            topology,
            plan,
            cover: Cover::new(&plan.moves, &plan.common_stays),
            limits,
            control,
            windows: Mutex::new(Windows::by_address(&plan.moves, pacer.most_bytes, workers)),
            pacer,
            workers,
            memory: NodeMemoryReader::new(roots)?,
            small_folios: probe::small_folios(roots),
            claimed_bytes: AtomicU64::new(0),
            in_flight: Mutex::default(),
            deadline: limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        })
    }

    /// Goes by `heat` from now on, from the plan's first window.
    pub fn hottest_first(&self, heat: &Heat) {
        *self.windows() = Windows::hottest_first(&self.plan.moves, self.pacer.most_bytes, heat);
    }

    /// The next window to visit.
    pub fn next(&self) -> Option<Window> {
        self.windows().next()
    }

    /// For each of the plan's moves, whether a part of it has not been visited. Nothing will be, from now on.
    pub fn take_unvisited(&self) -> Vec<bool> {
        let mut unvisited = vec![false; self.plan.moves.len()];
        self.windows().by_ref().for_each(|window| unvisited[window.step] = true);
        unvisited
    }

    fn windows(&self) -> MutexGuard<'_, Windows<'a>> {
        self.windows.lock().expect("no worker panics while it holds the windows")
    }

    /// Why no further batch may begin.
    pub fn stop(&self) -> Option<Reason> {
        if self.control.cancel.load(Ordering::Relaxed) {
            Some(Reason::Cancelled)
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(Reason::OutOfTime)
        } else if self.ratio_is_reached() {
            Some(Reason::RatioReached)
        } else {
            None
        }
    }

    /// CPUs of a node.
    pub fn target_cpus(&self, node: NodeId) -> CpuSet {
        self.topology.node(node).map(|node| node.cpus.clone()).unwrap_or_default()
    }

    /// Reserves up to `bytes` of what may still be moved under a target ratio, so that workers together do not move
    /// more; 0 while others have reserved all that is left.
    pub fn claim(&self, bytes: u64) -> u64 {
        let Some(limit) = self.plan.limit_bytes else { return bytes };
        let grant = |claimed: u64| bytes.min(limit.saturating_sub(claimed));
        let add = |claimed| Some(claimed + grant(claimed));
        let (Ok(claimed) | Err(claimed)) =
            self.claimed_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        grant(claimed)
    }

    /// Gives back what was claimed and not moved. More may have been moved than was claimed: a folio is not divided.
    pub fn release(&self, claimed: u64, moved: u64) {
        self.claimed_bytes.fetch_add(moved, Ordering::Relaxed);
        self.claimed_bytes.fetch_sub(claimed, Ordering::Relaxed);
    }

    /// Takes up to `bytes` of what a pool has left (`room`, in bytes) beside what other workers are about to put
    /// there, but nothing less than `folio_bytes`. What was taken is given back by [`Self::landed`].
    pub fn take_room(
        &self,
        pool: Pool,
        bytes: u64,
        folio_bytes: u64,
        room: impl FnOnce() -> u64,
    ) -> Room {
        let mut in_flight = self.in_flight.lock().expect("no worker panics while it holds this");
        // Read under the lock: pages that have landed show in the room, others still count as in flight.
        let room = room();
        let taken = in_flight.entry(pool).or_default();
        let granted = bytes.min(room.saturating_sub(*taken));
        if granted >= folio_bytes {
            *taken += granted;
            Room::Granted(granted)
        } else if *taken > 0 {
            Room::Unsettled
        } else {
            Room::None
        }
    }

    /// The call is over: what it has put into the pool shows in the pool's own numbers now.
    pub fn landed(&self, pool: Pool, bytes: u64) {
        let mut in_flight = self.in_flight.lock().expect("no worker panics while it holds this");
        *in_flight.entry(pool).or_default() -= bytes;
    }

    /// Waits so long; no longer than until the run is to stop.
    pub fn wait(&self, pause: Duration) {
        let begin = Instant::now();
        while self.stop().is_none()
            && let Some(left) = pause.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
        {
            thread::sleep(left.min(NAP));
        }
    }

    fn ratio_is_reached(&self) -> bool {
        let moved = self.control.moved_bytes.load(Ordering::Relaxed);
        self.plan.limit_bytes.is_some_and(|limit| moved >= limit)
    }
}

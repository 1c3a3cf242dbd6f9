//! What the workers share: the windows still to be visited, and what ends a run early.

use crate::{Control, Limits, rate::Rate};
use numaloc_core::{CpuSet, HUGE, Move, NodeId, Plan, Reason, Topology};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long it takes at most until a wait is broken off because the run is to stop.
const NAP: Duration = Duration::from_millis(5);

/// A stretch of an extent that is scanned at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Index of the extent among the plan's moves.
    pub step: usize,
    /// Bytes from the extent's start.
    pub range: Range<u64>,
}

/// Hands out windows in the plan's order.
#[derive(Debug)]
pub struct Windows<'p> {
    moves: &'p [Move],
    batch_bytes: u64,
    step: usize,
    offset: u64,
}

/// Largest window: what a worker keeps in mind of it stays under 20 MiB, should it be full of base pages.
const WINDOW_MAX: u64 = 1 << 30;

impl<'p> Windows<'p> {
    /// Windows that hold about `batch_bytes` of remote memory each, by the plan: so the number of windows follows
    /// what is touched of an extent and not what is reserved.
    pub fn new(moves: &'p [Move], batch_bytes: u64) -> Self {
        Self { moves, batch_bytes: batch_bytes.max(HUGE), step: 0, offset: 0 }
    }
}

impl Iterator for Windows<'_> {
    type Item = Window;

    /// The next window. It ends at a multiple of the huge page size in the first mapping, so that no folio is in two.
    fn next(&mut self) -> Option<Window> {
        let step = self.moves.get(self.step)?;
        let start = step.mappings[0].start;
        let unit = step.hugetlb_bytes.unwrap_or(HUGE).max(HUGE);
        let sparseness = step.bytes / step.remote_bytes().max(1);
        let bytes = self
            .batch_bytes
            .saturating_mul(sparseness.max(1))
            .min(WINDOW_MAX.max(self.batch_bytes));
        let end = (start + self.offset + bytes).next_multiple_of(unit) - start;
        let window = Window { step: self.step, range: self.offset..end.min(step.bytes) };
        self.offset = end;
        if end >= step.bytes {
            (self.step, self.offset) = (self.step + 1, 0);
        }
        Some(window)
    }
}

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
    /// Largest number of bytes in one call, as the limits and the rate have it; a single folio may be larger.
    pub batch_bytes: u64,
    windows: Mutex<Windows<'a>>,
    claimed_bytes: AtomicU64,
    in_flight: Mutex<BTreeMap<Pool, u64>>,
    rate: Option<Mutex<Rate>>,
    begin: Instant,
    deadline: Option<Instant>,
}

impl<'a> Work<'a> {
    /// Begins at the plan's first window.
    pub fn new(
        topology: &'a Topology,
        plan: &'a Plan,
        limits: &'a Limits,
        control: &'a Control,
    ) -> Self {
        let rate = limits.rate_bytes_per_second.map(Rate::new);
        let most = rate.as_ref().map_or(u64::MAX, Rate::batch_bytes);
        let batch_bytes = limits.batch_bytes.min(most);
        let begin = Instant::now();
        Self {
            topology,
            plan,
            limits,
            control,
            batch_bytes,
            windows: Mutex::new(Windows::new(&plan.moves, batch_bytes)),
            claimed_bytes: AtomicU64::new(0),
            in_flight: Mutex::default(),
            rate: rate.map(Mutex::new),
            begin,
            deadline: limits.timeout.and_then(|timeout| begin.checked_add(timeout)),
        }
    }

    /// The next window to visit.
    pub fn next(&self) -> Option<Window> {
        self.windows.lock().expect("no worker panics while it holds the windows").next()
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

    /// Waits until the rate lets `bytes` through; no longer than until the run is to stop.
    pub fn pay(&self, bytes: u64) {
        let Some(rate) = &self.rate else { return };
        let now = self.begin.elapsed();
        let begin = rate.lock().expect("no worker panics while it holds this").take(now, bytes);
        self.wait_until(begin);
    }

    /// Sleeps for so long; no longer than until the run is to stop.
    pub fn rest(&self, pause: Duration) {
        self.wait_until(self.begin.elapsed().saturating_add(pause));
    }

    fn wait_until(&self, end: Duration) {
        while self.stop().is_none()
            && let Some(left) = end.checked_sub(self.begin.elapsed()).filter(|left| !left.is_zero())
        {
            thread::sleep(left.min(NAP));
        }
    }

    fn ratio_is_reached(&self) -> bool {
        let moved = self.control.moved_bytes.load(Ordering::Relaxed);
        self.plan.limit_bytes.is_some_and(|limit| moved >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Kind, Mapping};

    fn step(start: u64, bytes: u64, remote_bytes: u64, hugetlb_bytes: Option<u64>) -> Move {
        let mappings = vec![Mapping { process: 0, start }];
        let remote = [(NodeId(1), remote_bytes)].into();
        let (kind, name) = (Kind::Anonymous, "".into());
        Move { mappings, bytes, kind, hugetlb_bytes, name, routes: 0, remote, shared_bytes: 0 }
    }

    #[test]
    fn windows_cover_each_extent_once_and_end_at_huge_pages() {
        let moves = [
            step(HUGE - 4096, 9 * HUGE, 9 * HUGE, None),
            step(0, 4096, 4096, None),
            step(1 << 30, 2 << 30, 2 << 30, Some(1 << 30)),
        ];
        let windows: Vec<Window> = Windows::new(&moves, 4 * HUGE).collect();
        let of = |step| {
            windows
                .iter()
                .filter(move |window| window.step == step)
                .map(|window| window.range.clone())
        };
        let first: Vec<_> = of(0).collect();
        assert_eq!(
            first,
            [0..4096 + 4 * HUGE, 4096 + 4 * HUGE..4096 + 8 * HUGE, 4096 + 8 * HUGE..9 * HUGE]
        );
        assert_eq!(of(1).collect::<Vec<_>>(), vec![0..4096]);
        assert_eq!(of(2).collect::<Vec<_>>(), [0..1 << 30, 1 << 30..2 << 30]);
    }

    #[test]
    fn windows_follow_what_is_touched() {
        let count = |bytes, remote| Windows::new(&[step(0, bytes, remote, None)], 16 << 20).count();
        assert_eq!(count(1 << 30, 1 << 30), 64);
        assert_eq!(count(1 << 30, 1 << 24), 1);
        assert_eq!(count(100 << 30, 100 << 20), 100);
    }
}

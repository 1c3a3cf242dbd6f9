//! Room on a full target, by page cache that the kernel drops.
//!
//! A node whose free memory falls below its low watermark wakes its kswapd, which drops cache that was not used recently until
//! the high watermark is free again (mm/vmscan.c, `balance_pgdat`). So calls may take free memory down to a floor between the
//! min and the low watermark, and then wait for kswapd. Below the min watermark a call would have to reclaim on its own
//! (mm/page_alloc.c, `__alloc_pages_slowpath`), while the application waits for the pages that the call has taken away. Where a
//! run may ask the node itself for room it does that instead ([`Reclaim`]).

use crate::{
    limits::{
        drops::{Drops, Lately, stop},
        rooms::SharedRooms,
    },
    room::reclaim::Reclaim,
};
use numaloc_core::{CacheStop, NodeId};
use numaloc_host::{Reclaimed, Roots, reclaimed};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// How long free memory may fail to grow before a node counts as full.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often at least the worker has looked by then. Where it gets little CPU time, kswapd most often gets little as well, and makes
/// nothing free for a while. With time enough, a worker looks about this often in half of [`PATIENCE`].
const LOOKS: u32 = 200;
/// After this long without growth a call takes the little that is free beyond the low watermark. kswapd may sleep then: only an
/// allocation below that watermark wakes it, and others may have taken memory until the rest was too little for a call.
const NUDGE: Duration = Duration::from_millis(50);
/// The longest that a worker waits for one call's room in all. Memory that others free looks like kswapd's work, and others
/// may take it, too.
const LONGEST: Duration = Duration::from_secs(10);
/// Free memory has grown if it rose by this many bytes in all. What others took meanwhile does not count against it.
const RISE: u64 = 1 << 20;
/// How often in a row a worker waits in vain before a run drops no more cache on a node.
const STUCK_MOST: u32 = 3;

/// How often the counters of a node are compared while its cache is dropped.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether a node's kswapd still makes memory free. Another run may take each time what has become free: then free memory goes up
/// and down, never above what it was at the beginning, and kswapd is still at work. So all rises are added up.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    free_bytes: u64,
    risen_bytes: u64,
    /// When free memory has grown last, and the looks at it since.
    since: Instant,
    looks: u32,
    begin: Instant,
}

impl Patience {
    /// Begins to wait, with so much free.
    pub fn new(free_bytes: u64, now: Instant) -> Self {
        Self { free_bytes, risen_bytes: 0, since: now, looks: 0, begin: now }
    }

    /// Whether kswapd may have to be woken.
    pub fn is_quiet(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= NUDGE
    }

    /// Whether to wait on, with so much free by now.
    pub fn lasts(&mut self, free_bytes: u64, now: Instant) -> bool {
        self.risen_bytes += free_bytes.saturating_sub(self.free_bytes);
        self.free_bytes = free_bytes;
        if self.risen_bytes >= RISE {
            (self.risen_bytes, self.since, self.looks) = (0, now, 0);
        }
        self.looks += 1;
        let waited = |since| now.saturating_duration_since(since);
        let is_patient = waited(self.since) < PATIENCE || self.looks < LOOKS;
        is_patient && waited(self.begin) < LONGEST
    }
}

/// What a run has had dropped, by node.
#[derive(Debug)]
pub struct Dropped {
    nodes: Mutex<BTreeMap<NodeId, NodeDrops>>,
    /// That of all runs.
    rooms: Arc<SharedRooms>,
}

#[derive(Debug)]
struct NodeDrops {
    before: Option<Reclaimed>,
    /// By this run, and by others just before it.
    bytes: u64,
    looked: Instant,
    way: Reclaim,
    /// How often workers have waited in vain since something came to the node.
    stuck: u32,
    stop: Option<CacheStop>,
}

impl NodeDrops {
    fn new(roots: &Roots, node: NodeId, now: Instant, drops: &Drops) -> Self {
        let counters = reclaimed(roots, node);
        let Lately { before, bytes, .. } = drops.begin(node, counters, now);
        let stop = before.zip(counters).and_then(|(before, now)| stop(before, now, bytes));
        Self { before, bytes, looked: now, way: Reclaim::of(roots, node), stuck: 0, stop }
    }
}

impl Dropped {
    /// Nothing yet by this run. `rooms` has what other runs have dropped.
    pub fn new(rooms: &Arc<SharedRooms>) -> Self {
        Self { nodes: Mutex::default(), rooms: rooms.clone() }
    }

    /// Why no more is to be dropped on a node, if so. The counters are read the first time and then now and then.
    pub fn stop(&self, roots: &Roots, node: NodeId) -> Option<CacheStop> {
        let mut nodes = self.nodes();
        let now = Instant::now();
        let new = || NodeDrops::new(roots, node, now, &self.rooms.drops);
        let of_node = nodes.entry(node).or_insert_with(new);
        if of_node.stop.is_none() && now.saturating_duration_since(of_node.looked) >= LOOK_EVERY {
            of_node.looked = now;
            let counters = of_node.before.zip(reclaimed(roots, node));
            of_node.stop = counters.and_then(|(before, now)| stop(before, now, of_node.bytes));
        }
        of_node.stop
    }

    /// How cache on a node is dropped at the moment.
    pub fn way(&self, roots: &Roots, node: NodeId) -> Reclaim {
        let new = || NodeDrops::new(roots, node, Instant::now(), &self.rooms.drops);
        self.nodes().entry(node).or_insert_with(new).way
    }

    /// A worker has waited in vain on a node. Returns whether there is another way to try.
    pub fn other_way(&self, node: NodeId) -> bool {
        let mut nodes = self.nodes();
        let of_node = nodes.get_mut(&node).filter(|of_node| of_node.way == Reclaim::Ask);
        of_node.map(|of_node| of_node.way = Reclaim::Kswapd).is_some()
    }

    /// So many bytes more have come to a node in place of cache.
    pub fn add(&self, node: NodeId, bytes: u64) {
        self.rooms.drops.add(node, bytes);
        self.nodes().entry(node).and_modify(|of_node| {
            of_node.bytes += bytes;
            of_node.stuck = if bytes > 0 { 0 } else { of_node.stuck };
        });
    }

    /// A worker has waited in vain for room on a node. Each batch would wait again; so after some nobody does any more.
    pub fn stuck(&self, node: NodeId) {
        self.nodes().entry(node).and_modify(|of_node| {
            of_node.stuck += 1;
            if of_node.stuck >= STUCK_MOST {
                of_node.stop.get_or_insert(CacheStop::Stuck);
            }
        });
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, NodeDrops>> {
        self.nodes.lock().expect("no worker panics while it holds this")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::PAGE;

    #[test]
    fn patience_begins_anew_when_memory_becomes_free() {
        let begin = Instant::now();
        let mut patience = Patience::new(9 * RISE, begin);
        patience.looks = LOOKS;
        assert!(patience.lasts(9 * RISE, begin + PATIENCE / 2));
        assert!(patience.lasts(10 * RISE, begin + PATIENCE));
        patience.looks = LOOKS;
        assert!(patience.lasts(5 * RISE, begin + PATIENCE * 3 / 2));
        assert!(!patience.lasts(5 * RISE + 1, begin + PATIENCE * 2), "that is nothing");
        assert!(patience.is_quiet(begin + PATIENCE * 2) && !patience.is_quiet(begin + PATIENCE));
    }

    #[test]
    fn a_worker_that_could_look_a_few_times_only_waits_longer() {
        let begin = Instant::now();
        let mut patience = Patience::new(0, begin);
        let each = LONGEST / (2 * LOOKS);
        let looks = (1..).take_while(|look| patience.lasts(0, begin + each * *look)).count();
        assert_eq!(looks as u32, LOOKS - 1);
        let mut starved = Patience::new(0, begin);
        assert!(!starved.lasts(0, begin + LONGEST), "not forever");
    }

    #[test]
    fn patience_does_not_end_because_others_take_what_becomes_free() {
        let begin = Instant::now();
        let mut patience = Patience::new(8 * RISE, begin);
        let step = PATIENCE / 2;
        for round in 1..10 {
            let free = if round % 2 == 0 { 8 * RISE } else { 0 };
            assert!(patience.lasts(free, begin + step * round), "{round}");
        }
        let mut greedy = Patience::new(0, begin);
        let steps = LONGEST.div_duration_f64(step) as u32;
        let lasts =
            (1..=steps).all(|round| greedy.lasts(u64::from(round) * RISE, begin + step * round));
        assert!(!lasts, "it ends at last");
    }

    #[test]
    fn who_waits_in_vain_again_and_again_gives_up() {
        let dropped = Dropped::new(&Arc::default());
        let (roots, node) = (Roots::default(), NodeId(u32::MAX));
        assert_eq!(dropped.stop(&roots, node), None);
        assert!(!dropped.other_way(node), "nobody may ask this node");
        dropped.stuck(node);
        dropped.add(node, PAGE);
        (1..STUCK_MOST).for_each(|_| dropped.stuck(node));
        assert_eq!(dropped.stop(&roots, node), None);
        dropped.stuck(node);
        assert_eq!(dropped.stop(&roots, node), Some(CacheStop::Stuck));
    }
}

//! Room on a full target, by page cache that the kernel drops.
//!
//! A node whose free memory falls below its low watermark wakes its kswapd, which drops cache that was not used recently until
//! the high watermark is free again (mm/vmscan.c, `balance_pgdat`). So calls may take free memory down to a floor between the
//! min and the low watermark, and then wait for kswapd. Below the min watermark a call would have to reclaim on its own
//! (mm/page_alloc.c, `__alloc_pages_slowpath`), while the application waits for the pages that the call has taken away. Where a
//! run may ask the node itself for room it does that instead ([`Reclaim`]).
//!
//! Where it may not, a run that bounds neither stalls nor the cache that it drops has its calls reclaim, as migratepages(8) does. Several
//! of them reclaim at the same time, and none waits for kswapd. The kernel kills no process for a page on this node alone
//! (mm/page_alloc.c, `__alloc_pages_may_oom`, __GFP_THISNODE): the call fails, and the run continues as others do.

use crate::{
    limits::{
        drops::{Drops, Lately},
        rooms::SharedRooms,
    },
    room::{
        Making, Need, PAUSE, RoomMaker, TargetMemory,
        reclaim::{Reclaim, ask_for_room},
    },
    work::{ledger::Ledger, rest::Rests},
};
use numaloc_core::{CacheStop, CallStats, NodeId, Pacing, Supply, page_size};
use numaloc_host::{Roots, reclaimed};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Number of vain waits in a row before a run drops no more cache on a node.
const STUCK_MOST: u32 = 3;

/// Time between two comparisons of a node's counters while its cache is dropped.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Page cache that a run has had dropped, by node.
#[derive(Debug)]
pub struct DroppedCache<'a> {
    roots: &'a Roots,
    /// Whether calls may take more base pages than are free, and reclaim.
    calls_reclaim: bool,
    nodes: Mutex<BTreeMap<NodeId, NodeDrops>>,
    /// The bytes that all runs of this process are about to put on each node.
    rooms: Arc<SharedRooms>,
}

#[derive(Debug)]
struct NodeDrops {
    /// By this run, and by others just before it.
    lately: Lately,
    looked: Instant,
    reclaim: Reclaim,
    /// Whether calls drop it, until the kernel refuses one.
    in_calls: bool,
    /// Number of vain waits of workers since memory came to the node.
    stuck: u32,
    stop: Option<CacheStop>,
}

impl NodeDrops {
    fn new(roots: &Roots, node: NodeId, now: Instant, drops: &Drops, in_calls: bool) -> Self {
        let counters = reclaimed(roots, node);
        let lately = drops.begin(node, counters, now);
        let (reclaim, stop) = (Reclaim::of(roots, node), lately.stop(counters));
        let in_calls = in_calls && reclaim == Reclaim::Kswapd;
        Self { lately, looked: now, reclaim, in_calls, stuck: 0, stop }
    }
}

impl RoomMaker for DroppedCache<'_> {
    fn room(&self, target: &TargetMemory, need: &Need<'_>) -> u64 {
        let Ok((reclaim, in_calls)) = self.look(target.node) else { return 0 };
        if in_calls && need.folio_bytes <= page_size() {
            return target.free_room() + target.cache_room();
        }
        // A kswapd that sleeps is woken by a call that takes the little that is above the floor.
        let may_sleep = need.patience.is_some_and(|patience| patience.is_quiet(Instant::now()));
        let wanted = if may_sleep { 0 } else { need.call_bytes };
        target.free_room().max(reclaim.above_floor(&target.memory, wanted).min(target.cache_room()))
    }

    /// A node that is asked for room makes it while calls are under way. Memory that a kswapd frees goes to them first.
    fn waits_for_calls(&self, node: NodeId) -> bool {
        self.nodes.lock().get(&node).is_none_or(|of_node| of_node.reclaim != Reclaim::Ask)
    }

    /// Asks the node to drop cache, or waits a moment while its kswapd does.
    fn make(&self, need: &mut Need<'_>, rests: &mut Rests<'_>, ledger: &mut Ledger<'_>) -> Making {
        let node = need.node;
        let target = TargetMemory::read(need.work, node, Supply::base()).ok_or(None)?;
        if target.cache_room() < need.folio_bytes {
            return Err(CacheStop::Spent.into());
        }
        if !need.lasts(target.memory.free_bytes) {
            if self.fall_back(node) {
                need.patience = None;
                return Ok(());
            }
            self.stuck(node);
            return Err(CacheStop::Stuck.into());
        }
        let mut is_made = false;
        if self.look(node)?.0 == Reclaim::Ask {
            is_made = ask_for_room(need.work, node, &target.memory, need.call_bytes);
            ledger.calls().reclaims += 1;
            // The time counts as the worker's own.
            rests.rest();
        }
        if !is_made {
            rests.pause(PAUSE);
        }
        Ok(())
    }

    fn pay(&self, bytes: u64, rests: &mut Rests<'_>) {
        rests.pay(bytes);
        rests.pay_for_drops(bytes);
    }

    fn is_in_calls(&self, node: NodeId) -> bool {
        self.look(node).is_ok_and(|(_, in_calls)| in_calls)
    }

    fn refused(&self, node: NodeId) {
        self.nodes.lock().entry(node).and_modify(|of_node| of_node.in_calls = false);
    }

    fn came(&self, node: NodeId, bytes: u64, calls: &mut CallStats) {
        calls.cache_bytes += bytes;
        self.rooms.drops.add(node, bytes);
        self.nodes.lock().entry(node).and_modify(|of_node| {
            of_node.lately.bytes += bytes;
            of_node.stuck = if bytes > 0 { 0 } else { of_node.stuck };
        });
    }
}

impl<'a> DroppedCache<'a> {
    /// Nothing yet by this run. `rooms` has what other runs have dropped.
    pub fn new(roots: &'a Roots, pacing: &Pacing, rooms: &Arc<SharedRooms>) -> Self {
        let calls_reclaim =
            pacing.pace().drop_bytes_per_second.is_none() && pacing.max_stall.is_none();
        Self { roots, calls_reclaim, nodes: Mutex::default(), rooms: rooms.clone() }
    }

    /// The way to drop cache on a node at the moment and whether calls do it, or why no more is to be dropped. The
    /// counters are read the first time and then now and then.
    fn look(&self, node: NodeId) -> Result<(Reclaim, bool), CacheStop> {
        let mut nodes = self.nodes.lock();
        let now = Instant::now();
        let new = || NodeDrops::new(self.roots, node, now, &self.rooms.drops, self.calls_reclaim);
        let of_node = nodes.entry(node).or_insert_with(new);
        if of_node.stop.is_none() && now.saturating_duration_since(of_node.looked) >= LOOK_EVERY {
            of_node.looked = now;
            of_node.stop = of_node.lately.stop(reclaimed(self.roots, node));
        }
        of_node.stop.map_or(Ok((of_node.reclaim, of_node.in_calls)), Err)
    }

    /// A worker has waited in vain on a node. Leaves it to kswapd from now on; false if that was so already.
    fn fall_back(&self, node: NodeId) -> bool {
        let mut nodes = self.nodes.lock();
        let of_node = nodes.get_mut(&node).filter(|of_node| of_node.reclaim == Reclaim::Ask);
        of_node.map(|of_node| of_node.reclaim = Reclaim::Kswapd).is_some()
    }

    /// A worker has waited in vain for room on a node. Each batch would wait again; so after a few batches no worker
    /// waits again.
    fn stuck(&self, node: NodeId) {
        self.nodes.lock().entry(node).and_modify(|of_node| {
            of_node.stuck += 1;
            if of_node.stuck >= STUCK_MOST {
                of_node.stop.get_or_insert(CacheStop::Stuck);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::Profile;

    #[test]
    fn calls_of_a_run_without_bounds_reclaim_until_one_is_refused() {
        let (roots, node) = (Roots::default(), NodeId(u32::MAX));
        let in_calls = |pacing: Pacing| {
            let dropped = DroppedCache::new(&roots, &pacing, &Arc::default());
            let before = dropped.is_in_calls(node);
            dropped.refused(node);
            assert!(!dropped.is_in_calls(node));
            before
        };
        let fast = Pacing { profile: Profile::Fast, ..Pacing::default() };
        assert!(in_calls(fast));
        assert!(!in_calls(Pacing { max_stall: Some(PAUSE), ..fast }));
        assert!(!in_calls(Pacing::default()));
    }

    #[test]
    fn who_waits_in_vain_again_and_again_gives_up() {
        let (roots, node, mut calls) = (Roots::default(), NodeId(u32::MAX), CallStats::default());
        let dropped = DroppedCache::new(&roots, &Pacing::default(), &Arc::default());
        let stop = || dropped.look(node).err();
        assert_eq!(stop(), None);
        assert!(!dropped.fall_back(node), "no process may ask this node");
        dropped.stuck(node);
        dropped.came(node, page_size(), &mut calls);
        (1..STUCK_MOST).for_each(|_| dropped.stuck(node));
        assert_eq!(stop(), None);
        dropped.stuck(node);
        assert_eq!(stop(), Some(CacheStop::Stuck));
        assert_eq!(calls.cache_bytes, page_size());
    }
}

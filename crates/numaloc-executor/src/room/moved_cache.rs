//! Room on a full target, by page cache that moves to another node.
//!
//! Cache of files that processes use is mapped a piece at a time, without reading it and without reading any of it from the disk,
//! and what lies on the target goes to another node by move_pages(2). That is a copy in memory: a process that uses the file finds it
//! cached as before. The other node is never filled: it keeps its high watermark and reserve free.

mod walk;

use crate::{
    room::{
        Making, Need, PAUSE, RoomMaker, TargetMemory,
        moved_cache::walk::{PieceEnd, Walk},
    },
    work::{ledger::Ledger, rest::Rests},
};
use numaloc_core::{
    CacheStop, CallStats, NodeId, NodeMemory, NodeSet, Supply, Topology,
    cache_move::{AHEAD, others},
    exchange::Balance,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// As long as less than this has become free and more can, calls wait for more: each has a price.
const ENOUGH: u64 = 16 << 20;

/// The page cache that a run moves away from its targets.
#[derive(Debug)]
pub struct MovedCache {
    /// Nodes that it may go to.
    others: NodeSet,
    numbers: Mutex<BTreeMap<NodeId, Numbers>>,
    /// Files still to be looked at. One worker at a time has them, for longer than others may wait.
    walks: Mutex<BTreeMap<NodeId, Walk>>,
}

/// Bytes that have left a node, and bytes that have come there.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// Bytes that have left the node, and bytes that have come.
    balance: Balance,
    /// Why no more is available, if so.
    stop: Option<CacheStop>,
}

impl RoomMaker for MovedCache {
    fn room(&self, target: &TargetMemory, need: &Need<'_>) -> u64 {
        target.free_room().max(self.vacated(target.node, &target.memory, need.call_bytes))
    }

    /// Moves a piece of page cache away from the node, or waits a moment while another worker does.
    fn make(&self, need: &mut Need<'_>, rests: &mut Rests<'_>, ledger: &mut Ledger<'_>) -> Making {
        let node = need.node;
        let Numbers { balance, stop } = self.of(node);
        if stop.is_some() {
            return Err(stop);
        }
        if balance.vacated_bytes() >= AHEAD {
            // Others take what has become free.
            let target = TargetMemory::read(need.work, node, Supply::base()).ok_or(None)?;
            if !need.lasts(target.memory.free_bytes) {
                self.end(node, CacheStop::Stuck);
            }
            rests.pause(PAUSE);
            return Ok(());
        }
        let Some(mut walks) = self.walks.try_lock() else {
            rests.pause(PAUSE);
            return Ok(());
        };
        match walks.entry(node).or_default().step(node, &self.others, need.work, rests) {
            PieceEnd::Moved(to, bytes) => {
                ledger.cache_moved(node, to, bytes);
                self.left(node, bytes);
            }
            PieceEnd::Nothing => {}
            PieceEnd::Busy => {
                rests.pause(PAUSE);
            }
            PieceEnd::End(stop) => self.end(node, stop),
        }
        drop(walks);
        rests.rest();
        Ok(())
    }

    fn came(&self, node: NodeId, bytes: u64, _: &mut CallStats) {
        self.numbers.lock().entry(node).or_default().balance.in_bytes += bytes;
    }
}

impl MovedCache {
    /// Nothing has moved yet. `targets`: those of the run.
    pub fn new(topology: &Topology, targets: &NodeSet) -> Self {
        let others = others(topology, targets);
        Self { others, numbers: Mutex::default(), walks: Mutex::default() }
    }

    /// Bytes that a node, with this memory, can take for cache that has left it, if `wanted` bytes are to be moved.
    fn vacated(&self, node: NodeId, memory: &NodeMemory, wanted: u64) -> u64 {
        let Numbers { balance, stop } = self.of(node);
        let bytes = balance.room(memory);
        if stop.is_some() || bytes >= wanted.min(ENOUGH) { bytes } else { 0 }
    }

    /// Notes that bytes of cache have left a node.
    fn left(&self, node: NodeId, bytes: u64) {
        self.numbers.lock().entry(node).or_default().balance.out_bytes += bytes;
    }

    /// No more is available on a node.
    fn end(&self, node: NodeId, stop: CacheStop) {
        self.numbers.lock().entry(node).or_default().stop.get_or_insert(stop);
    }

    /// Bytes that have left a node, and bytes that have come there.
    fn of(&self, node: NodeId) -> Numbers {
        self.numbers.lock().get(&node).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::Node;

    const NODE: NodeId = NodeId(0);
    const MIB: u64 = 1 << 20;

    fn moved_cache() -> MovedCache {
        let node = |id| Node {
            id: NodeId(id),
            cpus: id.to_string().parse().expect("a list"),
            memory: NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() },
        };
        MovedCache::new(&Topology::new([node(0), node(1)], []), &[NODE].into_iter().collect())
    }

    fn memory(free_bytes: u64) -> NodeMemory {
        NodeMemory { free_bytes, low_watermark_bytes: 2 * MIB, ..NodeMemory::default() }
    }

    #[test]
    fn what_has_left_is_room_until_as_much_has_come() {
        let moved = moved_cache();
        let come = |bytes| moved.came(NODE, bytes, &mut CallStats::default());
        assert_eq!(moved.others, [NodeId(1)].into_iter().collect());
        assert_eq!(moved.vacated(NODE, &memory(90 * MIB), MIB), 0);
        moved.left(NODE, 24 * MIB);
        assert_eq!(moved.vacated(NODE, &memory(90 * MIB), 64 * MIB), 24 * MIB);
        assert_eq!(moved.vacated(NodeId(1), &memory(90 * MIB), MIB), 0, "that is of node 0");
        come(20 * MIB);
        assert_eq!(moved.vacated(NODE, &memory(90 * MIB), MIB), 4 * MIB);
        come(4 * MIB);
        assert_eq!(moved.vacated(NODE, &memory(90 * MIB), MIB), 0);
    }

    #[test]
    fn kswapd_is_not_woken() {
        let moved = moved_cache();
        moved.left(NODE, 24 * MIB);
        assert_eq!(moved.vacated(NODE, &memory(20 * MIB), 64 * MIB), 18 * MIB);
        assert_eq!(moved.vacated(NODE, &memory(2 * MIB), MIB), 0);
    }

    #[test]
    fn little_is_room_only_when_no_more_can_come() {
        let moved = moved_cache();
        moved.left(NODE, 5 * MIB);
        assert_eq!(moved.vacated(NODE, &memory(90 * MIB), 8 * MIB), 0);
        assert_eq!(moved.vacated(NODE, &memory(90 * MIB), 4 * MIB), 5 * MIB);
        moved.end(NODE, CacheStop::NoFiles);
        moved.end(NODE, CacheStop::Stuck);
        assert_eq!(moved.vacated(NODE, &memory(90 * MIB), 8 * MIB), 5 * MIB);
        assert_eq!(moved.of(NODE).stop, Some(CacheStop::NoFiles), "the first reason counts");
    }
}

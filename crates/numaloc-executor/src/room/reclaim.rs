//! Ways to drop page cache on a full target: the kernel's kswapd does it automatically, or the run asks for it.

use crate::{limits::calls::Subject, work::Work};
use numaloc_core::{NodeId, NodeMemory};
use numaloc_host::{Roots, node_room};

/// Most bytes that are dropped by one request: a cancel takes effect between two of them.
const CHUNK: u64 = 16 << 20;
/// Fewer are not asked for at once.
const CHUNK_LEAST: u64 = 1 << 20;

/// The way to drop page cache on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// The run asks the node for it before each batch (nodeN/reclaim), where it may. Then free memory stays above the high
    /// watermark: what others allocate there neither wakes kswapd nor goes to another node, anonymous memory is not swapped out
    /// even if vm.swappiness has kswapd do so, and a node whose watermarks are close together does not make the run wait for
    /// each few MiB.
    Ask,
    /// Calls take free memory down to between the min and the low watermark, which wakes kswapd, and wait for it.
    Kswapd,
}

impl Reclaim {
    /// The first that is available on a node.
    pub fn of(roots: &Roots, node: NodeId) -> Self {
        if node_room::can_reclaim(roots, node) { Self::Ask } else { Self::Kswapd }
    }

    /// Bytes below which calls take nothing.
    fn floor(self, memory: &NodeMemory) -> u64 {
        match self {
            Self::Ask => memory.high_watermark_bytes,
            Self::Kswapd => u64::midpoint(memory.min_watermark_bytes, memory.low_watermark_bytes),
        }
    }

    /// Free memory of a node that calls may take before more has to be made free, of `wanted` bytes (0: whatever there is). Nothing as
    /// long as it is little: kswapd continues until the high watermark is free, a chunk is asked for as a whole, and calls have a price.
    pub fn above_floor(self, memory: &NodeMemory, wanted: u64) -> u64 {
        let floor = self.floor(memory);
        let free = memory.free_bytes.saturating_sub(floor);
        let worth_it = match self {
            Self::Ask => CHUNK,
            Self::Kswapd => memory.high_watermark_bytes.saturating_sub(floor),
        } / 2;
        if free >= wanted.min(worth_it) { free } else { 0 }
    }
}

/// Bytes to ask a node for, so that up to `wanted` bytes fit.
fn chunk(memory: &NodeMemory, wanted: u64) -> u64 {
    let needed = memory.high_watermark_bytes + wanted.min(CHUNK);
    needed.saturating_sub(memory.free_bytes).clamp(CHUNK_LEAST, CHUNK)
}

/// Has a node drop page cache. Returns whether it did; else another task reclaims there, or there is not as much.
pub fn ask_for_room(work: &Work<'_>, node: NodeId, memory: &NodeMemory, wanted: u64) -> bool {
    let bytes = chunk(memory, wanted);
    let (request, subject) = (node_room::reclaim(work.roots, node, bytes), Subject::Node(node));
    let asked = work.bounds().call(&mut None, "a write to nodeN/reclaim", &subject, request);
    tracing::debug!(node = node.0, bytes, ?asked, "reclaim");
    asked.is_ok_and(|asked| asked.is_ok_and(|answer| answer.result.is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(free_bytes: u64) -> NodeMemory {
        NodeMemory {
            free_bytes,
            min_watermark_bytes: 40,
            low_watermark_bytes: 60,
            high_watermark_bytes: 80,
            ..NodeMemory::default()
        }
    }

    #[test]
    fn calls_stop_between_the_min_and_the_low_watermark_and_wait_for_kswapd() {
        let above_floor = |free, wanted| Reclaim::Kswapd.above_floor(&memory(free), wanted);
        assert_eq!(above_floor(100, 1000), 50);
        assert_eq!(above_floor(50, 1000), 0);
        assert_eq!(above_floor(10, 1000), 0);
        assert_eq!(above_floor(64, 1000), 0, "kswapd is at work");
        assert_eq!(above_floor(65, 1000), 15);
        assert_eq!(above_floor(55, 5), 5, "no more is wanted");
        assert_eq!(above_floor(64, 0), 14, "kswapd may sleep");
    }

    #[test]
    fn who_asks_stays_above_the_high_watermark() {
        let above_floor = |free, wanted| Reclaim::Ask.above_floor(&memory(free), wanted);
        assert_eq!(above_floor(80, 1), 0);
        assert_eq!(above_floor(90, 10), 10);
        assert_eq!(above_floor(90, 11), 0);
        assert_eq!(above_floor(80 + CHUNK / 2, 4 * CHUNK), CHUNK / 2);
    }

    #[test]
    fn what_is_asked_for_suffices_for_the_next_call() {
        for (free, wanted) in [(0, 4 << 20), (80, 2 << 20), (10 << 20, 64 << 20), (80, 64 << 20)] {
            let free = free + chunk(&memory(free), wanted);
            assert!(Reclaim::Ask.above_floor(&memory(free), wanted) > 0, "{free} {wanted}");
        }
        assert_eq!(chunk(&memory(1 << 40), 1), CHUNK_LEAST);
    }
}

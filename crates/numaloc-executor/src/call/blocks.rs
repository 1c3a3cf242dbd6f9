//! Sees to it that a target has free blocks before huge pages go there.

use crate::{
    limits::compaction::{LONGEST, Next},
    work::{Work, ledger::Ledger, rest::Rests},
};
use numaloc_core::{NodeId, Supply};
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// Longest pause of a waiting worker before it looks again.
const NAP: Duration = Duration::from_millis(5);

/// Sees to it, as far as the options allow, that a target has free blocks for the huge pages that are still to move. Waits for a
/// bounded time.
pub fn make_huge_pages(
    work: &Work<'_>,
    rests: &mut Rests<'_>,
    ledger: &mut Ledger<'_>,
    node: NodeId,
) {
    if !work.compacts {
        return;
    }
    let compaction = &work.rooms.compaction;
    let free = || {
        let memory = work.memory.read_for(node, Supply::base()).unwrap_or_default();
        memory.free_bytes.saturating_sub(memory.high_watermark_bytes)
    };
    // Other pages may have moved. At worst too few blocks are asked for.
    let moved = work.control.moved_bytes.load(Ordering::Relaxed);
    let wanted = work.plan.huge_bytes.saturating_sub(moved).max(work.pacer.most_bytes);
    let next = compaction.begin(work.roots, node, wanted, free);
    if next == Next::Go {
        return;
    }
    let begin = Instant::now();
    while compaction.is_running(node) && begin.elapsed() < LONGEST && work.stop().is_none() {
        rests.pause(NAP);
    }
    ledger.calls().compactions += u64::from(next == Next::Begun);
    ledger.calls().compaction_wait += begin.elapsed();
}

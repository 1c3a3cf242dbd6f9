//! The page cache that all runs of one process have had dropped of a node, and whether it is read again.

use numaloc_core::{CacheStop, NodeId, page_size};
use numaloc_host::Reclaimed;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Up to this share of the dropped cache, in percent, may be read again at once. Beyond, the cache was in use.
const REFAULT_PERCENT: u64 = 10;
/// Fewer pages than these that were read again say nothing.
const REFAULTS_MIN: u64 = 1024;

/// Drops of runs that follow each other within this time count together: each of them alone may drop too little to
/// tell.
const TOGETHER: Duration = Duration::from_secs(60);

/// The recent drops of the runs of one process, by node.
#[derive(Debug, Default)]
pub struct Drops(Mutex<BTreeMap<NodeId, Lately>>);

/// The drops on a node since its counters were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lately {
    /// The counters at that time.
    before: Option<Reclaimed>,
    since: Instant,
    /// Number of bytes dropped.
    pub bytes: u64,
}

impl Drops {
    /// The state that a run starts from that drops cache on a node from now on, when the node's counters are
    /// `reclaimed`.
    pub fn begin(&self, node: NodeId, reclaimed: Option<Reclaimed>, now: Instant) -> Lately {
        let mut nodes = self.0.lock();
        let new = Lately { before: reclaimed, since: now, bytes: 0 };
        let lately = nodes.entry(node).or_insert(new);
        if now.saturating_duration_since(lately.since) >= TOGETHER {
            *lately = new;
        }
        *lately
    }

    /// Adds bytes that have come to a node in place of cache.
    pub fn add(&self, node: NodeId, bytes: u64) {
        self.0.lock().entry(node).and_modify(|lately| lately.bytes += bytes);
    }
}

impl Lately {
    /// Why no more cache is to be dropped on the node whose counters are `now`, if so. Others cause such counts, too: they are a
    /// reason to leave the node alone all the same.
    pub fn stop(&self, now: Option<Reclaimed>) -> Option<CacheStop> {
        let (before, now) = self.before.zip(now)?;
        let refaults = now.refaulted_pages.saturating_sub(before.refaulted_pages);
        let most = (self.bytes / page_size() * REFAULT_PERCENT / 100).max(REFAULTS_MIN);
        if now.swapped_out_pages > before.swapped_out_pages {
            Some(CacheStop::Swap)
        } else {
            (refaults > most).then_some(CacheStop::Refaults)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_follow_each_other_count_together() {
        let (drops, node, begin) = (Drops::default(), NodeId(0), Instant::now());
        let counters = |refaulted_pages| Some(Reclaimed { swapped_out_pages: 0, refaulted_pages });
        // Each drops a MiB, all of which is read again.
        let run = |number: u64, at: Duration| {
            let lately = drops.begin(node, counters(number * 256), begin + at);
            drops.add(node, 1 << 20);
            lately.stop(counters(number * 256))
        };
        let second = |number: u64| run(number, Duration::from_secs(number));
        let stops: Vec<_> = (0..6).map(second).collect();
        assert_eq!(stops, [None, None, None, None, None, Some(CacheStop::Refaults)]);
        assert_eq!(run(100, TOGETHER), None, "that was long ago");
    }

    #[test]
    fn cache_that_is_read_again_is_left_alone_and_so_is_a_node_that_swaps() {
        let before = Reclaimed { swapped_out_pages: 7, refaulted_pages: 100 };
        let since = |bytes| Lately { before: Some(before), since: Instant::now(), bytes };
        let after = |swapped, refaulted| {
            let now = Reclaimed {
                swapped_out_pages: before.swapped_out_pages + swapped,
                refaulted_pages: before.refaulted_pages + refaulted,
            };
            since(100 << 20).stop(Some(now))
        };
        assert_eq!(after(0, 0), None);
        assert_eq!(after(0, 2560), None);
        assert_eq!(after(0, 2561), Some(CacheStop::Refaults));
        assert_eq!(after(1, 0), Some(CacheStop::Swap));
        assert_eq!(since(0).stop(Some(before)), None);
    }
}

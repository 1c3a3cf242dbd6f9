//! Ends the search in a reservation where holes cost as much to read as memory does (before Linux 6.7, which has PAGEMAP_SCAN).
//!
//! The plan knows the number of a reservation's remote pages, by numa_maps, and not which pages they are. A heap
//! fills its reservation from one end: once all of them were found, the rest is a hole, and it may have terabytes.
//! Memory that comes to the reservation during the run may be found instead of memory that the plan has counted: that
//! memory stays for the next run, as any change after a plan does.

use numaloc_core::{Move, reservation::is_reservation};
use std::sync::atomic::{AtomicU64, Ordering};

/// The searches of all moves of a plan.
#[derive(Debug)]
pub struct Searches {
    /// By move: the remote bytes of a reservation that were not found yet. `None`: a move that is searched to its end.
    missing: Vec<Option<AtomicU64>>,
}

impl Searches {
    /// Nothing was found yet. `passes_holes`: whether the kernel passes over holes, so that all are searched to their ends.
    pub fn new(moves: &[Move], passes_holes: bool) -> Self {
        let missing = |planned_move: &Move| {
            let bytes = planned_move.remote_bytes();
            let is_ended = !passes_holes && is_reservation(planned_move.away.bytes(), bytes);
            is_ended.then(|| AtomicU64::new(bytes))
        };
        Self { missing: moves.iter().map(missing).collect() }
    }

    /// Counts remote bytes that were found in a window of this move.
    pub fn found(&self, move_index: usize, bytes: u64) {
        if let Some(missing) = &self.missing[move_index] {
            let rest = |missing: u64| Some(missing.saturating_sub(bytes));
            missing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).ok();
        }
    }

    /// Whether there is nothing more to find in the windows of this move.
    pub fn is_over(&self, move_index: usize) -> bool {
        let missing = self.missing[move_index].as_ref();
        missing.is_some_and(|missing| missing.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Chunks, Kind, Mapping, NodeId, Pages, page_size};

    fn planned_move(bytes: u64, remote_bytes: u64) -> Move {
        Move {
            mappings: vec![Mapping { process: 0, start: 0 }],
            pages: Pages::All,
            bytes,
            kind: Kind::Anonymous,
            hugetlb_bytes: None,
            mappers: Default::default(),
            stripe: None,
            rule: None,
            name: "".into(),
            routes: 0,
            remote: [(NodeId(1), remote_bytes)].into(),
            shared_bytes: 0,
            away: Chunks::whole(0, bytes),
        }
    }

    #[test]
    fn a_search_ends_with_the_last_page_of_a_reservation_and_of_nothing_else() {
        const TIB: u64 = 1 << 40;
        let moves = [
            planned_move(16 * TIB, 2 * page_size()),
            planned_move(TIB, TIB / 2),
            planned_move(page_size(), page_size()),
        ];
        let searches = Searches::new(&moves, false);
        let over = |searches: &Searches| [0, 1, 2].map(|index| searches.is_over(index));
        searches.found(0, page_size());
        searches.found(1, TIB);
        searches.found(2, page_size());
        assert_eq!(over(&searches), [false; 3]);
        searches.found(0, 3 * page_size());
        assert_eq!(over(&searches), [true, false, false]);
        let searches = Searches::new(&moves, true);
        searches.found(0, TIB);
        assert_eq!(over(&searches), [false; 3], "the kernel passes over holes");
    }
}

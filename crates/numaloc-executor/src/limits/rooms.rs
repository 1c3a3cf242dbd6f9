//! Room on the targets, shared out among the workers of a run, and among runs of one process into the same nodes.

use crate::limits::{calls::SharedCalls, compaction::Compaction, drops::Drops};
use numaloc_core::NodeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The source of pages on a target: the node's free memory (`None`), or its pool of hugetlb pages of this size in
/// bytes.
pub type Pool = (NodeId, Option<u64>);

/// Bytes that a call may put into a pool now.
#[derive(Debug, PartialEq, Eq)]
pub enum Room<'a> {
    /// These bytes may be put there.
    Granted(Reservation<'a>),
    /// Not known: others are putting pages there, and some of these pages may show in the pool's numbers already.
    Unsettled,
    /// Nothing fits any more, counting what others are about to put there.
    None,
}

/// Bytes on their way to each pool. Runs that share this do not take the same free memory twice: on a full node two
/// calls that did would go below the min watermark, and reclaim by themselves while the application waits.
///
/// Free memory is not given out in an order: the first run to ask gets it. Each asks again within milliseconds, and
/// no run holds a reservation but for one call.
///
/// The effects of runs on a node as a whole are bounded for all of them together: compaction, and page cache that is
/// dropped. Calls that do not return concern all of them, too.
#[derive(Debug, Default)]
pub struct SharedRooms {
    in_flight: Mutex<BTreeMap<Pool, u64>>,
    /// Memory that was compacted for huge pages.
    pub(crate) compaction: Compaction,
    /// Page cache that was dropped for room.
    pub(crate) drops: Drops,
    /// Calls that have not returned.
    pub(crate) calls: SharedCalls,
}

impl SharedRooms {
    /// Reserves up to `bytes` in a pool. `room` gives the pool's free bytes; what others are about to put there is taken off.
    /// Grants nothing below `folio_bytes`. `waits`: whether a call without any room waits for the calls of others.
    pub(crate) fn take(
        &self,
        pool: Pool,
        bytes: u64,
        folio_bytes: u64,
        waits: bool,
        room: impl FnOnce() -> u64,
    ) -> Room<'_> {
        let mut in_flight = self.in_flight.lock();
        // Read under the lock: a page that has landed is missing from the room already, and any other page still counts as in
        // flight.
        let room = room();
        let taken = in_flight.entry(pool).or_default();
        let granted = bytes.min(room.saturating_sub(*taken));
        if granted >= folio_bytes {
            *taken += granted;
            Room::Granted(Reservation { rooms: self, pool, bytes: granted })
        } else if *taken > 0 && (waits || room >= folio_bytes) {
            Room::Unsettled
        } else {
            Room::None
        }
    }
}

/// A reservation in a pool. It ends when it is dropped: after the call, when what this put into the pool shows in the pool's own
/// numbers. Or when the worker panics: others would wait for it forever.
#[derive(Debug, PartialEq, Eq)]
pub struct Reservation<'a> {
    rooms: &'a SharedRooms,
    pool: Pool,
    pub bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        *self.rooms.in_flight.lock().entry(self.pool).or_default() -= self.bytes;
    }
}

/// Two are equal if they are the same; to have the same reservations is not enough.
impl PartialEq for SharedRooms {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for SharedRooms {}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(room: Room<'_>) -> Reservation<'_> {
        let Room::Granted(reservation) = room else { panic!("{room:?}") };
        reservation
    }

    #[test]
    fn nothing_is_granted_twice() {
        let rooms = SharedRooms::default();
        let (pool, other) = ((NodeId(0), None), (NodeId(0), Some(2 << 20)));
        let take = |pool, room| rooms.take(pool, 60, 1, true, || room);
        let (first, second) = (granted(take(pool, 100)), granted(take(pool, 100)));
        assert_eq!((first.bytes, second.bytes), (60, 40));
        assert_eq!(take(pool, 100), Room::Unsettled);
        assert_eq!(granted(take(other, 100)).bytes, 60, "a pool of its own");
        drop(first);
        assert_eq!(take(pool, 40), Room::Unsettled, "what landed is not free");
        drop(second);
        assert_eq!(take(pool, 0), Room::None);
    }

    #[test]
    fn who_does_not_wait_for_others_learns_that_nothing_is_free() {
        let (rooms, pool) = (SharedRooms::default(), (NodeId(0), None));
        let other = granted(rooms.take(pool, 60, 4, true, || 60));
        let take = |waits, room| rooms.take(pool, 60, 4, waits, || room);
        assert_eq!((take(true, 3), take(false, 3)), (Room::Unsettled, Room::None));
        assert_eq!(take(false, 60), Room::Unsettled, "what the other does not need may remain");
        drop(other);
    }
}

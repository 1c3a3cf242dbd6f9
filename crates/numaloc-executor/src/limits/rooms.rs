//! Room on the targets, shared out among the workers of a run, and among runs of one process into the same nodes.

use crate::limits::{compaction::Compaction, drops::Drops};
use numaloc_core::NodeId;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

/// What pages on a target are taken from: the node's free memory (`None`), or its pool of hugetlb pages of this size in bytes.
pub type Pool = (NodeId, Option<u64>);

/// How many bytes a call may put into a pool now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// This many bytes may be put there.
    Granted(u64),
    /// Not known: others are putting pages there, and some of these pages may show in the pool's numbers already.
    Unsettled,
    /// Nothing fits any more, counting what others are about to put there.
    None,
}

/// What is on its way to each pool. Runs that share this do not take the same free memory twice: on a full node two calls
/// that did would go below the min watermark, and reclaim by themselves while the application waits.
///
/// Who may take what is free is not put in order: the first to ask gets it. Each asks again within milliseconds, and nobody holds a
/// reservation but for one call.
///
/// What runs do to a node as a whole is bounded for all of them together: compaction, and page cache that is dropped.
#[derive(Debug, Default)]
pub struct SharedRooms {
    in_flight: Mutex<BTreeMap<Pool, u64>>,
    /// Memory that was compacted for huge pages.
    pub(crate) compaction: Compaction,
    /// Page cache that was dropped for room.
    pub(crate) drops: Drops,
}

impl SharedRooms {
    /// Reserves up to `bytes` in a pool. `room` gives the pool's free bytes; what others are about to put there is taken off.
    /// Grants nothing below `folio_bytes`. [`Self::landing`] ends the reservation.
    pub(crate) fn take(
        &self,
        pool: Pool,
        bytes: u64,
        folio_bytes: u64,
        room: impl FnOnce() -> u64,
    ) -> Room {
        let mut in_flight = self.in_flight();
        // Read under the lock: a page that has landed is missing from the room already, and any other page still counts as in
        // flight.
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

    /// Ends a reservation when the returned value is dropped: after the call, when what it put into the pool shows in the pool's
    /// own numbers. Or when the worker panics: others would wait for it forever.
    pub(crate) fn landing(&self, pool: Pool, bytes: u64) -> Landing<'_> {
        Landing { rooms: self, pool, bytes }
    }

    fn in_flight(&self) -> MutexGuard<'_, BTreeMap<Pool, u64>> {
        self.in_flight.lock().expect("no worker panics while it holds this")
    }
}

/// Bytes that one call is about to put into a pool. Dropping this value releases them.
#[derive(Debug)]
pub(crate) struct Landing<'a> {
    rooms: &'a SharedRooms,
    pool: Pool,
    bytes: u64,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        *self.rooms.in_flight().entry(self.pool).or_default() -= self.bytes;
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

    #[test]
    fn nothing_is_granted_twice() {
        let rooms = SharedRooms::default();
        let (pool, other) = ((NodeId(0), None), (NodeId(0), Some(2 << 20)));
        assert_eq!(rooms.take(pool, 60, 1, || 100), Room::Granted(60));
        assert_eq!(rooms.take(pool, 60, 1, || 100), Room::Granted(40));
        assert_eq!(rooms.take(pool, 60, 1, || 100), Room::Unsettled);
        assert_eq!(rooms.take(other, 60, 1, || 100), Room::Granted(60), "a pool of its own");
        drop(rooms.landing(pool, 60));
        assert_eq!(rooms.take(pool, 60, 1, || 40), Room::Unsettled, "what landed is not free");
        drop(rooms.landing(pool, 40));
        assert_eq!(rooms.take(pool, 60, 1, || 0), Room::None);
    }
}

//! Room on full target nodes: how much of a node a call may take, and how more is made.
//!
//! A worker states its [`Need`], and a [`RoomMaker`] answers: what the node can take, more of it, or that there will be no more. There
//! is one for each [`MakeRoom`]. It keeps what has left each node, what has come in its place, and why it has stopped there. All
//! workers of a run share the makers.

pub(crate) mod cache;
pub(crate) mod exchange;
pub(crate) mod moved_cache;
pub(crate) mod patience;
pub(crate) mod reclaim;

use crate::{
    limits::rooms::{Pool, Room},
    room::{cache::DroppedCache, exchange::Exchange, moved_cache::MovedCache, patience::Patience},
    work::{Work, ledger::Ledger, rest::Rests, targets},
};
use numaloc_core::{CacheStop, CallStats, MakeRoom, NodeId, NodeMemory, Reserve, Supply};
use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Pause before a worker looks again at a node where the kernel or other workers make room.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether room was made, or is being made. If not: why no more page cache goes, if it was to make room.
pub type Making = Result<(), Option<CacheStop>>;

/// Makes room on target nodes in one way, for all workers of a run. By default nothing is done.
pub trait RoomMaker: Debug + Sync {
    /// Bytes that a target can take now.
    fn room(&self, target: &TargetMemory, _: &Need<'_>) -> u64 {
        target.free_room()
    }

    /// Whether a call for which a target has no room at all waits for the calls of others to end before [`Self::make`] makes some: it does
    /// where they would take what is made.
    fn waits_for_calls(&self, _: NodeId) -> bool {
        true
    }

    /// Makes room for a need that found none, or waits a moment while others do.
    ///
    /// # Errors
    /// No room is made on the target, or no more.
    fn make(&self, _: &mut Need<'_>, _: &mut Rests<'_>, _: &mut Ledger<'_>) -> Making {
        Err(None)
    }

    /// Waits until the pace allows `bytes` to come, or until the run must stop.
    fn pay(&self, bytes: u64, rests: &mut Rests<'_>) {
        rests.pay(bytes);
    }

    /// Whether calls themselves make the room that they take on a node.
    fn is_in_calls(&self, _: NodeId) -> bool {
        false
    }

    /// The kernel had no page on a target for which there seemed to be room. From now on calls make none there.
    fn refused(&self, _: NodeId) {}

    /// Counts bytes that have come to a target.
    fn came(&self, _: NodeId, _: u64, _: &mut CallStats) {}
}

/// Leaves a full node as it is.
#[derive(Debug)]
struct FreeOnly;

impl RoomMaker for FreeOnly {
    /// None is made, whatever they leave.
    fn waits_for_calls(&self, _: NodeId) -> bool {
        false
    }
}

/// The ways to make room for a run.
#[derive(Debug)]
pub struct RoomMakers<'a> {
    work: &'a Work<'a>,
    dropped_cache: DroppedCache<'a>,
    moved_cache: MovedCache,
    exchange: Option<&'a Exchange>,
}

impl<'a> RoomMakers<'a> {
    /// They have made none yet. `exchange`: others who may be asked for room.
    pub fn new(work: &'a Work<'a>, exchange: Option<&'a Exchange>) -> Self {
        let dropped_cache = DroppedCache::new(work.roots, &work.plan.options.pacing, &work.rooms);
        let moved_cache = MovedCache::new(work.topology, &targets(work.plan));
        Self { work, dropped_cache, moved_cache, exchange }
    }

    /// The need for room on `node`, for hugetlb pages of this size or for others.
    pub fn need(
        &'a self,
        node: NodeId,
        hugetlb_bytes: Option<u64>,
        make_room: MakeRoom,
    ) -> Need<'a> {
        let maker: &dyn RoomMaker = match (make_room, self.exchange) {
            (MakeRoom::Cache, _) => &self.dropped_cache,
            (MakeRoom::MoveCache, _) => &self.moved_cache,
            (MakeRoom::Exchange, Some(exchange)) => exchange,
            (MakeRoom::None, _) | (MakeRoom::Exchange, None) => &FreeOnly,
        };
        let (work, supply) = (self.work, self.work.plan.options.supply(hugetlb_bytes));
        // Where hugetlb pages may also come from free memory, all count as free memory: the room may then be estimated too low while
        // other workers put pages there, but never too high.
        let pool = (node, hugetlb_bytes.filter(|_| !supply.free_memory));
        let (call_bytes, folio_bytes, waiting_bytes, patience) = (0, 0, 0, None);
        let is_in_call = false;
        Need {
            work,
            maker,
            node,
            supply,
            pool,
            call_bytes,
            folio_bytes,
            waiting_bytes,
            patience,
            is_in_call,
        }
    }
}

/// The need of a worker on a node, for one call after the other.
#[derive(Debug)]
pub struct Need<'a> {
    work: &'a Work<'a>,
    pub maker: &'a dyn RoomMaker,
    node: NodeId,
    supply: Supply,
    pool: Pool,
    /// Bytes of the call that room is made for.
    call_bytes: u64,
    /// Bytes of its first folio. Less room is of no use.
    folio_bytes: u64,
    /// Bytes that wait for the node, the call included.
    waiting_bytes: u64,
    /// Time that the call has waited.
    patience: Option<Patience>,
    /// Whether the call makes its room itself.
    is_in_call: bool,
}

impl<'a> Need<'a> {
    /// The kernel had no page for the call. Returns whether the same call would find room that is made in another way.
    pub fn refused(&self) -> bool {
        self.maker.refused(self.node);
        self.is_in_call
    }

    /// Reserves up to `bytes` for a call whose first folio has `folio_bytes`.
    pub fn take(&mut self, bytes: u64, folio_bytes: u64) -> Room<'a> {
        (self.call_bytes, self.folio_bytes) = (bytes, folio_bytes);
        // Before the room is found: another worker's call may be refused in between.
        self.is_in_call = self.maker.is_in_calls(self.node);
        let waits = self.maker.waits_for_calls(self.node);
        let room = self.work.rooms.take(self.pool, bytes, folio_bytes, waits, || {
            let target = TargetMemory::read(self.work, self.node, self.supply);
            target.map_or(0, |target| self.maker.room(&target, self))
        });
        if matches!(room, Room::Granted(_)) {
            self.patience = None;
        }
        room
    }

    /// Has room made for the call that found none, or waits a moment for it. `waiting_bytes` wait, the call included.
    ///
    /// # Errors
    /// As [`RoomMaker::make`]; the ledger keeps the first reason.
    pub fn make(
        &mut self,
        waiting_bytes: u64,
        rests: &mut Rests<'_>,
        ledger: &mut Ledger<'_>,
    ) -> Making {
        self.waiting_bytes = waiting_bytes;
        let made = self.maker.make(self, rests, ledger);
        if let Err(Some(stop)) = made {
            ledger.calls().cache_stop.get_or_insert(stop);
        }
        made
    }

    /// Whether to wait on for a number that grows as room is made.
    fn lasts(&mut self, progress: u64) -> bool {
        let now = Instant::now();
        self.patience.get_or_insert_with(|| Patience::new(progress, now)).lasts(progress, now)
    }
}

/// Memory of a node as it was read just now, and what of it has to stay free.
#[derive(Debug)]
pub struct TargetMemory {
    node: NodeId,
    memory: NodeMemory,
    supply: Supply,
    reserve: Reserve,
}

impl TargetMemory {
    /// Reads what serves `supply`. `None` if it cannot be read.
    fn read(work: &Work<'_>, node: NodeId, supply: Supply) -> Option<Self> {
        let memory = work.memory.read_for(node, supply).ok()?;
        let reserve = work.plan.options.reserve(memory.total_bytes);
        Some(Self { node, memory, supply, reserve })
    }

    /// Bytes that the node can take while its high watermark and reserve stay free.
    fn free_room(&self) -> u64 {
        self.memory.room(self.supply, self.reserve)
    }

    /// Bytes that it can take besides, if page cache is dropped for them.
    fn cache_room(&self) -> u64 {
        self.memory.room_by_cache(self.supply, self.reserve, MakeRoom::Cache)
    }
}

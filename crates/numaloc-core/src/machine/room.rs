//! Room on a target node: what it has free, and what may be made free there.

use std::fmt;

/// Permitted ways to make room on a target node that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MakeRoom {
    /// Nothing: pages go only where memory is free.
    None,
    /// Page cache that was not used recently is dropped. Where a host has run for a day such cache fills the free memory of
    /// each node, so without this most moves would find no room.
    #[default]
    Cache,
    /// Nothing is dropped: page cache of files that processes use goes to another node that has room (see [`crate::plan::cache_move`]).
    /// It stays warm, and a process that uses it from this node's CPUs reads it from there.
    MoveCache,
    /// As [`Self::Cache`]; then memory of others on that node goes to where the waiting pages are (see [`crate::plan::exchange`]).
    Exchange,
}

impl MakeRoom {
    /// All of them, the least first.
    pub const ALL: [MakeRoom; 4] = [Self::None, Self::Cache, Self::MoveCache, Self::Exchange];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cache => "cache",
            Self::MoveCache => "move-cache",
            Self::Exchange => "exchange",
        }
    }
}

/// Why a run stopped dropping page cache on a node, or moving it to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheStop {
    /// The dropped cache was read again at once (workingset_refault_file): it had been in use.
    Refaults,
    /// The kernel began to swap.
    Swap,
    /// Nothing became free any more.
    Stuck,
    /// No cache was left that is clean and that was not used recently.
    Spent,
    /// It was to move, and no other node had room above its high watermark and reserve.
    NoOtherRoom,
    /// Cache was to move, and the rest belongs to files that no process uses or that may not be moved.
    NoFiles,
}

impl CacheStop {
    /// Every cause, in the order of declaration.
    pub const ALL: [CacheStop; 6] =
        [Self::Refaults, Self::Swap, Self::Stuck, Self::Spent, Self::NoOtherRoom, Self::NoFiles];

    /// Whether only page cache that was to move ends so.
    pub fn is_of_moving(self) -> bool {
        matches!(self, Self::NoOtherRoom | Self::NoFiles)
    }
}

impl fmt::Display for CacheStop {
    /// A sentence part for people.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Refaults => "what was dropped was read again at once",
            Self::Swap => "the host began to swap",
            Self::Stuck => "no more became free",
            Self::Spent => "the rest is in use or dirty",
            Self::NoOtherRoom => "no other node has room for it",
            Self::NoFiles => "the rest belongs to files that must not be moved",
        })
    }
}

/// Where the room for pages comes from, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// From the pool of hugetlb pages.
    pub pool_bytes: u64,
    /// From free memory of the node's zones.
    pub free_bytes: u64,
    /// From page cache that is dropped for it.
    pub cache_bytes: u64,
    /// From memory of others that goes elsewhere for it.
    pub exchange_bytes: u64,
}

impl Taken {
    /// The sum over all sources.
    pub fn bytes(self) -> u64 {
        self.pool_bytes + self.free_bytes + self.cache_bytes + self.exchange_bytes
    }

    /// Adds what was taken besides.
    pub fn add(&mut self, more: Self) {
        self.pool_bytes += more.pool_bytes;
        self.free_bytes += more.free_bytes;
        self.cache_bytes += more.cache_bytes;
        self.exchange_bytes += more.exchange_bytes;
    }
}

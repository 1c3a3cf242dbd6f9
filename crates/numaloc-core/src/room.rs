//! Room on a target node: what it has free, and what may be made free there.

use std::fmt;

/// What may be done to make room on a target node that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MakeRoom {
    /// Nothing: pages go only where memory is free.
    None,
    /// Page cache that nobody has used lately is dropped. Where a host has run for a day such cache fills the free memory of
    /// each node, so without this most moves would find no room.
    #[default]
    Cache,
}

impl MakeRoom {
    /// All of them, the least first.
    pub const ALL: [MakeRoom; 2] = [Self::None, Self::Cache];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cache => "cache",
        }
    }
}

/// Why a run stopped dropping page cache on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheStop {
    /// What was dropped was read again at once (workingset_refault_file): it had been in use.
    Refaults,
    /// The kernel began to swap.
    Swap,
    /// Nothing became free any more.
    Stuck,
    /// No cache was left that is clean and that nobody has used lately.
    Spent,
}

impl CacheStop {
    /// Stable name for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refaults => "refaults",
            Self::Swap => "swap",
            Self::Stuck => "stuck",
            Self::Spent => "spent",
        }
    }
}

impl fmt::Display for CacheStop {
    /// A sentence part for people.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Refaults => "what was dropped was read again at once",
            Self::Swap => "the host began to swap",
            Self::Stuck => "no more became free",
            Self::Spent => "what is left is in use or not clean",
        })
    }
}

/// Where the room for pages comes from, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// From the pool of hugetlb pages.
    pub pool_bytes: u64,
    /// From free memory.
    pub free_bytes: u64,
    /// From page cache that is dropped for it.
    pub cache_bytes: u64,
}

impl Taken {
    /// All of it.
    pub fn bytes(self) -> u64 {
        self.pool_bytes + self.free_bytes + self.cache_bytes
    }

    /// Adds what was taken besides.
    pub fn add(&mut self, more: Self) {
        self.pool_bytes += more.pool_bytes;
        self.free_bytes += more.free_bytes;
        self.cache_bytes += more.cache_bytes;
    }
}

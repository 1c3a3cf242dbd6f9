//! Where the pages on a target node are taken from: its free memory, or its pool of hugetlb pages.

use crate::PAGE;

/// Largest block of the kernel's page allocator in bytes: order 10 (MAX_PAGE_ORDER; MAX_ORDER - 1 before 6.4) with 4 KiB
/// pages. The kernel calls larger hugetlb pages gigantic.
const BLOCK_MAX: u64 = PAGE << 10;

/// Where the target's pages for hugetlb memory come from.
///
/// By default from the pool alone, because fresh pages change the pools for good. The kernel takes such a page from free
/// memory (mm/hugetlb.c, `alloc_migrate_hugetlb_folio`), gives it the old one's place among the hugetlb pages, and the
/// old one back to free memory (`move_hugetlb_state`): the source's pool shrinks, the target's grows, their sum stays,
/// and nothing changes that back when the process ends. How many pages each node's pool has is the administrator's
/// choice, and others rely on it: the kubelet's memory manager, who places virtual machines. Memory that has stayed can
/// be moved by another run; a pool that has changed unasked is found when the next application does not start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HugetlbSource {
    /// The pool's free pages that nobody has reserved.
    #[default]
    Pool,
    /// Those first, then fresh ones from free memory. Gigantic pages come from the pool all the same.
    Fresh,
}

impl HugetlbSource {
    /// All of them, the default first.
    pub const ALL: [HugetlbSource; 2] = [Self::Pool, Self::Fresh];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Fresh => "fresh",
        }
    }
}

/// What pages of one size may be taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Whether the pool of hugetlb pages of that size serves, before all else.
    pub pool: bool,
    /// Whether free memory does.
    pub free_memory: bool,
}

impl Supply {
    /// Base pages come from free memory.
    pub const BASE: Supply = Supply { page_bytes: PAGE, pool: false, free_memory: true };

    /// What hugetlb pages may be taken from.
    pub fn hugetlb(page_bytes: u64, source: HugetlbSource) -> Self {
        let free_memory = source == HugetlbSource::Fresh && can_be_fresh(page_bytes);
        Self { page_bytes, pool: true, free_memory }
    }
}

/// Whether the kernel would take a hugetlb page of this size from free memory while its pool is empty: no gigantic one
/// (mm/hugetlb.c, `alloc_migrate_hugetlb_folio`, `hstate_is_gigantic`).
pub fn can_be_fresh(page_bytes: u64) -> bool {
    page_bytes <= BLOCK_MAX
}

/// Bytes that were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// From the pool.
    pub pool_bytes: u64,
    /// From free memory.
    pub free_bytes: u64,
}

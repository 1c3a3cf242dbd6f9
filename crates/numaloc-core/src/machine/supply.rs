//! Where the pages on a target node are taken from: its free memory, or its pool of hugetlb pages.

use crate::{page_size, pmd_size};

/// Largest block of the kernel's page allocator in bytes: order 10 (MAX_PAGE_ORDER; MAX_ORDER - 1 before 6.4) with 4 KiB
/// pages, and a huge page with larger ones (arch/arm64/Kconfig, `ARCH_FORCE_MAX_ORDER`: 11 and 13). The kernel calls
/// larger hugetlb pages gigantic.
fn block_max() -> u64 {
    (page_size() << 10).max(pmd_size())
}

/// Where free pages on the target nodes for hugetlb memory come from.
///
/// By default they come from the pool alone, because fresh pages change the pools permanently. The kernel takes a fresh
/// page from free memory (mm/hugetlb.c, `alloc_migrate_hugetlb_folio`), makes it a hugetlb page in place of the old
/// one, and gives the old page back to free memory (`move_hugetlb_state`). The source's pool shrinks, the target's pool
/// grows, their sum stays the same, and nothing changes that back when the process ends. How many pages each node's
/// pool has is the administrator's choice, and others rely on it, such as the kubelet's memory manager and people who
/// place virtual machines. Memory that has stayed can be moved by another run. A pool that has changed without a
/// request is noticed only when the next application does not start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HugetlbSource {
    /// Free pages of the pool that are not reserved.
    #[default]
    Pool,
    /// First free pages of the pool, then fresh pages from free memory. Gigantic pages still come from the pool alone.
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

/// Where pages of one size may be taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Whether the folios come from the pool of hugetlb pages of that size; it is used before free memory.
    pub pool: bool,
    /// Whether they come from free memory.
    pub free_memory: bool,
}

impl Supply {
    /// Base pages come from free memory.
    pub fn base() -> Self {
        Self { page_bytes: page_size(), pool: false, free_memory: true }
    }

    /// Where hugetlb pages may be taken from.
    pub fn hugetlb(page_bytes: u64, source: HugetlbSource) -> Self {
        let free_memory = source == HugetlbSource::Fresh && can_be_fresh(page_bytes);
        Self { page_bytes, pool: true, free_memory }
    }
}

/// The memory that must stay free on a node to which pages go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// Bytes that stay free above the high watermark.
    pub free_bytes: u64,
    /// Share of each hugetlb pool, used pages included, that stays free and unreserved, in percent. A process that maps such pages without
    /// a reservation gets SIGBUS where it finds none (mm/hugetlb.c, `hugetlb_no_page`).
    pub pool_percent: u8,
}

/// Whether the kernel takes a hugetlb page of this size from free memory when its pool is empty. It does not if the
/// page is gigantic (mm/hugetlb.c, `alloc_migrate_hugetlb_folio`, `hstate_is_gigantic`).
pub fn can_be_fresh(page_bytes: u64) -> bool {
    page_bytes <= block_max()
}

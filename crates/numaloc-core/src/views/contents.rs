//! What is on a node, by kind and by owner: what a node that is to become empty still has.

use crate::NodeId;
use std::collections::BTreeMap;

/// Kinds of memory on a node, as the kernel counts them (drivers/base/node.c, `node_read_meminfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentKind {
    /// Anonymous memory of processes.
    Anonymous,
    /// Shared memory and files of tmpfs.
    Shmem,
    /// Page cache of other files, mapped or not.
    Cache,
    /// Used pages of hugetlb pools.
    Hugetlb,
    /// Free pages of hugetlb pools: they stay until the pool is made smaller.
    FreeHugetlb,
    /// Objects of the kernel, which it can give up or not.
    Slab,
    /// Page tables of processes and devices.
    PageTables,
    /// Stacks of threads in the kernel.
    KernelStack,
    /// All else: drivers, per-CPU data, vmalloc, memory in flight.
    Other,
}

impl ContentKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Anonymous,
        Self::Shmem,
        Self::Cache,
        Self::Hugetlb,
        Self::FreeHugetlb,
        Self::Slab,
        Self::PageTables,
        Self::KernelStack,
        Self::Other,
    ];

    /// Whether the kernel can move pages of this kind to another node.
    #[must_use]
    pub fn is_movable(self) -> bool {
        matches!(self, Self::Anonymous | Self::Shmem | Self::Cache | Self::Hugetlb)
    }
}

/// A cgroup that memory on a node is charged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentOwner {
    /// Its path below the mount point.
    pub cgroup: String,
    /// Memory of processes in bytes, without what cgroups below it have.
    pub memory_bytes: u64,
    /// Page cache in bytes that no process has mapped, without what cgroups below it have.
    pub cache_bytes: u64,
}

/// Blocks of a node's memory, which go offline one by one (`/sys/devices/system/memory`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryBlocks {
    /// Size of a block in bytes; 0 if the kernel has no memory hotplug.
    pub block_bytes: u64,
    /// Online blocks in the zone Movable, in which the kernel has no objects of its own.
    pub movable: u64,
    /// Other online blocks: an object of the kernel in one keeps it online.
    pub kernel: u64,
    /// Offline blocks.
    pub offline: u64,
}

/// What is on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContents {
    /// The node.
    pub node: NodeId,
    /// Its memory in bytes.
    pub total_bytes: u64,
    /// The free part.
    pub free_bytes: u64,
    /// The used part by kind; kinds without any are left out.
    pub kinds: BTreeMap<ContentKind, u64>,
    /// The cgroups that have some of it, those with most first.
    pub owners: Vec<ContentOwner>,
    /// Its blocks.
    pub blocks: MemoryBlocks,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_kernel_does_not_move() {
        let movable = ContentKind::ALL.map(ContentKind::is_movable);
        assert_eq!(movable.iter().position(|can_move| !can_move), Some(4));
        assert!(movable[4..].iter().all(|can_move| !can_move), "{movable:?}");
    }
}

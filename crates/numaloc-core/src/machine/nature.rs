//! What the kernel shows of the memory of nodes besides its size, and the storage beside them that can be mapped.

use crate::machine::ids::NodeId;

/// Where memory of a node comes from, as far as a driver of the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryOrigin {
    /// A driver of a GPU.
    Gpu,
    /// The node is one that ordinary allocations must not use.
    Private,
    /// A region of persistent memory.
    Persistent,
    /// A region of CXL memory.
    Cxl,
}

/// A cache in front of the memory of a node: DRAM in front of persistent or CXL memory (nodeN/memory_side_cache).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideCache {
    /// Its level, 1 for the one that is nearest to the memory.
    pub level: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
}

/// What the kernel shows of the memory of a node besides its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNature {
    /// Where it comes from, if a driver has it.
    pub origin: Option<MemoryOrigin>,
    /// Bytes in the zone Movable: only these can be taken offline for sure. `None`: not known.
    pub movable_bytes: Option<u64>,
    /// Caches in front of it, by level.
    pub side_caches: Vec<SideCache>,
}

/// How a piece of storage is used, as ndctl and daxctl name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorageMode {
    /// A disk without DAX.
    Raw,
    /// A disk that writes sectors whole or not at all.
    Sector,
    /// A disk whose file systems can have DAX.
    Fsdax,
    /// A character device that can be mapped.
    Devdax,
    /// Memory of a node.
    SystemRam,
}

impl StorageMode {
    /// The word of ndctl and daxctl.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Sector => "sector",
            Self::Fsdax => "fsdax",
            Self::Devdax => "devdax",
            Self::SystemRam => "system-ram",
        }
    }
}

/// A namespace of persistent memory, or a DAX device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageDevice {
    /// Its name in sysfs, such as `namespace0.0` or `dax0.0`.
    pub name: String,
    /// How it is used.
    pub mode: StorageMode,
    /// Its size in bytes.
    pub bytes: u64,
    /// The online node that it is attached to.
    pub node: Option<NodeId>,
    /// The node that its memory is on, or would be on as memory; it may be offline.
    pub target_node: Option<NodeId>,
    /// Its disk, such as `pmem0`.
    pub disk: Option<String>,
    /// DRAM in bytes for the descriptors (struct page) of its pages, 64 bytes a page. 0: it has none, or has them itself (`map` of ndctl).
    pub descriptor_bytes: u64,
}

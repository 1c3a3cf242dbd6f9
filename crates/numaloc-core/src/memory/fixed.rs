//! Memory that is mapped into processes and can never move.

use crate::machine::ids::NodeId;
use std::collections::BTreeMap;

/// Why memory can never move: what it is. Its pages are on no list that the kernel takes pages to move from (mm/migrate.c,
/// `add_page_for_migration`: -EBUSY), or its mappings are left out (include/linux/migrate.h, `vma_migratable`: -EFAULT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FixedKind {
    /// Pages of kernel objects: rings of sockets, io_uring and perf, BPF maps, DMA buffers, the state of virtual CPUs, and memory
    /// of guests that the kernel holds (guest_memfd).
    Kernel,
    /// Secret memory (memfd_secret(2)): it is not in the kernel's own map, so the kernel cannot copy it.
    Secret,
    /// A mapping by the driver of a character device: pages of its own, or memory of the device.
    Device,
    /// Storage that is mapped without page cache: files with DAX, and /dev/dax.
    Dax,
}

impl FixedKind {
    /// Stable name for machines and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Secret => "secret",
            Self::Device => "device",
            Self::Dax => "dax",
        }
    }

    /// Whether its pages are in page maps as memory of nodes, and few. Devices and DAX can be larger than all memory, and on no node.
    pub fn is_looked_at(self) -> bool {
        matches!(self, Self::Kernel | Self::Secret)
    }
}

/// Memory of one kind that can never move. No other sum has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Bytes that are mapped, resident or not.
    pub mapped_bytes: u64,
    /// Bytes by node: resident ones, as far as they are looked at ([`FixedKind::is_looked_at`]); for [`FixedKind::Dax`] mapped ones by the
    /// node that the storage is attached to, as far as that is known; empty for devices.
    pub nodes: BTreeMap<NodeId, u64>,
}

/// All such memory of a target, by kind.
pub type FixedMemory = BTreeMap<FixedKind, Fixed>;

//! Extents: ranges of memory with the processes that map them and the nodes their pages are on.
//!
//! An extent is never split by page or by node, so a plan's size follows the number of VMAs, not the number
//! of pages, however the pages alternate between nodes.

use crate::{chunks::Chunks, claim::ClaimSet, ids::NodeId, mempolicy::Mempolicy};
use std::{collections::BTreeMap, sync::Arc};

/// One process's view of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Index of the process in the survey.
    pub process: usize,
    /// Virtual address of the extent's first byte in that process.
    pub start: u64,
}

/// What backs an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Anonymous memory of an mmap.
    Anonymous,
    /// The brk heap.
    Heap,
    /// The main thread's stack.
    Stack,
    /// A file's pages, and private copies of them.
    File,
    /// Shared anonymous memory, memfd, tmpfs, System V segments.
    Shmem,
}

impl Kind {
    /// Stable name for machines and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::File => "file",
            Self::Shmem => "shmem",
        }
    }
}

/// Which of the pages in an extent's range are the extent's. Each page of a process is in one extent alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// All of them: memory that nobody else of the target maps, or that is mapped shared and therefore the same for all
    /// who map it.
    #[default]
    All,
    /// Private memory of a process, where others of the target have private memory of the same origin (a forked family,
    /// a file), or just at the same address: the pages that nobody else maps.
    Own,
    /// The other pages of such memory, those that several map, as far as those of the target who map them have these
    /// claims.
    Common(ClaimSet),
}

/// Pages of one node in an extent, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeResidency {
    /// Mapped by the target's own address spaces alone.
    pub owned_bytes: u64,
    /// Mapped by strangers too, or not provably by the target alone.
    pub shared_bytes: u64,
    /// Of both: what is in PMD-sized or larger pages.
    pub huge_bytes: u64,
}

impl NodeResidency {
    /// Owned and shared together.
    pub fn total_bytes(&self) -> u64 {
        self.owned_bytes + self.shared_bytes
    }
}

/// Resident bytes by node, each page counted once however many processes map it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// By node.
    pub nodes: BTreeMap<NodeId, NodeResidency>,
    /// Present pages whose node could not be told.
    pub unplaced_bytes: u64,
    /// Where pages are that are not where they belong; of a [`Pages::Common`] extent, where any are.
    pub away: Chunks,
}

/// A range of memory: one VMA of one process, or what several processes map together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Everyone in the target who maps it; never empty. Pages are moved through the first that has them present.
    pub mappings: Vec<Mapping>,
    /// Which of the pages there belong to it.
    pub pages: Pages,
    /// Length in bytes.
    pub bytes: u64,
    /// What backs it.
    pub kind: Kind,
    /// The application's wish (of the first mapping).
    pub policy: Mempolicy,
    /// hugetlb page size in bytes, if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
    /// Path or name as /proc/PID/maps shows it; empty for plain anonymous memory.
    pub name: Arc<str>,
    /// Where its pages are.
    pub residency: Residency,
}

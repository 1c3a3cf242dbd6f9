//! Extents: ranges of memory with the processes that map them and the nodes their pages are on.
//!
//! An extent is never split by page or by node. So the size of a plan follows the number of VMAs, not the number of
//! pages, however the pages alternate between nodes.

use crate::{
    machine::ids::NodeId,
    memory::{
        chunks::Chunks, claim_set::ClaimSet, grains::Grains, mempolicy::Mempolicy, rule::Rule,
        stripe::Stripe,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// One process's view of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Index of the process in the survey.
    pub process: usize,
    /// Virtual address of the extent's first byte in that process.
    pub start: u64,
}

/// The kind of memory that backs an extent, by the name of its VMA in `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Anonymous memory of an mmap.
    Anonymous,
    /// `[heap]`: what brk(2) has allocated.
    Heap,
    /// `[stack]`: the main thread's stack. Stacks of further threads are [`Kind::Anonymous`].
    Stack,
    /// A file's pages, and private copies of them.
    File,
    /// The same, where a server or another program fills and writes the pages (NFS, FUSE): the kernel waits for these without end
    /// before it moves a page that they work on (mm/migrate.c, `migrate_folio_unmap`: `folio_lock`, `folio_wait_writeback`).
    NetworkFile,
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
            Self::NetworkFile => "network_file",
            Self::Shmem => "shmem",
        }
    }

    /// Whether its pages are those of a file with storage, and private copies of them.
    pub fn is_file(self) -> bool {
        matches!(self, Self::File | Self::NetworkFile)
    }
}

/// The pages in the range of an extent that belong to the extent. Each page of a process belongs to exactly one extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// All pages. No other process of the target maps this memory, or it is mapped shared (MAP_SHARED) and therefore
    /// the same for all processes that map it.
    #[default]
    All,
    /// The pages of one process's private memory that no other process maps. Used where other processes of the target
    /// have private memory of the same origin (a forked family, a file), or just at the same address.
    Own,
    /// The other pages of such memory: pages that several processes map. The extent has the pages whose mapping
    /// processes within the target have these claims.
    Common(ClaimSet),
    /// The resident pages of a shared object that no process maps at this moment: who filled them has ended, or wrote them with
    /// write(2). No page map shows them; they are looked at and moved through a mapping of this process. The mappings of the extent are
    /// those of the processes that have attached the object, and its residency may exceed its range.
    Unmapped,
}

/// The source from which the mappers of a page are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mappers {
    /// The kernel counts the mappings of each page.
    #[default]
    Counted,
    /// Processes may share the page tables (hugetlb, 1 GiB and more), and the kernel counts the processes that share
    /// one as a single mapping. No process outside the target was found to map the extent.
    Target,
    /// The same, but processes outside the target map the extent, or this cannot be ruled out.
    Strangers,
}

/// Pages of one node in an extent, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeResidency {
    /// Mapped by the target's own address spaces alone.
    pub owned_bytes: u64,
    /// Mapped by processes outside the target too, or not provably by the target alone.
    pub shared_bytes: u64,
    /// Bytes of both that are in PMD-sized or larger pages.
    pub huge_bytes: u64,
}

impl NodeResidency {
    /// Owned and shared bytes on this node together.
    pub fn total_bytes(&self) -> u64 {
        self.owned_bytes + self.shared_bytes
    }
}

/// Resident bytes by node, each page counted once however many processes map it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Bytes on each node; nodes without any are left out.
    pub nodes: BTreeMap<NodeId, NodeResidency>,
    /// Present pages whose node could not be determined.
    pub unplaced_bytes: u64,
    /// Chunks with pages that are not at home. For a [`Pages::Common`] extent: chunks with any pages.
    pub away: Chunks,
    /// Where the pages are that may move, of memory that is placed by amounts; else empty.
    pub grains: Grains,
}

/// A range of memory: one VMA of one process, or what several processes map together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// All mappings of the range in the target; never empty. A page is moved through the first mapping that has it
    /// present.
    pub mappings: Vec<Mapping>,
    /// The pages of the range that belong to the extent.
    pub pages: Pages,
    /// Length of its range in bytes, resident or not.
    pub bytes: u64,
    /// The part of these pages on one node, if they belong on several nodes in turn. Each stripe is an extent of its
    /// own.
    pub stripe: Option<Stripe>,
    /// The rule of the request or the cell of a guest that decides where it belongs.
    pub rule: Option<Rule>,
    /// Kind of memory that backs its pages; the same for all mappings.
    pub kind: Kind,
    /// The application's memory policy. If several mappings have policies, the first one found that is not the default.
    pub policy: Mempolicy,
    /// hugetlb page size in bytes, if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
    /// The source from which the mappers of its pages are known.
    pub mappers: Mappers,
    /// Path or name as /proc/PID/maps shows it; empty for plain anonymous memory.
    pub name: Arc<str>,
    /// Where its resident pages are.
    pub residency: Residency,
}

#[cfg(test)]
impl Extent {
    /// Anonymous memory of the first process alone, from this address on.
    pub(crate) fn anonymous(start: u64, bytes: u64, residency: Residency) -> Self {
        Self {
            mappings: vec![Mapping { process: 0, start }],
            pages: Pages::All,
            bytes,
            stripe: None,
            rule: None,
            kind: Kind::Anonymous,
            policy: Mempolicy::Default,
            hugetlb_bytes: None,
            mappers: Mappers::default(),
            name: "".into(),
            residency,
        }
    }
}

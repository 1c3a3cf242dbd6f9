//! The results of a scan, and how pages are joined to page runs.

use crate::files::pagemap::Entries;
use numaloc_core::{ClaimSet, NodeId, page_size};

/// Whether only the target maps a page, as far as that was looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// One mapping of one process alone (bit 56 of its page map entry).
    Exclusive,
    /// Several mappings, all of them the target's.
    Family,
    /// Processes outside the target map it too, or this cannot be determined.
    Stranger,
    /// Several mappings; whose they are was not looked up.
    #[default]
    Several,
}

/// Where the page at one address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLocation {
    /// No page is mapped at the address.
    Absent,
    /// The page is on this node.
    On(NodeId),
    /// A page is there, but its node is not known.
    Unknown,
}

/// Consecutive present pages of one mapping that have node and ownership in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRun<'e> {
    /// Index of the mapping through which they are seen.
    pub mapping: usize,
    /// Bytes from the extent's start.
    pub offset: u64,
    /// Length in bytes, a multiple of the base page.
    pub bytes: u64,
    /// Their node, if it can be told.
    pub node: Option<NodeId>,
    /// The other mappers of these pages; the same for all of them.
    pub ownership: Ownership,
    /// The claims of the processes that map them, if mappings were compared.
    pub claims: Option<&'e ClaimSet>,
    /// One entry for each base page; for huge pages that of the first base page alone.
    pub entries: Entries<'e>,
    /// Whether this is one PMD-mapped or hugetlb piece of [`pmd_size`] bytes.
    pub huge: bool,
}

/// Joins pages to page runs.
pub(super) struct PageRuns<'v, 'e> {
    offset: u64,
    open: Option<PageRun<'e>>,
    first: usize,
    pages: usize,
    visit: &'v mut dyn FnMut(PageRun<'_>),
}

impl<'v, 'e> PageRuns<'v, 'e> {
    pub(super) fn new(offset: u64, visit: &'v mut dyn FnMut(PageRun<'_>)) -> Self {
        Self { offset, open: None, first: 0, pages: 0, visit }
    }

    /// Adds the page at `index` of `view`.
    #[inline]
    pub(super) fn push(
        &mut self,
        index: usize,
        node: Option<NodeId>,
        ownership: Ownership,
        view: Entries<'e>,
    ) {
        if let Some(run) = &self.open
            && index == self.first + self.pages
            && run.node == node
            && run.ownership == ownership
        {
            self.pages += 1;
            return;
        }
        self.flush();
        let offset = self.offset + index as u64 * page_size();
        self.open = Some(PageRun {
            offset,
            bytes: 0,
            node,
            ownership,
            entries: view,
            ..PageRun::default()
        });
        (self.first, self.pages) = (index, 1);
    }

    pub(super) fn flush(&mut self) {
        if let Some(run) = self.open.take() {
            let entries = run.entries.slice(self.first, self.pages);
            (self.visit)(PageRun { bytes: self.pages as u64 * page_size(), entries, ..run });
        }
    }
}

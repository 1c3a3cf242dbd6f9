//! The cached pages of a piece of a file, with addresses for them.

use super::preallocated::mark_preallocated;
use numaloc_core::{NodeId, NodeSet, cache_move::runs, number, page_size};
use numaloc_sys::{FilePages, Userfault, query_pages};
use std::{collections::BTreeMap, fs::File, io};

/// The means to look at a file on hugetlbfs.
#[derive(Debug)]
pub(super) struct HugeFile {
    pub(super) page_bytes: u64,
    pub(super) holes: Userfault,
}

/// The cached pages of a piece of a file, which have addresses as long as this value lives.
#[derive(Debug)]
pub struct CachedPiece {
    /// Addresses of the pages, with the node that each was on.
    pages: Vec<(u64, NodeId)>,
    mapping: Option<FilePages>,
    page_bytes: u64,
}

impl CachedPiece {
    /// Looks at `bytes` bytes of a file, from `offset` on. Nothing is read from the disk for it, unless the kernel drops a page between
    /// the two looks.
    ///
    /// # Errors
    /// The file cannot be mapped, or no longer.
    pub fn look(file: &File, offset: u64, bytes: u64) -> io::Result<Self> {
        Self::look_with(file, offset, bytes, |_| {})
    }

    /// The same for a file on tmpfs, whose preallocated pages are found, too.
    pub(super) fn look_memory(file: &File, offset: u64, bytes: u64) -> io::Result<Self> {
        Self::look_with(file, offset, bytes, |resident| mark_preallocated(file, offset, resident))
    }

    fn look_with(
        file: &File,
        offset: u64,
        bytes: u64,
        mark: impl FnOnce(&mut [bool]),
    ) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self { pages: Vec::new(), mapping: None, page_bytes: page_size() });
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mapping = FilePages::map(file, offset, length)?;
        let mut addresses = Vec::new();
        let mut resident = mapping.resident()?;
        mark(&mut resident);
        for run in runs(&resident) {
            // The file has become shorter, or a page cannot be read.
            if mapping.populate(run.clone()).is_ok() {
                addresses.extend(run.map(|page| mapping.address() + page as u64 * page_size()));
            }
        }
        Self::of(mapping, addresses, page_size())
    }

    /// The same for a file on hugetlbfs. Gives it no pages where it has holes.
    pub(super) fn look_huge(
        file: &File,
        huge: &HugeFile,
        offset: u64,
        bytes: u64,
    ) -> io::Result<Self> {
        let HugeFile { page_bytes, holes } = huge;
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mapping = FilePages::map_huge(file, offset, length, holes)?;
        let each = number::index(page_bytes / page_size());
        let starts = (0..mapping.len()).step_by(each.max(1));
        let there = starts.filter(|&page| mapping.populate(page..page + each).is_ok());
        let addresses = there.map(|page| mapping.address() + page as u64 * page_size()).collect();
        Self::of(mapping, addresses, *page_bytes)
    }

    fn of(mapping: FilePages, addresses: Vec<u64>, page_bytes: u64) -> io::Result<Self> {
        let on = nodes_of(&addresses)?;
        let pages = addresses.into_iter().zip(on).filter_map(|(address, on)| Some((address, on?)));
        Ok(Self { pages: pages.collect(), mapping: Some(mapping), page_bytes })
    }

    /// Bytes of the piece on each node.
    pub fn nodes(&self) -> BTreeMap<NodeId, u64> {
        let mut nodes = BTreeMap::new();
        for (_, node) in &self.pages {
            *nodes.entry(*node).or_default() += self.page_bytes;
        }
        nodes
    }

    /// Leaves out the pages for which `keep` is false, by their number in the order of addresses.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut number = 0;
        self.pages.retain(|_| {
            number += 1;
            keep(number - 1)
        });
    }

    /// Addresses of the pages, in ascending order.
    pub fn addresses(&self) -> Vec<u64> {
        self.pages.iter().map(|(address, _)| *address).collect()
    }

    /// Whether the page at an address of this piece is no longer in the page cache: it was truncated or dropped. A
    /// page that exists but has lost its address gets it again, for example one of a huge page that was split
    /// (mm/huge_memory.c, `__split_huge_pmd_locked`). `None` for an address outside of this piece.
    pub fn is_gone(&self, address: u64) -> Option<bool> {
        let mapping = self.mapping.as_ref()?;
        let page = number::index(address.checked_sub(mapping.address())? / page_size());
        if page >= mapping.len() {
            return None;
        }
        if self.page_bytes > page_size() {
            return Some(
                mapping
                    .populate(page..page + number::index(self.page_bytes / page_size()))
                    .is_err(),
            );
        }
        let resident = mapping.resident_of(page..page + 1).map_or(true, |pages| pages[0]);
        // A large folio may stay in memory beyond the end of its file, where nothing can be mapped.
        Some(!resident || mapping.populate(page..page + 1).is_err())
    }

    /// Addresses of the pages on a node.
    pub fn on(&self, node: NodeId) -> Vec<u64> {
        self.pages.iter().filter(|(_, on)| *on == node).map(|(address, _)| *address).collect()
    }

    /// Addresses of the pages on other nodes than these, by node.
    pub fn elsewhere(&self, nodes: &NodeSet) -> BTreeMap<NodeId, Vec<u64>> {
        let mut elsewhere: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for (address, node) in self.pages.iter().filter(|(_, node)| !nodes.contains(*node)) {
            elsewhere.entry(*node).or_default().push(*address);
        }
        elsewhere
    }
}

/// The nodes of pages of this process; `None` for pages that are not there.
///
/// # Errors
/// The errors of move_pages(2).
pub fn nodes_of(addresses: &[u64]) -> io::Result<Vec<Option<NodeId>>> {
    let mut status = vec![0; addresses.len()];
    if !addresses.is_empty() {
        query_pages(0, addresses, &mut status)?;
    }
    Ok(status.into_iter().map(|on| u32::try_from(on).ok().map(NodeId)).collect())
}

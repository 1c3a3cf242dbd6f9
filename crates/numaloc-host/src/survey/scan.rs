//! The scanner: finds the pages of a range, and passes quickly over holes and huge pages.
//!
//! Base pages cost one pagemap entry each and nothing else. Where a stretch turns out to be empty or huge, the
//! PAGEMAP_SCAN ioctl takes over: it passes over a hole or a huge page at the cost of a base page. Where it meets base
//! pages again, the scanner continues reading pagemap.

mod ahead;
mod family;
mod gaps;
mod halt;
mod huge;
mod page_run;
mod single;
mod table;
#[cfg(test)]
pub(in crate::survey) mod tests;
mod whole;
#[cfg(test)]
mod whole_tests;
mod zeros;

pub use page_run::{Ownership, PageLocation, PageRun};

use crate::{
    Error, Roots,
    files::{
        kpage::FrameFile,
        pagemap::{Entries, Entry},
    },
    survey::{
        merged::Merged,
        outsiders::RuledOut,
        page_access::{PageAccess, Source},
        remapped::{CountedAt, MappingCount},
        space::AddressSpace,
    },
};
use ahead::ReadAhead;
use gaps::Gaps;
use halt::Halt;
use nix::libc::{EFAULT, EINVAL, ESRCH};
use numaloc_core::{Claims, Mappers, Mapping, NodeId, Pages, page_size, pmd_size};
use numaloc_sys::query_pages;
use page_run::PageRuns;
use std::ops::Range;
use table::FrameTable;
use whole::WholeFolios;
use zeros::Zeros;

/// The precision of a look at huge pages, and at memory that several processes map shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The nodes of all pages, but the ownership of a sample only. Good for totals: a stretch in which fewer than one
    /// in 32 huge pages is shared may count as the target's own.
    Sampled,
    /// Node and ownership of each page.
    Exact,
}

/// Finds pages. One scanner serves one thread.
#[derive(Debug)]
pub struct Scanner {
    page_access: PageAccess,
    precision: Precision,
    gaps: Gaps,
    counts: Option<FrameFile>,
    zeros: Zeros,
    merged: Option<Merged>,
    whole: Option<WholeFolios>,
    buffer: Vec<u8>,
    ahead: ReadAhead,
    table: FrameTable,
    queried: Vec<i32>,
}

/// An extent under a scan.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// The processes that mappings refer to.
    pub spaces: &'a [AddressSpace],
    /// Where the pages of each process belong, by the index of `spaces`.
    pub claims: &'a Claims,
    /// The mappings of the extent.
    pub mappings: &'a [Mapping],
    /// The wanted pages of the range. They decide how the scanner looks for them, but it visits all pages that
    /// it meets, and the visitor leaves out unwanted ones. In a [`Pages::Own`] extent these are the pages
    /// that several processes map ([`Ownership::Several`]). In a [`Pages::Common`] extent these are the pages that
    /// no other process maps, and those with other claims.
    pub pages: &'a Pages,
    /// The source from which the mappers of its pages are known.
    pub mappers: Mappers,
    /// hugetlb page size in bytes, if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
    /// The pages that no stranger can map, by any count.
    pub ruled_out: RuledOut,
}

#[cfg(test)]
impl<'a> Scanned<'a> {
    /// Base pages that the kernel counts, of which strangers are ruled out for none.
    fn counted(
        spaces: &'a [AddressSpace],
        claims: &'a Claims,
        mappings: &'a [Mapping],
        pages: &'a Pages,
    ) -> Self {
        let (mappers, hugetlb_bytes) = (Mappers::Counted, None);
        let ruled_out = RuledOut::default();
        Self { spaces, claims, mappings, pages, mappers, hugetlb_bytes, ruled_out }
    }
}

impl Scanner {
    /// A scanner that uses what the host allows.
    pub fn new(roots: &Roots, page_access: &PageAccess, precision: Precision) -> Self {
        let counts = match page_access.source {
            Source::Pagemap => FrameFile::counts(roots),
            Source::Query => None,
        };
        let whole =
            counts.as_ref().map(|counts| WholeFolios::new(roots, page_access, precision, counts));
        Self {
            page_access: page_access.clone(),
            precision,
            gaps: Gaps::none(),
            counts,
            zeros: Zeros::new(roots, page_access.zero_frame),
            merged: Merged::new(roots, page_access.merged.as_ref()),
            whole,
            buffer: Vec::new(),
            ahead: ReadAhead::default(),
            table: FrameTable::default(),
            queried: Vec::new(),
        }
    }

    /// The same scanner, which lets threads that map memory go before it: for looks that can wait.
    pub fn with_gaps(self) -> Self {
        Self { gaps: Gaps::some(), ..self }
    }

    /// Visits all present pages of `range` (bytes from the extent's start) of an extent, each page once however many
    /// mappings show it. An address space that has ended shows no pages.
    ///
    /// # Errors
    /// [`Error::Pages`] if the pages of an address space that exists cannot be read. The visits before that are right.
    pub fn scan(
        &mut self,
        scanned: &Scanned<'_>,
        range: Range<u64>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Result<(), Error> {
        let (mut buffer, mut whole) = (std::mem::take(&mut self.buffer), self.whole.take());
        whole.iter_mut().for_each(WholeFolios::refresh);
        let visit: &mut dyn FnMut(PageRun<'_>) = &mut |run| match &mut whole {
            Some(whole) => whole.check(scanned, run, visit),
            None => visit(run),
        };
        let result = match (scanned.mappings, scanned.pages) {
            ([only], Pages::All | Pages::Own) => {
                let (space, start) = (&scanned.spaces[only.process], only.start);
                let lookup = *scanned.pages == Pages::All;
                let &Scanned { mappers, hugetlb_bytes, ruled_out, .. } = scanned;
                let view = MappedView { space, start, lookup, mappers, hugetlb_bytes, ruled_out };
                self.scan_ahead(view, &range, visit).unwrap_or_else(|| {
                    self.refresh();
                    self.scan_one(view, range, &mut buffer, visit)
                })
            }
            _ => {
                self.refresh();
                self.scan_family(scanned, range, &mut buffer, visit)
            }
        };
        (self.buffer, self.whole) = (buffer, whole);
        Halt::unless_ended(result).map(Option::unwrap_or_default)
    }

    /// Forgets what is known of frames, before a look at fresh page tables.
    fn refresh(&mut self) {
        self.counts.iter_mut().for_each(FrameFile::refresh);
        self.zeros.refresh();
        self.merged.iter_mut().for_each(Merged::refresh);
    }

    /// Appends to `places` where the base pages from `address` on are, one by one, as of now. In an address space that
    /// has ended all are absent.
    ///
    /// # Errors
    /// [`Error::Pages`] if the pages of an address space that exists cannot be read. Then nothing is appended.
    pub fn locate(
        &mut self,
        space: &AddressSpace,
        address: u64,
        pages: usize,
        places: &mut Vec<PageLocation>,
    ) -> Result<(), Error> {
        self.zeros.refresh();
        let (mut buffer, first) = (std::mem::take(&mut self.buffer), places.len());
        let view = MappedView::of(space, address);
        let entries = view.read(0, pages, &mut buffer);
        let entries = entries.and_then(|entries| {
            self.query(space, address, entries)?;
            Ok(entries)
        });
        let located = Halt::unless_ended(entries).map(|entries| {
            let entries = entries.unwrap_or_default();
            for index in 0..pages {
                places.push(match entries.get(index).filter(|entry| entry.is_present()) {
                    None => PageLocation::Absent,
                    Some(entry)
                        if self.is_zeros(view, index as u64 * page_size(), index, entry) =>
                    {
                        PageLocation::Absent
                    }
                    Some(entry) => {
                        self.node(index, entry).map_or(PageLocation::Unknown, PageLocation::On)
                    }
                });
            }
        });
        self.buffer = buffer;
        located?;
        // Memory may have come online since the table of frames was read.
        let is_unknown = |&index: &usize| places[first + index] == PageLocation::Unknown;
        let unknown: Vec<usize> = (0..pages).filter(is_unknown).collect();
        if unknown.is_empty() || self.page_access.source == Source::Query {
            return Ok(());
        }
        let addresses: Vec<u64> =
            unknown.iter().map(|&page| address + page as u64 * page_size()).collect();
        let nodes = Halt::unless_ended(ask(space, &addresses))?.unwrap_or_default();
        for (page, node) in unknown.into_iter().zip(nodes) {
            if let Ok(node) = u32::try_from(node) {
                places[first + page] = PageLocation::On(NodeId(node));
            }
        }
        Ok(())
    }

    /// Whether the present page at `offset` is one of zeros, which belongs to no process. `index` is its place in what was read.
    #[inline]
    fn is_zeros(&mut self, view: MappedView<'_>, offset: u64, index: usize, entry: Entry) -> bool {
        if entry.is_exclusive() {
            return false;
        }
        match self.page_access.source {
            Source::Pagemap => self.zeros.contain(view.start + offset, entry),
            // The answer of move_pages(2) for it (mm/migrate.c, `do_pages_stat_array`).
            Source::Query => self.queried.get(index) == Some(&-EFAULT),
        }
    }

    /// The ownership of a page that was seen in one mapping, at `offset`. `None` as in [`Self::ownership`].
    fn alone(&mut self, view: MappedView<'_>, offset: u64, entry: Entry) -> Option<Ownership> {
        match self.is_exclusive(view, entry) {
            true => Some(Ownership::Exclusive),
            false if !view.lookup => Some(Ownership::Several),
            false => uncounted(view.mappers).or_else(|| {
                let counted = self.ownership(entry, 1, view.mapped(offset));
                self.without_strangers(counted, entry, view.ruled_out)
            }),
        }
    }

    /// Whether one mapping alone shows a page. Before Linux 6.10 several processes may, if they share the page table
    /// (fs/proc/task_mmu.c, `pagemap_hugetlb_range`).
    #[inline]
    fn is_exclusive(&self, view: MappedView<'_>, entry: Entry) -> bool {
        let is_counted = view.mappers == Mappers::Counted || !entry.is_file();
        entry.is_exclusive() && (is_counted || self.page_access.tells_shared_tables)
    }

    /// The ownership of a page that was seen in `ours` mappings of the target, first at the address `mapped` of a process. `None`
    /// for a page that belongs to no process any more, or that is counted at another address.
    fn ownership(&mut self, entry: Entry, ours: u64, mapped: (i32, u64)) -> Option<Ownership> {
        if entry.is_exclusive() {
            return Some(Ownership::Exclusive);
        }
        // The page has several mappings and one of them is ours, so the others are strangers'. To read the count would
        // cost ten times as much as finding the page.
        if ours == 1 && entry.is_file() {
            return Some(Ownership::Stranger);
        }
        let Some(counts) = &mut self.counts else { return Some(Ownership::Stranger) };
        match counts.get(entry.pfn()) {
            Some(0) => None,
            Some(1) => Some(Ownership::Exclusive),
            Some(count) if count <= ours => Some(Ownership::Family),
            Some(count) => {
                if let Some(merged) = &mut self.merged
                    && merged.contain(entry)
                {
                    return merged.assign(entry, mapped).then_some(Ownership::Stranger);
                }
                match &self.page_access.remapped {
                    Some(remapped) if !entry.is_file() => {
                        let count = MappingCount { all: count, ours };
                        match remapped.see(entry.pfn(), count, mapped) {
                            CountedAt::Here => Some(Ownership::Family),
                            CountedAt::Elsewhere => None,
                            CountedAt::Everywhere => Some(Ownership::Stranger),
                        }
                    }
                    _ => Some(Ownership::Stranger),
                }
            }
            // A page of unknown ownership counts as mapped by strangers, too.
            None => Some(Ownership::Stranger),
        }
    }

    /// The ownership of a page once it is known which pages no stranger can map.
    fn without_strangers(
        &mut self,
        counted: Option<Ownership>,
        entry: Entry,
        ruled_out: RuledOut,
    ) -> Option<Ownership> {
        let is_theirs = counted == Some(Ownership::Stranger)
            && if entry.is_file() { ruled_out.file } else { ruled_out.anonymous };
        // A page that KSM has merged may be any process's.
        let is_merged = is_theirs
            && !entry.is_file()
            && self.merged.as_mut().is_some_and(|merged| merged.contain(entry));
        if is_theirs && !is_merged { Some(Ownership::Family) } else { counted }
    }

    /// The node of the page at `index` of the entries read, from a query ([`Self::query`]) if no table has it.
    fn node(&self, index: usize, entry: Entry) -> Option<NodeId> {
        let asked = || u32::try_from(*self.queried.get(index)?).ok().map(NodeId);
        match self.page_access.source {
            Source::Pagemap => self.page_access.frames.node(entry.pfn()).or_else(asked),
            Source::Query => asked(),
        }
    }

    /// Asks for the nodes of the present pages among `entries` that frames do not tell: all where they are hidden, otherwise those in
    /// memory blocks that several nodes share.
    fn query(
        &mut self,
        space: &AddressSpace,
        address: u64,
        entries: Entries<'_>,
    ) -> Result<(), Halt> {
        self.queried.clear();
        let frames = &self.page_access.frames;
        let is_asked: &dyn Fn(Entry) -> bool = match self.page_access.source {
            Source::Pagemap if !frames.has_ambiguous() => return Ok(()),
            Source::Pagemap => &|entry| frames.is_ambiguous(entry.pfn()),
            Source::Query => &|_| true,
        };
        let asked = |(index, entry): (usize, Entry)| {
            (entry.is_present() && is_asked(entry)).then_some(index)
        };
        let indices: Vec<usize> = entries.iter().enumerate().filter_map(asked).collect();
        if indices.is_empty() {
            return Ok(());
        }
        self.queried.resize(entries.len(), -1);
        let addresses: Vec<u64> =
            indices.iter().map(|&index| address + index as u64 * page_size()).collect();
        let status = ask(space, &addresses)?;
        indices.iter().zip(status).for_each(|(&index, status)| self.queried[index] = status);
        Ok(())
    }
}

/// Asks the kernel for the nodes of pages: one status for each address, which is a node or a negative errno.
fn ask(space: &AddressSpace, addresses: &[u64]) -> Result<Vec<i32>, Halt> {
    let mut status = vec![0; addresses.len()];
    loop {
        let tid = space.tid();
        let Err(error) = query_pages(tid, addresses, &mut status) else { return Ok(status) };
        // A thread that is ending releases its memory before its id (mm/migrate.c, `find_mm_struct`).
        if !matches!(error.raw_os_error(), Some(ESRCH | EINVAL)) {
            return Err(Halt::at(space, "asking move_pages(2) for their nodes", error));
        }
        // Another thread may still have the memory.
        if !space.is_alive() || space.tid() == tid {
            return Err(Halt::Ended);
        }
    }
}

/// The ownership of pages with several mappings where the kernel's count does not tell it; `None`: it does.
fn uncounted(mappers: Mappers) -> Option<Ownership> {
    match mappers {
        Mappers::Counted => None,
        Mappers::Target => Some(Ownership::Family),
        Mappers::Strangers => Some(Ownership::Stranger),
    }
}

/// One process's view of an extent.
#[derive(Clone, Copy, Debug)]
struct MappedView<'a> {
    space: &'a AddressSpace,
    /// The address of the extent's first byte in it.
    start: u64,
    /// Whether to look up the ownership of a page with several mappings.
    lookup: bool,
    /// The source from which the mappers of its pages are known.
    mappers: Mappers,
    /// hugetlb page size in bytes, if it is hugetlb memory.
    hugetlb_bytes: Option<u64>,
    /// The pages that no stranger can map.
    ruled_out: RuledOut,
}

impl<'a> MappedView<'a> {
    /// The memory of a process from an address on, without a look at who maps it.
    fn of(space: &'a AddressSpace, start: u64) -> Self {
        let (lookup, mappers, hugetlb_bytes) = (false, Mappers::Counted, None);
        Self { space, start, lookup, mappers, hugetlb_bytes, ruled_out: RuledOut::default() }
    }

    /// Whether what PAGEMAP_SCAN calls huge is a whole huge page or more. It does so of hugetlb pages of each size (fs/proc/task_mmu.c,
    /// `pagemap_hugetlb_category`), and arm64 and RISC-V have some of 64 KiB.
    fn has_whole_huge(&self) -> bool {
        self.hugetlb_bytes.is_none_or(|bytes| bytes >= pmd_size())
    }

    /// The process, and the address of the extent's byte at `offset` in it.
    fn mapped(&self, offset: u64) -> (i32, u64) {
        (self.space.process.identity.pid, self.start + offset)
    }

    /// Whether the address space has ended. Its page map reads as empty from then on, and only later do its pages lose it as one that maps
    /// them (kernel/fork.c, `mmput`).
    fn has_ended(&self) -> bool {
        matches!(self.read(0, 1, &mut Vec::new()), Err(Halt::Ended))
    }

    /// Reads `pages` entries from `offset` on.
    fn read<'b>(
        &self,
        offset: u64,
        pages: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Entries<'b>, Halt> {
        buffer.resize(buffer.len().max(pages * 8), 0);
        let failed = |error| Halt::at(self.space, "reading its pagemap", error);
        let pagemap = self.space.pagemap().map_err(failed)?;
        let entries =
            pagemap.read(self.start + offset, &mut buffer[..pages * 8]).map_err(failed)?;
        if entries.len() == pages { Ok(entries) } else { Err(Halt::Ended) }
    }
}

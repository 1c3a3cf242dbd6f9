//! Divides page runs into folios, so that each thing that the kernel moves as a whole is passed once.

use numaloc_core::{Mapping, Move, NodeId, Pages, number, page_size, pmd_pages, pmd_size};
use numaloc_host::{COMPOUND_HEAD, COMPOUND_TAIL, Entries, FrameFile, PageRun};
use numaloc_sys::MoveFlag;

/// A folio that is to be moved: what one address of a call stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// The address that is passed to the kernel.
    pub address: u64,
    /// Its mapped size in bytes.
    pub bytes: u64,
    /// Page size in bytes, if it is a hugetlb page.
    pub hugetlb_bytes: Option<u64>,
    /// The node it was found on.
    pub from: NodeId,
    /// Index of the process through which it is moved.
    pub process: usize,
    /// Index of the process in whose account it is: see [`account`].
    pub account: usize,
    /// The address of the first byte of its extent in the process through which it is moved.
    pub extent_start: u64,
    /// Whether the call may move pages that several processes map.
    pub flag: MoveFlag,
    /// Index of its extent among the plan's moves.
    pub move_index: usize,
    /// Index of its next target in the route.
    pub choice: usize,
    /// Number of visits that have failed to move it.
    pub attempts: u32,
    /// Whether its NUMA-hint fault was taken already.
    pub hinted: bool,
}

/// Folios of one class take about the same time per byte to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Folios that are one base page.
    Base,
    /// Between a base page and a PMD.
    Middle,
    /// Transparent huge pages: a PMD or more.
    Huge,
    /// hugetlb pages of this size in bytes.
    Hugetlb(u64),
}

impl Folio {
    /// The base page at the begin of an extent, found on `from` through `mapping`, as that of one process and not visited yet: the
    /// values that all folios of an extent begin with.
    pub fn first(planned_move: &Move, move_index: usize, mapping: Mapping, from: NodeId) -> Self {
        Self {
            address: mapping.start,
            bytes: page_size(),
            hugetlb_bytes: planned_move.hugetlb_bytes,
            from,
            process: mapping.process,
            account: account(planned_move, mapping),
            extent_start: mapping.start,
            flag: MoveFlag::Own,
            move_index,
            choice: 0,
            attempts: 0,
            hinted: false,
        }
    }

    /// A folio for tests, with the same values for all else.
    #[cfg(test)]
    pub fn sample(address: u64, bytes: u64) -> Self {
        Self {
            address,
            bytes,
            hugetlb_bytes: None,
            from: NodeId(1),
            process: 0,
            account: 0,
            extent_start: 0,
            flag: MoveFlag::Own,
            move_index: 0,
            choice: 0,
            attempts: 0,
            hinted: false,
        }
    }

    pub fn class(&self) -> Class {
        match self.hugetlb_bytes {
            Some(bytes) => Class::Hugetlb(bytes),
            None if self.bytes >= pmd_size() => Class::Huge,
            None if self.bytes > page_size() => Class::Middle,
            None => Class::Base,
        }
    }

    /// Whether another folio has the same targets, by the same call.
    pub fn goes_with(&self, other: &Self) -> bool {
        let of = |folio: &Self| {
            let Self { move_index, from, choice, process, flag, hugetlb_bytes, .. } = *folio;
            (move_index, from, choice, process, flag, hugetlb_bytes)
        };
        of(self) == of(other)
    }

    /// Where it is in its extent, in bytes from the extent's start.
    pub fn offset(&self) -> u64 {
        self.address - self.extent_start
    }
}

/// Index of the process in whose account the pages are that `mapping` shows of a move. Memory that is mapped shared is in
/// the account of the first process, whichever process shows it: it outlives each of them.
pub fn account(planned_move: &Move, mapping: Mapping) -> usize {
    match planned_move.pages {
        Pages::All | Pages::Unmapped => planned_move.mappings[0].process,
        Pages::Own | Pages::Common(_) => mapping.process,
    }
}

/// Calls `emit` with address, bytes per folio and number of folios, for each row of equal folios in a page run that begins at
/// `address`.
///
/// Each address inside a folio moves the whole folio, and a second address of the same folio ends the kernel's page list
/// (mm/migrate.c, `do_pages_move`). So this function affects the speed, but never what is moved.
pub fn folios(
    run: &PageRun<'_>,
    address: u64,
    shape: &mut Shape<'_>,
    emit: &mut dyn FnMut(u64, u64, u64),
) {
    match shape.hugetlb_bytes {
        // A page run may begin or end inside a hugetlb page. Kernels before 6.12 take only the address of the head.
        Some(bytes) => {
            let at = address.next_multiple_of(bytes);
            let count = (address + run.bytes).saturating_sub(at).div_ceil(bytes);
            if count > 0 {
                emit(at, bytes, count);
            }
        }
        None if run.huge => emit(address, run.bytes, 1),
        None => base_folios(run.entries, address, shape, emit),
    }
}

/// The facts known about an extent's folios.
#[derive(Debug)]
pub struct Shape<'f> {
    /// Page size, if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
    /// Whether folios between a base page and a huge page can occur.
    pub small_folios: bool,
    /// Page flags by frame (/proc/kpageflags).
    pub flags: &'f mut FrameFile,
}

impl Shape<'_> {
    /// Forgets the flags that were read before.
    pub fn refresh(&mut self) {
        self.flags.refresh();
    }
}

fn base_folios(
    entries: Entries<'_>,
    address: u64,
    shape: &mut Shape<'_>,
    emit: &mut dyn FnMut(u64, u64, u64),
) {
    let (mut pages_each, mut count) = (1, 0);
    let frame = |index: usize| entries.get(index).map(|entry| entry.pfn());
    // Read once: the compiler keeps an atomic in a loop over each page.
    let (page_bytes, huge_bytes) = (page_size(), pmd_size());
    let mut index = 0;
    while let Some(pfn) = frame(index) {
        let at = address + index as u64 * page_bytes;
        let pages = if shape.small_folios {
            let follows = frame(index + 1) == Some(pfn + 1);
            if follows { compound_pages(shape.flags, index, pfn, frame) } else { 1 }
        } else if at & (huge_bytes - 1) == 0 {
            // A huge page can show as base entries: it is mapped by such, or its PMD was not worth a PAGEMAP_SCAN.
            let last = number::index(pmd_pages() - 1);
            let in_a_row =
                pfn.is_multiple_of(pmd_pages()) && frame(index + last) == Some(pfn + last as u64);
            // Folios of smaller sizes do not occur here, so a compound page whose head is at such a frame is a whole huge page.
            if in_a_row && is_any(shape.flags, pfn, COMPOUND_HEAD) { last + 1 } else { 1 }
        } else {
            1
        };
        if pages != pages_each && count > 0 {
            let before = at - (pages_each * count) as u64 * page_bytes;
            emit(before, pages_each as u64 * page_bytes, count as u64);
            count = 0;
        }
        (pages_each, count) = (pages, count + 1);
        index += pages;
    }
    if count > 0 {
        let at = address + (index - pages_each * count) as u64 * page_bytes;
        emit(at, pages_each as u64 * page_bytes, count as u64);
    }
}

/// Whether the frame's flags are known and have one of `kinds`.
fn is_any(flags: &mut FrameFile, pfn: u64, kinds: u64) -> bool {
    flags.get(pfn).is_some_and(|flags| flags & kinds != 0)
}

/// Number of entries from `index` on that are frames of the folio that `pfn` belongs to.
fn compound_pages(
    flags: &mut FrameFile,
    index: usize,
    pfn: u64,
    frame: impl Fn(usize) -> Option<u64>,
) -> usize {
    if !is_any(flags, pfn, COMPOUND_HEAD | COMPOUND_TAIL) {
        return 1;
    }
    let belongs = |flags: &mut FrameFile, pages: usize| {
        frame(index + pages) == Some(pfn + pages as u64)
            && is_any(flags, pfn + pages as u64, COMPOUND_TAIL)
    };
    let mut pages = 1;
    while belongs(flags, pages) {
        pages += 1;
    }
    pages
}

//! Runs of pages -> folios: one address for each thing that the kernel moves as a whole.

use numaloc_core::{HUGE, NodeId, PAGE};
use numaloc_host::{COMPOUND_HEAD, COMPOUND_TAIL, Entries, FrameFile, Run};
use numaloc_sys::MoveFlag;

/// A folio to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    /// The address through which it is moved.
    pub address: u64,
    /// Its mapped size.
    pub bytes: u64,
    /// hugetlb page size, if it is such a page.
    pub hugetlb_bytes: Option<u64>,
    /// Where it was found.
    pub from: NodeId,
    /// Index of the process through which it is moved.
    pub process: usize,
    /// Whether it has several mappings.
    pub flag: MoveFlag,
    /// Index of its extent among the plan's moves.
    pub step: usize,
    /// Which of the route's targets is next.
    pub choice: usize,
    /// Visits that failed to move it.
    pub attempts: u32,
    /// Whether its NUMA-hint fault has been taken.
    pub hinted: bool,
}

/// Folios of a class take about the same time per byte to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Base pages.
    Base,
    /// Anything between them and a PMD.
    Middle,
    /// Huge pages of a PMD and more.
    Huge,
    /// hugetlb pages of this size in bytes.
    Hugetlb(u64),
}

impl Folio {
    /// One that nothing is known of besides: for tests.
    #[cfg(test)]
    pub fn sample(address: u64, bytes: u64) -> Self {
        Self {
            address,
            bytes,
            hugetlb_bytes: None,
            from: NodeId(1),
            process: 0,
            flag: MoveFlag::Own,
            step: 0,
            choice: 0,
            attempts: 0,
            hinted: false,
        }
    }

    /// Its class.
    pub fn class(&self) -> Class {
        match self.hugetlb_bytes {
            Some(bytes) => Class::Hugetlb(bytes),
            None if self.bytes >= HUGE => Class::Huge,
            None if self.bytes > PAGE => Class::Middle,
            None => Class::Base,
        }
    }
}

/// Calls `emit` with address, bytes and number of the folios of a run that begins at `address`: rows of one size.
///
/// Every address inside a folio moves all of it, and a second address of the same folio breaks the kernel's run
/// (mm/migrate.c, `do_pages_move`), so this decides the speed, never what is moved.
pub fn folios(
    run: &Run<'_>,
    address: u64,
    shape: &mut Shape<'_>,
    emit: &mut dyn FnMut(u64, u64, u64),
) {
    match shape.hugetlb_bytes {
        // hugetlb runs come in pieces; kernels before 6.12 take the head address alone.
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

/// What is known of an extent's folios.
#[derive(Debug)]
pub struct Shape<'f> {
    /// Page size, if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
    /// Whether folios between a base page and a huge page can occur.
    pub small_folios: bool,
    /// Page flags by frame, where readable.
    pub flags: Option<&'f mut FrameFile>,
}

impl Shape<'_> {
    /// Forgets flags that were read before.
    pub fn refresh(&mut self) {
        if let Some(flags) = &mut self.flags {
            flags.refresh();
        }
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
    let mut index = 0;
    while let Some(pfn) = frame(index) {
        let at = address + index as u64 * PAGE;
        let pages = match &mut shape.flags {
            Some(flags) if shape.small_folios => {
                let follows = frame(index + 1) == Some(pfn + 1);
                if follows { compound_pages(flags, index, pfn, frame) } else { 1 }
            }
            // A huge page that is mapped by base entries, or by a PMD that was not worth a PAGEMAP_SCAN.
            Some(flags) if at.is_multiple_of(HUGE) => {
                let last = (HUGE / PAGE - 1) as usize;
                let in_a_row = pfn.is_multiple_of(HUGE / PAGE)
                    && frame(index + last) == Some(pfn + last as u64);
                // Without smaller sizes, a compound page that begins at such a frame has all of them.
                if in_a_row && is_any(flags, pfn, COMPOUND_HEAD) { last + 1 } else { 1 }
            }
            _ => 1,
        };
        if pages != pages_each && count > 0 {
            emit(at - (pages_each * count) as u64 * PAGE, pages_each as u64 * PAGE, count as u64);
            count = 0;
        }
        (pages_each, count) = (pages, count + 1);
        index += pages;
    }
    if count > 0 {
        let at = address + (index - pages_each * count) as u64 * PAGE;
        emit(at, pages_each as u64 * PAGE, count as u64);
    }
}

/// Whether a frame is known to be of any of these kinds.
fn is_any(flags: &mut FrameFile, pfn: u64, kinds: u64) -> bool {
    flags.get(pfn).is_some_and(|flags| flags & kinds != 0)
}

/// How many entries from `index` on show frames of the folio that `pfn` belongs to.
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

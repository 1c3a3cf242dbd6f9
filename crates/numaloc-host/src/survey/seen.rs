//! The remote pages that a survey has seen, for a run that follows at once: it does not read these page maps again.
//!
//! They are kept for each stretch of private memory whose remote pages are base pages that one process maps and that are on one node: a
//! bit for each page. Other stretches are scanned again. Pages that were freed since cost an address of a call, which reports
//! them, and pages that have come since are found by the look after the run.
//!
//! A page of a huge page may be mapped as a base page, and move with others that strangers map ([`super::scan`], `whole`). It has the
//! frame that a huge page has there, so of each row of such frames one is looked up, and a stretch with a larger folio is not kept.

use crate::{
    Roots,
    files::kpage::{COMPOUND_HEAD, COMPOUND_TAIL, FrameFile},
    survey::scan::{Ownership, PageRun},
};
use numaloc_core::{Claim, Extent, Kind, Mapping, NodeId, Pages, number, page_size, pmd_pages};
use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Most stretches that a thread of a survey keeps: with base pages of 4 KiB those of 128 GiB, in 6 MiB.
const MOST: usize = 1 << 16;
/// The age up to which a run uses them.
const FRESH: Duration = Duration::from_secs(2);
/// Base pages of a stretch; a huge page has as many or more.
const PAGES: u64 = 512;

/// Bytes of a stretch; its address is a multiple of them.
fn stretch_bytes() -> u64 {
    PAGES * page_size()
}

/// The remote pages of a stretch of one mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenStretch {
    mapping: Mapping,
    /// Where it begins in the process: a multiple of [`stretch_bytes`].
    address: u64,
    /// The node of its remote pages.
    pub node: NodeId,
    pages: [u64; number::index(PAGES) / 64],
}

impl SeenStretch {
    fn key(&self) -> (usize, u64, u64) {
        (self.mapping.process, self.mapping.start, self.address)
    }

    fn has(&self, page: usize) -> bool {
        self.pages[page / 64] >> (page % 64) & 1 == 1
    }

    /// The addresses of its remote pages within `addresses`, in order; pages that follow each other are one range.
    pub fn remote(&self, addresses: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let page_at = |address: u64| {
            let within = address.clamp(self.address, self.address + stretch_bytes());
            number::index((within - self.address) / page_size())
        };
        let (mut at, end) = (page_at(addresses.start), page_at(addresses.end));
        std::iter::from_fn(move || {
            at = (at..end).find(|&page| self.has(page))?;
            let after = (at..end).find(|&page| !self.has(page)).unwrap_or(end);
            let address = |page: usize| self.address + page as u64 * page_size();
            let range = address(at)..address(after);
            at = after;
            Some(range)
        })
    }
}

/// Keeps what one thread of a survey sees.
#[derive(Debug)]
pub(crate) struct StretchKeeper {
    flags: FrameFile,
    kept: usize,
}

impl StretchKeeper {
    /// `None` on hosts where folios have many sizes ([`probe::small_folios`]).
    ///
    /// [`probe::small_folios`]: crate::limits::probe::small_folios
    pub(crate) fn new(roots: &Roots, has_small_folios: bool) -> Option<Self> {
        let flags = FrameFile::flags(roots);
        (!has_small_folios).then_some(Self { flags, kept: 0 })
    }

    /// The notes of an extent with this claim. `None`: its pages are not kept.
    pub(super) fn begin(&mut self, extent: &Extent, claim: &Claim) -> Option<StretchNotes<'_>> {
        let [mapping] = *extent.mappings else { return None };
        let is_private = extent.kind == Kind::Anonymous && extent.hugetlb_bytes.is_none();
        let is_whole = !matches!(extent.pages, Pages::Common(_));
        let has_one_home = claim.cycle.is_none() && claim.portions.is_none();
        let is_kept = is_private && is_whole && has_one_home && extent.bytes >= stretch_bytes();
        (is_kept && self.kept < MOST).then(|| {
            self.flags.refresh();
            StretchNotes::new(mapping, self)
        })
    }
}

/// Notes the remote pages of one mapping, in the order of their addresses.
#[derive(Debug)]
pub(super) struct StretchNotes<'k> {
    mapping: Mapping,
    keeper: &'k mut StretchKeeper,
    noted: Vec<SeenStretch>,
    /// The last stretch that has a page which cannot be noted.
    refused: Option<u64>,
    /// The last frame at which a huge page would begin, and that has none.
    plain: Option<u64>,
}

impl<'k> StretchNotes<'k> {
    fn new(mapping: Mapping, keeper: &'k mut StretchKeeper) -> Self {
        Self { mapping, keeper, noted: Vec::new(), refused: None, plain: None }
    }

    /// Adds remote pages, which follow the ones before.
    pub(super) fn add(&mut self, run: &PageRun<'_>) {
        let Some(node) = run.node else { return };
        let is_base = run.ownership == Ownership::Exclusive && !run.huge;
        let start = self.mapping.start + run.offset;
        let end = start + run.bytes;
        let mut at = start;
        while at < end {
            let stretch = at / stretch_bytes() * stretch_bytes();
            let next = end.min(stretch + stretch_bytes());
            let is_plain =
                is_base && self.refused != Some(stretch) && self.are_plain(run, at..next);
            if self.refused != Some(stretch) {
                self.add_to(stretch, at..next, is_plain.then_some(node));
            }
            at = next;
        }
    }

    /// Whether none of these pages of a run is part of a larger folio.
    fn are_plain(&mut self, run: &PageRun<'_>, addresses: Range<u64>) -> bool {
        // Read once: the compiler keeps an atomic in a loop over each page.
        let (page_bytes, huge) = (page_size(), pmd_pages());
        let first = number::index((addresses.start - self.mapping.start - run.offset) / page_bytes);
        let first_page = addresses.start / page_bytes;
        (0..(addresses.end - addresses.start) / page_bytes).all(|index| {
            let pfn = run.entries.get(first + number::index(index)).map_or(0, |entry| entry.pfn());
            let at = (first_page + index) % huge;
            pfn % huge != at || self.is_plain(pfn, pfn - at)
        })
    }

    /// Whether a frame is a folio of its own. A huge page with it would begin at `head`.
    fn is_plain(&mut self, pfn: u64, head: u64) -> bool {
        if self.plain == Some(head) {
            return true;
        }
        let flags = self.keeper.flags.get(pfn);
        let is_plain = flags.is_some_and(|flags| flags & (COMPOUND_HEAD | COMPOUND_TAIL) == 0);
        self.plain = is_plain.then_some(head);
        is_plain
    }

    /// Adds pages of one stretch that are on `node`; `None`: the stretch cannot be kept.
    fn add_to(&mut self, stretch: u64, addresses: Range<u64>, node: Option<NodeId>) {
        let begun = self.noted.last().filter(|last| last.address == stretch).map(|last| last.node);
        let Some(node) = node.filter(|&node| begun.is_none_or(|begun| begun == node)) else {
            self.refused = Some(stretch);
            self.noted.truncate(self.noted.len() - usize::from(begun.is_some()));
            return;
        };
        if begun.is_none() {
            let (mapping, pages) = (self.mapping, [0; number::index(PAGES) / 64]);
            self.noted.push(SeenStretch { mapping, address: stretch, node, pages });
        }
        let Some(noted) = self.noted.last_mut() else { return };
        for page in
            (addresses.start - stretch) / page_size()..(addresses.end - stretch) / page_size()
        {
            noted.pages[number::index(page / 64)] |= 1 << (page % 64);
        }
    }

    pub(super) fn into_stretches(self) -> Vec<SeenStretch> {
        self.keeper.kept += self.noted.len();
        self.noted
    }
}

/// The remote pages that a survey has seen.
#[derive(Debug)]
pub struct SeenPages {
    /// Sorted by their key.
    stretches: Vec<SeenStretch>,
    since: Instant,
    is_outdated: AtomicBool,
}

impl SeenPages {
    /// Takes stretches in any order, which were seen since `since`.
    pub(super) fn new(mut stretches: Vec<SeenStretch>, since: Instant) -> Self {
        stretches.sort_unstable_by_key(SeenStretch::key);
        Self { stretches, since, is_outdated: AtomicBool::new(false) }
    }

    /// Whether a run may use them.
    pub fn are_fresh(&self) -> bool {
        !self.stretches.is_empty()
            && !self.is_outdated.load(Relaxed)
            && self.since.elapsed() < FRESH
    }

    /// Notes that much of it does not hold any more.
    pub fn outdate(&self) {
        self.is_outdated.store(true, Relaxed);
    }

    /// Divides a range of a mapping, in bytes from its start, into parts of stretches that were kept, and others (`None`).
    pub fn divide(
        &self,
        mapping: Mapping,
        range: Range<u64>,
    ) -> Vec<(Range<u64>, Option<&SeenStretch>)> {
        let mut parts: Vec<(Range<u64>, Option<&SeenStretch>)> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let stretch = (mapping.start + at) / stretch_bytes() * stretch_bytes();
            let end = (stretch + stretch_bytes() - mapping.start).min(range.end);
            match (parts.last_mut(), self.stretch(mapping, stretch)) {
                (Some((Range { end: last, .. }, None)), None) => *last = end,
                (_, seen) => parts.push((at..end, seen)),
            }
            at = end;
        }
        parts
    }

    fn stretch(&self, mapping: Mapping, address: u64) -> Option<&SeenStretch> {
        let key = (mapping.process, mapping.start, address);
        self.stretches
            .binary_search_by_key(&key, SeenStretch::key)
            .ok()
            .map(|index| &self.stretches[index])
    }
}

#[cfg(test)]
mod tests;

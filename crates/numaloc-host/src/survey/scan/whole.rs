//! Folios that strangers map in part.
//!
//! A folio moves whole, whichever of its pages is passed to the kernel (mm/migrate.c, `add_page_for_migration`), while page map and
//! counts are about single pages. With MPOL_MF_MOVE_ALL the kernel does not check who else maps the folio, and without it Linux before
//! 6.15 looks at one page (`page_mapcount`, `folio_likely_mapped_shared`). So where a page run has a part of a folio, the counts of all
//! its pages are compared with the mappings of the target: a page that these do not show must not be mapped at all.
//! From 6.15 on the kernel refuses a folio that others may map (`folio_maybe_mapped_shared`), so what goes without
//! MPOL_MF_MOVE_ALL is left to it.
//!
//! A mapping of the target that is not one of the extent's counts as a stranger's, but for private memory, which forked processes
//! have at the same address.
//!
//! A folio within a page run needs no second look: the scan has found the owner of each of its pages. One that a huge entry maps does:
//! its pages have the bits of the first one (fs/proc/task_mmu.c, `pagemap_pmd_range`), and others may map some by base entries.

use super::{Ownership, PageRun, Precision, Scanned};
use crate::{
    Roots,
    files::{
        kpage::{COMPOUND_HEAD, COMPOUND_TAIL, FrameFile, HUGETLB},
        pagemap::Entry,
    },
    limits::probe,
    survey::page_access::PageAccess,
};
use numaloc_core::{Mappers, Pages, number, page_size, pmd_pages};
use std::{cell::OnceCell, ops::Range};

/// Base pages of the largest folio that processes map as base pages (mm/pagemap.h, MAX_PAGECACHE_ORDER; arch x86). Folios are
/// aligned to their size in frames.
fn most() -> u64 {
    pmd_pages()
}
/// Base pages of the smallest folio of anonymous memory (Documentation/admin-guide/mm/transhuge.rst).
const LEAST_ANON: u64 = 4;
/// Rows of frames that one sampling scan looks at. With this many it takes about half a millisecond longer.
const SAMPLE: u32 = 1 << 9;
/// Most other processes of the target whose page maps are read for a folio of private memory.
const OTHERS: usize = 64;

/// Compares folios with the mappings of the target.
#[derive(Debug)]
pub(super) struct WholeFolios {
    flags: FrameFile,
    counts: FrameFile,
    precision: Precision,
    /// Whether the kernel itself may miss strangers of anonymous folios.
    guesses: bool,
    roots: Roots,
    /// Base pages of the smallest anonymous folio of several pages, read when it is first needed.
    least_anon: OnceCell<u64>,
    /// Runs that are still looked at in this scan.
    rest: u32,
    /// The folio of the last look, by its first frame, and whether it belongs to the target alone.
    last: Option<(u64, bool)>,
    buffer: Vec<u8>,
}

impl WholeFolios {
    /// `counts` are those of single pages.
    pub(super) fn new(
        roots: &Roots,
        page_access: &PageAccess,
        precision: Precision,
        counts: &FrameFile,
    ) -> Self {
        Self {
            flags: FrameFile::flags(roots),
            counts: counts.again(),
            precision,
            guesses: page_access.kernel < Some((6, 15)),
            roots: roots.clone(),
            least_anon: OnceCell::new(),
            rest: 0,
            last: None,
            buffer: Vec::new(),
        }
    }

    fn least_anon(&self) -> u64 {
        let read = || if probe::small_folios(&self.roots) { LEAST_ANON } else { most() };
        *self.least_anon.get_or_init(read)
    }

    /// Forgets what was read before.
    pub(super) fn refresh(&mut self) {
        self.flags.refresh();
        self.last = None;
        self.rest = if self.precision == Precision::Exact { u32::MAX } else { SAMPLE };
    }

    /// Visits the run, with the pages of folios that strangers map as [`Ownership::Stranger`].
    pub(super) fn check(
        &mut self,
        scanned: &Scanned<'_>,
        run: PageRun<'_>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) {
        let is_targets = matches!(run.ownership, Ownership::Exclusive | Ownership::Family);
        // Exclusive pages move without MPOL_MF_MOVE_ALL.
        let is_left = run.ownership == Ownership::Exclusive && !self.guesses;
        let is_compared = scanned.mappers == Mappers::Counted && scanned.hugetlb_bytes.is_none();
        if !is_targets || is_left || !is_compared || self.rest == 0 {
            return visit(run);
        }
        let is_ruled_out =
            |is_file| if is_file { scanned.ruled_out.file } else { scanned.ruled_out.anonymous };
        if run.huge {
            let is_file = run.entries.get(0).is_none_or(|entry| entry.is_file());
            let is_whole = is_ruled_out(is_file) || self.is_whole(&run, 0);
            let ownership = if is_whole { run.ownership } else { Ownership::Stranger };
            return visit(PageRun { ownership, ..run });
        }
        let mut strangers: Vec<Range<usize>> = Vec::new();
        let mut first = 0;
        while let Some(entry) = run.entries.get(first).filter(|_| self.rest > 0) {
            let next = self.row_end(&run, first);
            if is_ruled_out(entry.is_file()) {
                first = next;
                continue;
            }
            self.rest = self.rest.saturating_sub(1);
            self.cut_folios(scanned, &run, first..next, &mut strangers);
            if run.ownership == Ownership::Exclusive {
                self.huge_folios(&run, first..next, &mut strangers);
            }
            first = next;
        }
        strangers.sort_unstable_by_key(|pages| pages.start);
        visit_pieces(&run, &strangers, visit);
    }

    /// Where the frames that follow the one at `first` without a gap end.
    fn row_end(&self, run: &PageRun<'_>, first: usize) -> usize {
        let entry = |index: usize| run.entries.get(index);
        let follows = |&index: &usize| match (entry(index - 1), entry(index)) {
            (Some(one), Some(next)) => {
                next.pfn() == one.pfn() + 1 && next.is_file() == one.is_file()
            }
            _ => false,
        };
        first + 1 + (first + 1..run.entries.len()).take_while(follows).count()
    }

    /// Adds to `strangers` the pages of this row whose folio is not in the row as a whole, and that strangers map.
    fn cut_folios(
        &mut self,
        scanned: &Scanned<'_>,
        run: &PageRun<'_>,
        row: Range<usize>,
        strangers: &mut Vec<Range<usize>>,
    ) {
        for index in [row.start, row.end - 1] {
            let Some(entry) = run.entries.get(index) else { return };
            let offset = run.offset + index as u64 * page_size();
            let page = scanned.mappings[run.mapping].start.wrapping_add(offset) / page_size();
            // Pages of a file follow each other in its folios as in the mapping, so the one beside it, if it is there, is of another folio.
            let ends_here = |beside: Option<usize>| {
                beside.and_then(|beside| run.entries.get(beside)).is_some_and(|next| next.is_file())
            };
            let may_be_large = if entry.is_file() {
                index == row.start && !ends_here(index.checked_sub(1))
                    || index + 1 == row.end && !ends_here(Some(index + 1))
            } else {
                self.guesses && page % self.least_anon() == entry.pfn() % self.least_anon()
            };
            if !may_be_large || strangers.iter().rev().take(2).any(|known| known.contains(&index)) {
                continue;
            }
            let Some(folio) = self.folio(entry.pfn()) else { continue };
            let before = number::index(entry.pfn() - folio.start);
            let after = number::index(folio.end - entry.pfn());
            if index >= row.start + before && index + after <= row.end {
                continue;
            }
            if !self.is_targets(scanned, (run.mapping, offset), entry, folio) {
                let begin = index.saturating_sub(before).max(row.start);
                strangers.push(begin..(index + after).min(row.end));
            }
        }
    }

    /// Adds to `strangers` the huge pages of this row of exclusive pages that others map in part.
    fn huge_folios(
        &mut self,
        run: &PageRun<'_>,
        row: Range<usize>,
        strangers: &mut Vec<Range<usize>>,
    ) {
        let Some(pfn) = run.entries.get(row.start).map(|entry| entry.pfn()) else { return };
        let mut head = row.start + number::index(pfn.next_multiple_of(most()) - pfn);
        while head + number::index(most()) <= row.end {
            if !self.is_whole(run, head) {
                strangers.push(head..head + number::index(most()));
            }
            head += number::index(most());
        }
    }

    /// Whether each page of an exclusive huge page, whose first entry has this index, is mapped at most once.
    fn is_whole(&mut self, run: &PageRun<'_>, head: usize) -> bool {
        let Some(entry) = run.entries.get(head).filter(|entry| entry.is_file() || self.guesses)
        else {
            return true;
        };
        if self.precision == Precision::Sampled || entry.pfn() == 0 {
            return true;
        }
        let flags = self.flags.get(entry.pfn()).unwrap_or(0);
        if flags & COMPOUND_HEAD == 0 || flags & HUGETLB != 0 {
            return true;
        }
        let counts = self.counts.row(entry.pfn(), number::index(most()), &mut self.buffer);
        counts.iter().all(|&count| count <= 1)
    }

    /// The frames of the folio of several pages that a frame belongs to; `None`: a base page, a hugetlb page, or not known.
    fn folio(&mut self, pfn: u64) -> Option<Range<u64>> {
        let is_compound = |flags: u64| flags & (COMPOUND_HEAD | COMPOUND_TAIL) != 0;
        // Not read ahead: the next frame is most often elsewhere.
        let flags = *self.flags.row(pfn, 1, &mut self.buffer).first()?;
        if !is_compound(flags) || flags & HUGETLB != 0 {
            return None;
        }
        let block = pfn / most() * most();
        let flags = self.flags.row(block, number::index(most()), &mut self.buffer);
        let (at, is_tail) = (number::index(pfn - block), |flags: &u64| flags & COMPOUND_TAIL != 0);
        let head = flags.get(..=at)?.iter().rposition(|flags| !is_tail(flags)).unwrap_or(0);
        let tails = flags[head + 1..].iter().take_while(|flags| is_tail(flags)).count();
        Some(block + head as u64..block + (head + 1 + tails) as u64)
    }

    /// Whether no page of the folio has more mappings than the target shows. `entry` is that at `offset` of this mapping.
    fn is_targets(
        &mut self,
        scanned: &Scanned<'_>,
        (mapping, offset): (usize, u64),
        entry: Entry,
        folio: Range<u64>,
    ) -> bool {
        if let Some((head, is_targets)) = self.last
            && head == folio.start
        {
            return is_targets;
        }
        let pages = number::index(folio.end - folio.start);
        // A process that ends after this is missing in the page maps, and its pages count as strangers'.
        let mut counts = self.counts.row(folio.start, pages, &mut self.buffer);
        let before = (entry.pfn() - folio.start) * page_size();
        let seen = scanned.mappings.iter().map(|mapping| (mapping.process, mapping.start));
        // Private memory of the target's other processes is in extents of their own.
        let own = &scanned.mappings[mapping];
        let is_private = *scanned.pages == Pages::Own && !entry.is_file();
        let others = (0..scanned.spaces.len()).filter(|&other| is_private && other != own.process);
        for (process, start) in seen.chain(others.take(OTHERS).map(|other| (other, own.start))) {
            if !counts.iter().any(|&count| count > 0) {
                break;
            }
            let Some(address) = start.wrapping_add(offset).checked_sub(before) else { continue };
            self.buffer.resize(pages * 8, 0);
            let pagemap = scanned.spaces[process].pagemap();
            let read = pagemap.and_then(|pagemap| pagemap.read(address, &mut self.buffer));
            let Ok(entries) = read else { continue };
            for ((count, pfn), entry) in counts.iter_mut().zip(folio.clone()).zip(entries.iter()) {
                *count -= u64::from(*count > 0 && entry.is_present() && entry.pfn() == pfn);
            }
        }
        let is_targets = counts.len() == pages && counts.iter().all(|&count| count == 0);
        self.last = Some((folio.start, is_targets));
        is_targets
    }
}

/// Visits a run in pieces: these pages of it are strangers'.
fn visit_pieces(run: &PageRun<'_>, strangers: &[Range<usize>], visit: &mut dyn FnMut(PageRun<'_>)) {
    let mut piece = |pages: Range<usize>, ownership| {
        if !pages.is_empty() {
            let entries = run.entries.slice(pages.start, pages.len());
            let (offset, bytes) =
                (run.offset + pages.start as u64 * page_size(), pages.len() as u64 * page_size());
            visit(PageRun { offset, bytes, entries, ownership, ..*run });
        }
    };
    let mut at = 0;
    for pages in strangers {
        piece(at..pages.start, run.ownership);
        piece(pages.clone(), Ownership::Stranger);
        at = pages.end;
    }
    piece(at..run.entries.len(), run.ownership);
}

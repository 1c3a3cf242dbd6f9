//! Extents with one mapping: pagemap is read where there are base pages, and probed with PAGEMAP_SCAN where a stretch
//! is empty or huge.

use super::{
    Halt, MappedView, PageRun, PageRuns, Scanner,
    huge::{probe_max, probe_min},
};
use crate::files::pagemap::{Entries, chunk_pages, table_pages};
use numaloc_core::{number, page_size, pmd_size};
use std::ops::Range;

/// The result of reading a stretch of base pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Texture {
    Base,
    /// Empty or huge: worth a PAGEMAP_SCAN.
    Coarse,
}

/// When to read and when to probe, over one range.
struct ScanPace {
    read_pages: usize,
    probe_bytes: u64,
    /// No probe is made before the offset `quiet_until`, and the next fruitless probe moves that on by `quiet_bytes`.
    /// The reason: frames that follow each other look like huge pages, and on a freshly booted machine many base pages
    /// have such frames.
    quiet_until: u64,
    quiet_bytes: u64,
}

impl ScanPace {
    fn new() -> Self {
        Self {
            read_pages: table_pages(),
            probe_bytes: probe_min(),
            quiet_until: 0,
            quiet_bytes: 4 * probe_min(),
        }
    }
    fn has_read(&mut self) {
        self.read_pages = (self.read_pages * 2).min(chunk_pages());
        self.probe_bytes = probe_min();
    }
    fn has_probed(&mut self, walked: Range<u64>, base_pages: u64) -> Texture {
        self.probe_bytes = (self.probe_bytes * 2).min(probe_max());
        if base_pages * page_size() * 4 <= walked.end - walked.start {
            return Texture::Coarse;
        }
        self.read_pages = table_pages();
        self.quiet_until = walked.end + self.quiet_bytes;
        self.quiet_bytes = (self.quiet_bytes * 2).min(probe_max());
        Texture::Base
    }
}

/// Where a read of a part of a mapping ends at the latest. The first one ends where a page table does, if a huge page can
/// follow: a huge page in two reads is not noticed in either.
fn read_end(start: u64, part: Range<u64>) -> u64 {
    let table_end = (start + part.start).next_multiple_of(pmd_size()) - start;
    if table_end > part.start && table_end + pmd_size() <= part.end { table_end } else { part.end }
}

impl Scanner {
    pub(super) fn scan_one(
        &mut self,
        view: MappedView<'_>,
        range: Range<u64>,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Result<(), Halt> {
        let (mut at, mut scan_pace, mut texture) = (range.start, ScanPace::new(), Texture::Base);
        while at < range.end {
            if texture == Texture::Coarse
                && self.page_access.can_scan
                && at >= scan_pace.quiet_until
            {
                let end = (at + scan_pace.probe_bytes).min(range.end);
                let (walked, base_pages) = self.probe(view, at..end, buffer, visit)?;
                texture = scan_pace.has_probed(at..walked, base_pages);
                at = walked;
            } else {
                let end = read_end(view.start, at..range.end);
                let pages = self.gaps.pages(scan_pace.read_pages);
                let pages = pages.min(number::index((end - at) / page_size()));
                let entries = self.gaps.count(|| view.read(at, pages, buffer))?;
                texture = self.page_runs(view, at, entries, visit)?;
                at += pages as u64 * page_size();
                scan_pace.has_read();
            }
            self.gaps.leave();
        }
        Ok(())
    }

    /// Visits the page runs of entries that were read at `offset`.
    pub(super) fn page_runs(
        &mut self,
        view: MappedView<'_>,
        offset: u64,
        entries: Entries<'_>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Result<Texture, Halt> {
        self.query(view.space, view.start + offset, entries)?;
        let mut runs = PageRuns::new(offset, visit);
        let (mut present, mut contiguous, mut last_pfn) = (0usize, 0usize, 0);
        // Read once: the compiler keeps an atomic in a loop over each page.
        let page_bytes = page_size();
        for (index, entry) in entries.iter().enumerate() {
            if !entry.is_present() {
                continue;
            }
            present += 1;
            contiguous += usize::from(entry.pfn() == last_pfn + 1);
            last_pfn = entry.pfn();
            let at = offset + index as u64 * page_bytes;
            if self.is_zeros(view, at, index, entry) {
                continue;
            }
            let Some(ownership) = self.alone(view, at, entry) else { continue };
            runs.push(index, self.node(index, entry), ownership, entries);
        }
        runs.flush();
        // Huge pages show as frames that follow each other. Base pages may do so, too; a probe then finds that out at
        // little cost.
        let huge_like =
            present == entries.len() && contiguous + entries.len() / table_pages() >= entries.len();
        let is_coarse = present == 0 || huge_like && entries.len() >= table_pages();
        Ok(if is_coarse { Texture::Coarse } else { Texture::Base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_huge_page_is_in_two_reads() {
        let (start, huge) = (5 * pmd_size() - 3 * page_size(), pmd_size());
        let far = 9 * huge;
        assert_eq!(read_end(start, 0..far), 3 * page_size());
        assert_eq!(read_end(start, 3 * page_size()..far), far);
        assert_eq!(read_end(start, 4 * page_size()..far), 3 * page_size() + huge);
        assert_eq!(read_end(start, 0..huge), huge, "none can follow");
        assert_eq!(read_end(huge, 0..far), far);
    }
}

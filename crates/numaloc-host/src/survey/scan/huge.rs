//! Stretches that are empty or huge: PAGEMAP_SCAN passes over them, at the cost of one base page for each huge page.

use super::{Halt, MappedView, Ownership, PageRun, Precision, Scanner};
use crate::{Error, files::pagemap::chunk_pages, survey::space::AddressSpace};
use numaloc_core::{NodeId, number, page_size, pmd_size};
use numaloc_sys::{Categories, PageRegion, query_pages};
use std::ops::Range;

/// Largest stretch that one PAGEMAP_SCAN walks, in bytes: 2.3 ms of mmap_lock at the most, should it be full of base pages.
pub(super) fn probe_max() -> u64 {
    page_size() << 18
}

/// The stretch of the first PAGEMAP_SCAN, in bytes.
pub(super) fn probe_min() -> u64 {
    8 * pmd_size()
}

/// A sampling scanner looks up the ownership of one in this many huge pages.
const SAMPLE: usize = 32;

impl Scanner {
    /// The first address in a range of a process at which a page may be present; its end: there is none, or the address space has ended.
    /// Without PAGEMAP_SCAN its beginning.
    ///
    /// # Errors
    /// [`Error::Pages`] if the pages of an address space that exists cannot be read.
    pub(crate) fn first_present(
        &mut self,
        space: &AddressSpace,
        addresses: Range<u64>,
    ) -> Result<u64, Error> {
        let Range { mut start, end } = addresses;
        while self.page_access.can_scan && start < end {
            let until = end.min(start + probe_max());
            let first = self.gaps.count(|| space.pagemap()?.first_present(start, until));
            self.gaps.leave();
            let first =
                first.map_err(|error| Halt::at(space, "PAGEMAP_SCAN on its pagemap", error));
            match Halt::unless_ended(first)? {
                None => return Ok(end),
                Some(first) if first < until => return Ok(first),
                Some(_) => start = until,
            }
        }
        Ok(start)
    }

    /// Passes over a stretch with PAGEMAP_SCAN, and visits its pages. Returns where the walk ended and how many base
    /// pages it met.
    pub(super) fn probe(
        &mut self,
        view: MappedView<'_>,
        range: Range<u64>,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Result<(u64, u64), Halt> {
        let mut regions = [PageRegion::default(); 64];
        let (from, to) = (view.start + range.start, view.start + range.end);
        let pagemap = view.space.pagemap();
        let scanned = pagemap.and_then(|pagemap| {
            self.gaps.count(|| pagemap.scan(from, to, Categories::PRESENT, &mut regions))
        });
        let (found, walked) =
            scanned.map_err(|error| Halt::at(view.space, "PAGEMAP_SCAN on its pagemap", error))?;
        let mut base_pages = 0;
        for region in &regions[..found] {
            let (mut at, end) = (region.start - view.start, region.end - view.start);
            if region.categories().contains(Categories::HUGE)
                && region.start.is_multiple_of(pmd_size())
                && view.has_whole_huge()
            {
                let huge = at..end - (end - at) % pmd_size();
                at = huge.end;
                self.huge_runs(view, huge, buffer, visit)?;
            }
            while at < end {
                let pages =
                    self.gaps.pages(chunk_pages()).min(number::index((end - at) / page_size()));
                let entries = self.gaps.count(|| view.read(at, pages, buffer))?;
                self.page_runs(view, at, entries, visit)?;
                self.gaps.leave();
                at += pages as u64 * page_size();
                base_pages += pages as u64;
            }
        }
        // Always continues by at least a page: a walk that could not even begin would be repeated forever.
        Ok((walked.max(from + page_size()) - view.start, base_pages))
    }

    /// Visits the huge pages of a stretch that holds nothing else.
    fn huge_runs(
        &mut self,
        view: MappedView<'_>,
        range: Range<u64>,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Result<(), Halt> {
        if self.precision == Precision::Sampled && self.sampled_runs(view, &range, buffer, visit)? {
            return Ok(());
        }
        for offset in range.step_by(number::index(pmd_size())) {
            let entries = self.gaps.count(|| view.read(offset, 1, buffer))?;
            let Some(entry) = entries.get(0).filter(|entry| entry.is_present()) else { continue };
            self.query(view.space, view.start + offset, entries)?;
            if self.is_zeros(view, offset, 0, entry) {
                continue;
            }
            let Some(ownership) = self.alone(view, offset, entry) else { continue };
            let node = self.node(0, entry);
            let (bytes, huge) = (pmd_size(), true);
            visit(PageRun { offset, bytes, node, ownership, entries, huge, ..PageRun::default() });
        }
        Ok(())
    }

    /// As [`Self::huge_runs`], but asks for all nodes at once, and reads the ownership of only one page in [`SAMPLE`].
    /// To read one entry costs four times as much as one address in a long query. Returns `false`, with nothing
    /// visited, if a page of the sample is shared or the kernel does not see one of the pages.
    fn sampled_runs(
        &mut self,
        view: MappedView<'_>,
        range: &Range<u64>,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Result<bool, Halt> {
        let offsets: Vec<u64> = range.clone().step_by(number::index(pmd_size())).collect();
        for offset in offsets.iter().step_by(SAMPLE).chain(offsets.last()) {
            let entries = self.gaps.count(|| view.read(*offset, 1, buffer))?;
            if !entries.get(0).is_some_and(|entry| self.is_exclusive(view, entry)) {
                return Ok(false);
            }
        }
        let addresses: Vec<u64> = offsets.iter().map(|offset| view.start + offset).collect();
        let mut nodes = vec![0; addresses.len()];
        let asked = self.gaps.count(|| query_pages(view.space.tid(), &addresses, &mut nodes));
        if asked.is_err() || nodes.iter().any(|&node| node < 0) {
            return Ok(false);
        }
        for (offset, node) in offsets.into_iter().zip(nodes) {
            let (node, ownership) = (Some(NodeId(node.cast_unsigned())), Ownership::Exclusive);
            let (bytes, huge) = (pmd_size(), true);
            visit(PageRun { offset, bytes, node, ownership, huge, ..PageRun::default() });
        }
        Ok(true)
    }
}

//! Extents with several mappings: scanned one mapping after the other, part by part, each page visited once.
//!
//! A page that the kernel says is mapped once goes straight to the visitor. The others are joined in a [`FrameTable`]: a frame
//! whose mappings in the target equal the kernel's count belongs to the target alone. Where processes share page
//! tables, this count says nothing, and the survey has found out who maps the memory
//! ([`Mappers`](numaloc_core::Mappers)).
//!
//! The counts are read after the page maps, so a process that ends in between is missing in them: with a stranger, the
//! sum would equal the number of mappings again. So memory that is the target's alone counts as strangers' if one of
//! the processes that showed it has ended by then.

use super::{Halt, MappedView, Ownership, PageRun, Precision, Scanned, Scanner, table, uncounted};
use crate::{
    files::{kpage::FrameFile, pagemap::Entries},
    survey::outsiders::RuledOut,
};
use numaloc_core::{Pages, number, page_size, pmd_size};
use std::ops::Range;

/// Where a part has more pages than this, the next one is smaller, so that the table of a part stays small.
const PAGES: u64 = 1 << 14;
/// Bytes of the largest part, in memory that is almost empty.
const PART_MAX: u64 = 1 << 30;
/// A sampling scanner looks at this many bytes through all mappings, again and again at a distance of STRETCH. It does
/// so in memory that is mapped shared.
const SAMPLE: u64 = 256 << 10;
/// Distance between samples while at most FEW mappings show the memory. With more mappings the distance is larger, so
/// that all samples together cost no more than about one look through one mapping.
const STRETCH: u64 = 64 << 20;
const FEW: u64 = 256;

/// The way to scan a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartScan {
    /// The page maps of all mappings are compared, page by page.
    Exact,
    /// Through one mapping after the other, until each page has been seen once. Pages with several mappings are assumed
    /// to have the ownership that the last exact part has shown.
    Assumed(Ownership),
}

/// In which parts an extent is scanned, and how.
struct PartSchedule {
    end: u64,
    at: u64,
    bytes: u64,
    /// Distance between samples, if only those are looked at exactly, and where the next one begins.
    samples: Option<(u64, u64)>,
    /// The ownership of pages with several mappings, from the last sample.
    assumed: Option<Ownership>,
}

impl PartSchedule {
    fn new(scanned: &Scanned<'_>, precision: Precision, range: Range<u64>) -> Self {
        let known = uncounted(scanned.mappers).filter(|_| *scanned.pages == Pages::All);
        let sampled = *scanned.pages == Pages::All && precision == Precision::Sampled;
        let distance = STRETCH.max(STRETCH / FEW * scanned.mappings.len() as u64);
        let samples = match known {
            Some(_) => Some((distance, u64::MAX)), // none is needed
            None => sampled.then_some((distance, range.start)),
        };
        Self { end: range.end, at: range.start, bytes: pmd_size(), samples, assumed: known }
    }

    fn next(&mut self) -> Option<(Range<u64>, PartScan)> {
        if self.at >= self.end {
            return None;
        }
        let (mut bytes, mut part_scan) = (self.bytes, PartScan::Exact);
        if let Some((distance, next)) = &mut self.samples {
            match self.assumed.filter(|_| self.at < *next) {
                Some(ownership) => part_scan = PartScan::Assumed(ownership),
                None => (bytes, *next) = (bytes.min(SAMPLE), self.at + *distance),
            }
        }
        let begin = self.at;
        self.at = (begin + bytes).min(self.end);
        Some((begin..self.at, part_scan))
    }

    /// Learns from a part: how many pages it had, and the ownership of its pages with several mappings, if that was
    /// found out.
    fn learn(&mut self, pages: u64, found: Option<Ownership>) {
        self.assumed = found.or(self.assumed);
        self.bytes = match pages {
            0 => (self.bytes * 2).min(PART_MAX),
            // Parts stay small here. If the first mapping does not show one of the pages, the next mapping is read for
            // the whole part.
            _ if self.samples.is_some() => pmd_size(),
            1..PAGES => (self.bytes * 2).min(PART_MAX),
            _ => (self.bytes / 2).max(pmd_size()),
        };
    }
}

impl Scanner {
    pub(super) fn scan_family(
        &mut self,
        scanned: &Scanned<'_>,
        range: Range<u64>,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Result<(), Halt> {
        let mut parts = PartSchedule::new(scanned, self.precision, range);
        let mut joined = std::mem::take(&mut self.table);
        // The mappings that show joined pages of a part.
        let mut shown_by: Vec<MappedView<'_>> = Vec::new();
        while let Some((part, part_scan)) = parts.next() {
            joined.begin(number::index((part.end - part.start) / page_size()));
            shown_by.clear();
            for (index, mapping) in scanned.mappings.iter().enumerate() {
                if part_scan != PartScan::Exact && joined.is_full() {
                    break;
                }
                let space = &scanned.spaces[mapping.process];
                let &Scanned { mappers, hugetlb_bytes, ruled_out, .. } = scanned;
                let (start, lookup) = (mapping.start, false);
                let view = MappedView { space, start, lookup, mappers, hugetlb_bytes, ruled_out };
                let claim = scanned.claims.number(mapping.process);
                let mut is_joined = false;
                let result =
                    self.scan_one(view, part.clone(), buffer, &mut |run| match run.ownership {
                        // No other mapping shows it, so there is nothing to join.
                        Ownership::Exclusive => {
                            joined.see(part.start, &run);
                            visit(PageRun { mapping: index, ..run })
                        }
                        _ => {
                            is_joined = true;
                            joined.add(index, claim, part.start, &run)
                        }
                    });
                shown_by.extend(is_joined.then_some(view));
                match result {
                    Err(Halt::Ended) => {} // the others may still have pages
                    result => result?,
                }
            }
            let known = uncounted(scanned.mappers);
            let part_scan = known.map_or(part_scan, PartScan::Assumed);
            let ownerships = self.ownerships(scanned, &joined, part.start, part_scan, &shown_by);
            let found = match part_scan {
                PartScan::Exact if ownerships.contains(&Some(Ownership::Family)) => {
                    Some(Ownership::Family)
                }
                PartScan::Exact => ownerships.iter().flatten().next_back().copied(),
                PartScan::Assumed(_) => None,
            };
            joined_runs(&joined, part.start, &ownerships, visit);
            parts.learn(joined.seen(), found);
        }
        self.table = joined;
        Ok(())
    }

    /// The ownership of each joined frame; `None` as in [`Self::ownership`].
    fn ownerships(
        &mut self,
        scanned: &Scanned<'_>,
        joined: &table::FrameTable,
        begin: u64,
        part_scan: PartScan,
        shown_by: &[MappedView<'_>],
    ) -> Vec<Option<Ownership>> {
        if let PartScan::Assumed(ownership) = part_scan {
            return vec![Some(ownership); joined.frames().len()];
        }
        // Entries that were read ahead for an earlier part are older than these page maps.
        self.counts.iter_mut().for_each(FrameFile::refresh);
        let ownership = |frame: &table::Frame| {
            let mapping = &scanned.mappings[frame.mapping as usize];
            let pid = scanned.spaces[mapping.process].process.identity.pid;
            let address = mapping.start + begin + u64::from(frame.index) * page_size();
            self.ownership(frame.entry, frame.count.into(), (pid, address))
        };
        let mut ownerships: Vec<_> = joined.frames().iter().map(ownership).collect();
        let is_family = |found: &Option<Ownership>| *found == Some(Ownership::Family);
        if ownerships.iter().any(is_family) && shown_by.iter().any(MappedView::has_ended) {
            let families = ownerships.iter_mut().filter(|found| is_family(found));
            families.for_each(|found| *found = Some(Ownership::Stranger));
        }
        if scanned.ruled_out != RuledOut::default() {
            for (found, frame) in ownerships.iter_mut().zip(joined.frames()) {
                *found = self.without_strangers(*found, frame.entry, scanned.ruled_out);
            }
        }
        ownerships
    }
}

/// Visits the frames that have been joined, each with its ownership. Frames without one are left out.
fn joined_runs(
    joined: &table::FrameTable,
    begin: u64,
    ownerships: &[Option<Ownership>],
    visit: &mut dyn FnMut(PageRun<'_>),
) {
    let bytes: Vec<u8> =
        joined.frames().iter().flat_map(|frame| frame.entry.0.to_ne_bytes()).collect();
    let entries = Entries::of(&bytes);
    let mut open: Option<(PageRun<'_>, u32, usize)> = None;
    for (number, (frame, ownership)) in joined.frames().iter().zip(ownerships).enumerate() {
        let Some(ownership) = *ownership else { continue };
        let offset = begin + u64::from(frame.index) * page_size();
        if let Some((run, claims, first)) = &mut open
            && number == *first + number::index(run.bytes / page_size())
            && offset == run.offset + run.bytes
            && (run.mapping, run.node, run.ownership, *claims)
                == (frame.mapping as usize, frame.node, ownership, frame.claims)
        {
            run.bytes += page_size();
            continue;
        }
        let run = PageRun {
            mapping: frame.mapping as usize,
            offset,
            bytes: page_size(),
            node: frame.node,
            ownership,
            claims: Some(joined.claims(frame)),
            entries,
            huge: false,
        };
        close(open.replace((run, frame.claims, number)), entries, visit);
    }
    close(open, entries, visit);
}

/// Visits a run that is complete, with its own of all entries.
fn close<'e>(
    open: Option<(PageRun<'e>, u32, usize)>,
    entries: Entries<'e>,
    visit: &mut dyn FnMut(PageRun<'_>),
) {
    if let Some((run, _, first)) = open {
        visit(PageRun {
            entries: entries.slice(first, number::index(run.bytes / page_size())),
            ..run
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pages: &Pages, precision: Precision, mappings: usize, bytes: u64) -> Vec<(u64, bool)> {
        let mappings = vec![numaloc_core::Mapping { process: 0, start: 0 }; mappings];
        let claims = Default::default();
        let (spaces, claims, mappings) = (&[], &claims, &mappings);
        let scanned = Scanned::counted(spaces, claims, mappings, pages);
        let mut parts = PartSchedule::new(&scanned, precision, 0..bytes);
        let mut all = Vec::new();
        while let Some((range, part_scan)) = parts.next() {
            all.push((range.end - range.start, part_scan == PartScan::Exact));
            let found = (part_scan == PartScan::Exact).then_some(Ownership::Family);
            parts.learn((range.end - range.start) / page_size(), found);
        }
        assert_eq!(all.iter().map(|part| part.0).sum::<u64>(), bytes);
        all
    }

    #[test]
    fn private_memory_and_what_is_to_be_moved_is_looked_at_exactly() {
        let common = Pages::Common(Default::default());
        for (pages, precision) in [(&common, Precision::Sampled), (&Pages::All, Precision::Exact)] {
            assert!(parts(pages, precision, 200, 1 << 30).iter().all(|&(_, is_exact)| is_exact));
        }
    }

    #[test]
    fn samples_of_shared_memory_cost_about_one_look_through_one_mapping_at_most() {
        for mappings in [2, 8, 200, 1000, 10_000] {
            let parts = parts(&Pages::All, Precision::Sampled, mappings, 64 << 30);
            let exact: u64 = parts.iter().filter(|part| part.1).map(|part| part.0).sum();
            assert!(exact >= SAMPLE && exact * mappings as u64 <= 70 << 30, "{mappings}: {exact}");
        }
    }

    #[test]
    fn parts_grow_where_nothing_is_found() {
        let mappings = [numaloc_core::Mapping { process: 0, start: 0 }; 2];
        let (claims, pages) = Default::default();
        let (spaces, claims, mappings, pages) = (&[], &claims, &mappings, &pages);
        let scanned = Scanned::counted(spaces, claims, mappings, pages);
        let mut parts = PartSchedule::new(&scanned, Precision::Exact, 0..16 << 40);
        let mut count = 0;
        while parts.next().is_some() {
            parts.learn(0, None);
            count += 1;
        }
        assert!(count < (16 << 10) + 16, "{count}");
    }
}

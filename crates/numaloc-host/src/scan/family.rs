//! Extents with several mappings: walked side by side, each page visited once.

use super::{Run, Runs, Scanner, View};
use crate::{
    Source,
    pagemap::{CHUNK, Entries, Entry},
    space::AddressSpace,
};
use numaloc_core::{Mapping, NodeId, PAGE};
use numaloc_sys::query_pages;
use std::ops::Range;

impl Scanner {
    pub(super) fn scan_family(
        &mut self,
        spaces: &[AddressSpace],
        mappings: &[Mapping],
        range: Range<u64>,
        buffers: &mut [Vec<u8>],
        visit: &mut dyn FnMut(Run<'_>),
    ) {
        // However many map it, the buffers together stay under 8 MiB or so.
        let chunk = (1 << 20) / mappings.len().next_power_of_two();
        let chunk = chunk.clamp(64, CHUNK);
        let mut at = range.start;
        while at < range.end {
            let pages = chunk.min(((range.end - at) / PAGE) as usize);
            let mut views = Vec::with_capacity(mappings.len());
            for (mapping, buffer) in mappings.iter().zip(buffers.iter_mut()) {
                let view = View { space: &spaces[mapping.process], start: mapping.start };
                views.push(view.read(at, pages, buffer).unwrap_or_default());
            }
            self.family_runs(spaces, mappings, at, pages, &views, visit);
            at += pages as u64 * PAGE;
        }
    }

    fn family_runs(
        &mut self,
        spaces: &[AddressSpace],
        mappings: &[Mapping],
        offset: u64,
        pages: usize,
        views: &[Entries<'_>],
        visit: &mut dyn FnMut(Run<'_>),
    ) {
        let mut runs = Runs::new(offset, visit);
        // Per distinct frame at one offset: entry, first mapping, how many of ours map it.
        let mut distinct: Vec<(Entry, usize, u64)> = Vec::new();
        for index in 0..pages {
            distinct.clear();
            for (mapping, view) in views.iter().enumerate() {
                let Some(entry) = view.get(index).filter(|entry| entry.is_present()) else {
                    continue;
                };
                match distinct.iter_mut().find(|(known, ..)| known.pfn() == entry.pfn()) {
                    Some((.., count)) => *count += 1,
                    None => distinct.push((entry, mapping, 1)),
                }
            }
            // Without frame numbers all look the same, and count once, where they are first present.
            for &(entry, mapping, count) in &distinct {
                let Some(ownership) = self.ownership(entry, count) else { continue };
                let node = match self.source {
                    Source::Pagemap => self.frames.node(entry.pfn()),
                    Source::Query => {
                        let Mapping { process, start } = mappings[mapping];
                        query_one(spaces[process].pid(), start + offset + index as u64 * PAGE)
                    }
                };
                runs.push(mapping, index, node, ownership, views[mapping]);
            }
        }
        runs.flush();
    }
}

fn query_one(pid: i32, address: u64) -> Option<NodeId> {
    let mut status = [0];
    query_pages(pid, &[address], &mut status).ok()?;
    u32::try_from(status[0]).ok().map(NodeId)
}

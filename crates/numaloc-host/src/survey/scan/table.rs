//! Page frames that several mappings show, each stored once. The table joins the scans of one mapping after the other.

use super::PageRun;
use crate::files::pagemap::Entry;
use numaloc_core::{ClaimSet, NodeId, number, page_size};
use std::collections::{HashMap, hash_map};

/// A frame that mappings show at one offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Page number from the begin of the part.
    pub(super) index: u32,
    /// Index of the first mapping that shows it.
    pub(super) mapping: u32,
    /// Number of mappings that show it.
    pub(super) count: u32,
    /// The number of the claims of the processes that show it: see [`FrameTable::claims`].
    pub(super) claims: u32,
    /// Its pagemap entry in the first of these mappings.
    pub(super) entry: Entry,
    /// Its node, if it can be told.
    pub(super) node: Option<NodeId>,
}

/// The frames of a part. They are in the order of the first mapping that shows them, and of their addresses in it.
#[derive(Debug, Default)]
pub(super) struct FrameTable {
    frames: Vec<Frame>,
    known: HashMap<(u64, u32), u32, hash::Build>,
    /// Sets of claims, each stored once. `grown` has, for a set and a claim that is added to it, the number of the set
    /// that results.
    sets: Vec<ClaimSet>,
    grown: HashMap<(u32, usize), u32, hash::Build>,
    /// Number of different offsets at which a page has been seen.
    offsets: u64,
    is_seen: Vec<bool>,
}

impl FrameTable {
    /// Forgets all frames, for a new part of `pages` pages.
    pub(super) fn begin(&mut self, pages: usize) {
        self.frames.clear();
        self.known.clear();
        self.is_seen.clear();
        self.is_seen.resize(pages, false);
        self.offsets = 0;
        if self.sets.is_empty() {
            self.sets.push(ClaimSet::default());
        }
    }

    /// Adds the pages of a page run that `mapping` shows. `claim` is the number of the claim of its process, and the part
    /// begins at offset `begin`. If frames are hidden, pages at one offset are taken for one frame in two cases: they
    /// are surely the same (`entry.is_file`: pages of the object), or they cannot be told apart because they are on one
    /// node.
    pub(super) fn add(&mut self, mapping: usize, claim: usize, begin: u64, run: &PageRun<'_>) {
        let first = (run.offset - begin) / page_size();
        for page in 0..run.bytes / page_size() {
            // A huge page has one entry; its frames follow each other.
            let entry = if run.huge {
                run.entries.get(0).map(|entry| entry.tail(page))
            } else {
                run.entries.get(number::index(page))
            };
            let Some(entry) = entry else { return };
            self.add_page(mapping, claim, number::small(first + page), entry, run.node);
        }
    }

    fn add_page(
        &mut self,
        mapping: usize,
        claim: usize,
        index: u32,
        entry: Entry,
        node: Option<NodeId>,
    ) {
        let hidden =
            if entry.is_file() { 0 } else { node.map_or(u64::MAX, |node| u64::from(node.0) + 1) };
        let key = if entry.pfn() == 0 { hidden } else { entry.pfn() };
        self.see_page(index);
        let at = match self.known.entry((key, index)) {
            hash_map::Entry::Occupied(known) => *known.get(),
            hash_map::Entry::Vacant(new) => {
                let (mapping, count, claims) = (number::small(mapping), 0, 0);
                self.frames.push(Frame { index, mapping, count, claims, entry, node });
                *new.insert(number::small(self.frames.len() - 1))
            }
        };
        let before = self.frames[at as usize].claims;
        let claims = self.grow(before, claim);
        let frame = &mut self.frames[at as usize];
        (frame.count, frame.claims) = (frame.count + 1, claims);
    }

    fn grow(&mut self, set: u32, claim: usize) -> u32 {
        if let Some(&grown) = self.grown.get(&(set, claim)) {
            return grown;
        }
        let more = self.sets[set as usize].with(claim);
        let known = self.sets.iter().position(|known| *known == more);
        let grown = number::small(known.unwrap_or_else(|| {
            self.sets.push(more);
            self.sets.len() - 1
        }));
        self.grown.insert((set, claim), grown);
        grown
    }

    /// Notes the offsets of pages that are not joined with others.
    pub(super) fn see(&mut self, begin: u64, run: &PageRun<'_>) {
        let first = number::small((run.offset - begin) / page_size());
        (first..first + number::small(run.bytes / page_size()))
            .for_each(|index| self.see_page(index));
    }

    fn see_page(&mut self, index: u32) {
        let is_seen = std::mem::replace(&mut self.is_seen[index as usize], true);
        self.offsets += u64::from(!is_seen);
    }

    /// Number of offsets that show a page.
    pub(super) fn seen(&self) -> u64 {
        self.offsets
    }

    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The claims of a frame.
    pub(super) fn claims(&self, frame: &Frame) -> &ClaimSet {
        &self.sets[frame.claims as usize]
    }

    /// Whether each page of the part has been seen.
    pub(super) fn is_full(&self) -> bool {
        self.offsets == self.is_seen.len() as u64
    }
}

/// Fast hashing of small numbers, because the table is asked for each page of each mapping. No user can choose these
/// numbers to do harm.
mod hash {
    use std::hash::{BuildHasherDefault, Hasher};

    pub type Build = BuildHasherDefault<Mix>;

    /// Multiplies and folds, as rustc's own tables do.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Mix(u64);

    impl Hasher for Mix {
        fn finish(&self) -> u64 {
            self.0 ^ self.0 >> 32
        }
        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
        }
        fn write_u32(&mut self, number: u32) {
            self.write_u64(number.into());
        }
        fn write_usize(&mut self, number: usize) {
            self.write_u64(number as u64);
        }
        fn write_u64(&mut self, number: u64) {
            self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::pagemap::Entries, survey::scan::Ownership};
    use numaloc_core::{Claim, Claims, NodeSet};

    const PRESENT: u64 = 1 << 63;

    /// Adds entries from page 0 on, as shown by one mapping after the other.
    fn table(pages: usize, mappings: &[&[u64]]) -> FrameTable {
        let mut table = FrameTable::default();
        table.begin(pages);
        for (mapping, entries) in mappings.iter().enumerate() {
            let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
            let run = PageRun {
                offset: 1 << 30,
                bytes: entries.len() as u64 * page_size(),
                node: Some(NodeId(1)),
                ownership: Ownership::Several,
                entries: Entries::of(&bytes),
                ..PageRun::default()
            };
            table.add(mapping, mapping % 2, 1 << 30, &run);
        }
        table
    }

    #[test]
    fn a_frame_is_counted_where_it_is_shown() {
        let table = table(3, &[&[PRESENT | 7, PRESENT | 8], &[PRESENT | 7, PRESENT | 9]]);
        let of = |frame: &Frame| (frame.index, frame.mapping, frame.count, frame.entry.pfn());
        let frames: Vec<_> = table.frames().iter().map(of).collect();
        assert_eq!(frames, [(0, 0, 2, 7), (1, 0, 1, 8), (1, 1, 1, 9)]);
        let claims: Claims = ["0", "1"]
            .map(|home| Claim {
                home: home.parse().unwrap(),
                allowed: NodeSet::new(),
                ..Claim::default()
            })
            .into_iter()
            .collect();
        let sets: Vec<ClaimSet> =
            table.frames().iter().map(|frame| table.claims(frame).clone()).collect();
        assert_eq!(sets, [claims.of([0, 1]), claims.of([0]), claims.of([1])]);
        assert!(!table.is_full(), "nothing is known of the third page");
    }

    #[test]
    fn hidden_frames_of_a_file_are_one_and_others_are_one_a_node() {
        const FILE: u64 = PRESENT | 1 << 61;
        let hidden = table(2, &[&[FILE, PRESENT], &[FILE, PRESENT]]);
        let counts: Vec<u32> = hidden.frames().iter().map(|frame| frame.count).collect();
        assert_eq!(counts, [2, 2]);
        assert!(hidden.is_full());
    }

    #[test]
    fn many_views_of_a_frame_are_one_frame() {
        let row: Vec<u64> = (0..512).map(|pfn| PRESENT | (pfn + 1)).collect();
        let views = vec![row.as_slice(); 300];
        let table = table(512, &views);
        assert_eq!(table.frames().len(), 512);
        assert!(table.frames().iter().all(|frame| frame.count == 300));
        assert_eq!(table.sets.len(), 3, "no claim, the first, both");
    }
}

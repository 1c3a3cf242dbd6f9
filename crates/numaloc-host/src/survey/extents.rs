//! VMAs of several processes -> extents: ranges that a fixed set of mappings shares.
//!
//! Memory that is mapped shared is the same for all processes that map it, so its extents are ranges of the mapped
//! object. Private memory belongs to its process, wherever it lies. Two processes can share private pages only where
//! both have private memory of the same origin: anonymous memory of a forked family at the same addresses, private
//! pages of a file at the same offset in it. Heaps of unrelated processes that happen to be at the same address look
//! like that, too; their pages then show that they are different.

use crate::files::maps::{Object, Vma};
use numaloc_core::{
    Extent, Indexing, Kind, Mapping, Mempolicy, Origin, Pages, Residency, page_size,
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Most mappings that the parts of a target may list beyond one for each of its VMAs: 16 MiB of memory. Mappings of one object that
/// overlap, or that others cut, are listed by each part that they are cut into, so without a bound the lists grow with the square
/// of the number of VMAs, which any process may have by the ten thousand. Applications that map their memory twice or three times,
/// and a thousand processes with a segment in hundreds of pieces, stay far below.
const REPEATED_MAX: usize = 1 << 20;

/// An extent, and where it lies in its object.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) extent: Extent,
    pub(crate) object: Object,
    /// Offset of its first byte in the object.
    pub(crate) offset: u64,
    /// Where it begins, as the kernel counts folios.
    pub(crate) origin: Origin,
}

/// The mappings of an object overlap too much to be compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overlaps {
    /// The index of the process with most of them.
    pub(crate) process: usize,
    /// Number of mappings of the object in that process.
    pub(crate) mappings: usize,
    pub(crate) name: Arc<str>,
}

impl Overlaps {
    fn of(pieces: &[Piece]) -> Self {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        pieces.iter().for_each(|piece| *counts.entry(piece.process).or_default() += 1);
        let most = counts.into_iter().max_by_key(|&(process, mappings)| (mappings, process));
        let (process, mappings) = most.unwrap_or_default();
        let name = pieces.first().map_or_else(Default::default, |piece| piece.vma.name.clone());
        Self { process, mappings, name }
    }
}

/// The parts so far, and how many mappings more they may list.
struct PartList {
    parts: Vec<Part>,
    left: usize,
}

impl PartList {
    fn of(objects: &BTreeMap<Object, Vec<Piece>>) -> Self {
        let pieces: usize = objects.values().map(Vec::len).sum();
        Self { parts: Vec::new(), left: pieces + REPEATED_MAX }
    }

    /// Adds a part of these mappings; `None` if that would be too many.
    fn add(&mut self, active: &[&Piece], bytes: Range<u64>, pages: Pages) -> Option<()> {
        self.left = self.left.checked_sub(active.len())?;
        self.parts.push(part(active, bytes.start, bytes.end, pages));
        Some(())
    }
}

/// One VMA, placed by its offset in its object.
struct Piece {
    process: usize,
    vma: Vma,
    /// Bytes from the start of the process's mapping to this piece of it.
    skew: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.vma.offset + (self.vma.end - self.vma.start)
    }
}

/// The extents of all VMAs. `vmas` has one list for each process, by the process's index.
///
/// # Errors
/// [`Overlaps`].
pub(crate) fn parts(vmas: Vec<Vec<Vma>>) -> Result<Vec<Part>, Overlaps> {
    let mut objects: BTreeMap<Object, Vec<Piece>> = BTreeMap::new();
    for (process, vmas) in vmas.into_iter().enumerate() {
        for vma in vmas {
            objects.entry(vma.object).or_default().push(Piece { process, vma, skew: 0 });
        }
    }
    join_compared(&mut objects);
    let mut parts = PartList::of(&objects);
    for (object, mut pieces) in objects {
        pieces.sort_by_key(|piece| (piece.vma.offset, piece.process, piece.vma.start));
        let is_same = object.is_proved() && pieces.iter().all(|piece| piece.vma.shared);
        let added = if is_same {
            cut(&pieces, &Pages::All, &mut parts)
        } else {
            single(&pieces, &mut parts)
        };
        added.ok_or_else(|| Overlaps::of(&pieces))?;
    }
    // In the order of processes and addresses, as people read them.
    let mut parts = parts.parts;
    parts.sort_by_key(|part| first(&part.extent));
    Ok(parts)
}

/// Adds the mappings of a file to the ones that may show the same file through another file system.
fn join_compared(objects: &mut BTreeMap<Object, Vec<Piece>>) {
    let is_compared = |object: &&Object| !object.is_proved();
    let compared: Vec<Object> = objects.keys().filter(is_compared).copied().collect();
    if compared.is_empty() {
        return;
    }
    let is_file = |object: &&Object| matches!(object, Object::File { .. });
    let files: Vec<Object> = objects.keys().filter(is_file).copied().collect();
    for file in files {
        let Object::File { inode, .. } = file else { continue };
        let object = Object::Compared { inode: Object::low_bits(inode) };
        let is_one = compared.binary_search(&object).is_ok();
        let Some(mut pieces) = is_one.then(|| objects.remove(&file)).flatten() else { continue };
        pieces.iter_mut().for_each(|piece| piece.vma.object = object);
        objects.entry(object).or_default().extend(pieces);
    }
}

/// The parts of memory in which pages with several mappings were seen. `parts` are those of which the pages of their
/// own are known already; `seen` holds, for each of them, ranges in bytes from its start. The result is cut wherever
/// the set of processes that saw such pages changes.
///
/// # Errors
/// [`Overlaps`].
pub(crate) fn common(parts: &[Part], seen: &[Vec<Range<u64>>]) -> Result<Vec<Part>, Overlaps> {
    let mut objects: BTreeMap<Object, Vec<Piece>> = BTreeMap::new();
    for (part, seen) in parts.iter().zip(seen) {
        let Extent { mappings, kind, hugetlb_bytes, mappers, name, .. } = &part.extent;
        let object = part.object;
        for range in seen {
            let Mapping { process, start } = mappings[0];
            let vma = Vma {
                start: start + range.start,
                end: start + range.end,
                offset: part.offset + range.start,
                object,
                shared: false,
                kind: *kind,
                fixed: None,
                hugetlb_bytes: *hugetlb_bytes,
                mappers: *mappers,
                name: name.clone(),
                rule: part.extent.rule,
            };
            let skew = part.origin.skew_bytes + range.start;
            objects.entry(object).or_default().push(Piece { process, vma, skew });
        }
    }
    let mut parts = PartList::of(&objects);
    for mut pieces in objects.into_values() {
        pieces.sort_by_key(|piece| (piece.vma.offset, piece.process, piece.vma.start));
        let added = cut(&pieces, &Pages::Common(Default::default()), &mut parts);
        added.ok_or_else(|| Overlaps::of(&pieces))?;
    }
    Ok(parts.parts)
}

/// All pages of a mapping of one process.
pub(crate) fn fixed(process: usize, vma: Vma) -> Part {
    let (from, to) = (vma.offset, vma.offset + (vma.end - vma.start));
    part(&[&Piece { process, vma, skew: 0 }], from, to, Pages::All)
}

fn first(extent: &Extent) -> (usize, u64) {
    (extent.mappings[0].process, extent.mappings[0].start)
}

/// One extent for each piece. A piece that overlaps no other in the object has all its pages ([`Pages::All`]); others
/// have only their own ([`Pages::Own`]). `None` as for [`PartList::add`].
fn single(pieces: &[Piece], parts: &mut PartList) -> Option<()> {
    let mut end_before = 0;
    for (index, piece) in pieces.iter().enumerate() {
        let next = pieces.get(index + 1).map_or(u64::MAX, |next| next.vma.offset);
        let is_alone = end_before <= piece.vma.offset && piece.end() <= next;
        end_before = end_before.max(piece.end());
        let pages = if is_alone { Pages::All } else { Pages::Own };
        parts.add(&[piece], piece.vma.offset..piece.end(), pages)?;
    }
    Some(())
}

/// Extents cut at each start and end of a piece. `pieces` have to be in the order of their offsets. `None` as for [`PartList::add`].
fn cut(pieces: &[Piece], pages: &Pages, parts: &mut PartList) -> Option<()> {
    let mut active: Vec<&Piece> = Vec::new();
    let mut rest = pieces.iter().peekable();
    let mut at = 0;
    loop {
        while let Some(piece) = rest.next_if(|piece| active.is_empty() || piece.vma.offset <= at) {
            if active.is_empty() {
                at = piece.vma.offset;
            }
            active.push(piece);
        }
        if active.is_empty() {
            return Some(());
        }
        let first_end = active.iter().map(|piece| piece.end()).min().unwrap_or(at);
        let next = rest.peek().map_or(first_end, |piece| piece.vma.offset.min(first_end));
        if next > at {
            parts.add(&active, at..next, pages.clone())?;
        }
        at = next;
        active.retain(|piece| piece.end() > at);
    }
}

fn part(active: &[&Piece], from: u64, to: u64, pages: Pages) -> Part {
    let mut mappings: Vec<Mapping> = active
        .iter()
        .map(|piece| Mapping {
            process: piece.process,
            start: piece.vma.start + (from - piece.vma.offset),
        })
        .collect();
    mappings.sort_by_key(|mapping| (mapping.process, mapping.start));
    let first = &active[0].vma;
    let extent = Extent {
        mappings,
        pages,
        bytes: to - from,
        kind: first.kind,
        policy: Mempolicy::Default,
        hugetlb_bytes: first.hugetlb_bytes,
        mappers: active.iter().map(|piece| piece.vma.mappers).max().unwrap_or_default(),
        stripe: None,
        // Memory that one rule names for one process belongs where the rule says, also if other processes map it.
        rule: active.iter().filter_map(|piece| piece.vma.rule).min(),
        name: first.name.clone(),
        residency: Residency::default(),
    };
    Part { extent, object: first.object, offset: from, origin: origin(active[0], from) }
}

/// Where the part of a piece that begins at the offset `from` of the object begins, as the kernel counts. Shared memory is counted
/// in the object, whatever maps it (mm/shmem.c, `shmem_get_pgoff_policy`), and other memory in its mapping (mm/mempolicy.c,
/// `get_vma_policy`).
fn origin(piece: &Piece, from: u64) -> Origin {
    let (vma, indexing) = (&piece.vma, Indexing::default());
    if vma.kind == Kind::Shmem && vma.hugetlb_bytes.is_none() {
        let inode = match vma.object {
            Object::Anonymous => 0,
            Object::File { inode, .. } | Object::Compared { inode } => inode,
            Object::Segment { id, .. } => id,
        };
        return Origin { first_page: 0, skew_bytes: from, inode, indexing };
    }
    let first_page = vma.offset.saturating_sub(piece.skew) / page_size();
    let skew_bytes = piece.skew + (from - vma.offset);
    Origin { first_page, skew_bytes, inode: 0, indexing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::maps::parse_line;
    use numaloc_core::pmd_size;

    /// Length in bytes, which pages belong to it, and mappings as (process, start).
    type Flat = (u64, Pages, Vec<(usize, u64)>);

    fn flat(parts: Vec<Part>) -> Vec<Flat> {
        let flat = |Extent { bytes, pages, mappings, .. }| {
            let of = |mapping: &Mapping| (mapping.process, mapping.start);
            (bytes, pages, mappings.iter().map(of).collect())
        };
        parts.into_iter().map(|part| flat(part.extent)).collect()
    }

    fn parts_of(processes: &[&[&str]]) -> Vec<Part> {
        let vmas = |lines: &&[&str]| lines.iter().map(|line| parse_line(line).unwrap()).collect();
        parts(processes.iter().map(vmas).collect()).expect("they overlap little")
    }

    fn of(processes: &[&[&str]]) -> Vec<Flat> {
        flat(parts_of(processes))
    }

    #[test]
    fn private_memory_of_one_process_stays_as_it_is() {
        let lines: &[&str] =
            &["1000-3000 rw-p 0 00:00 0", "3000-4000 r--p 0 00:00 0", "9000-a000 rw-p 0 00:00 0"];
        assert_eq!(
            of(&[lines]),
            [
                (0x2000, Pages::All, vec![(0, 0x1000)]),
                (0x1000, Pages::All, vec![(0, 0x3000)]),
                (0x1000, Pages::All, vec![(0, 0x9000)])
            ]
        );
    }

    #[test]
    fn private_memory_at_the_same_address_is_each_processs_own() {
        let first: &[&str] = &["c000-e000 rw-p 0 00:00 0", "10000-11000 rw-p 0 00:00 0"];
        let second: &[&str] = &["d000-f000 rw-p 0 00:00 0"];
        assert_eq!(
            of(&[first, second]),
            [
                (0x2000, Pages::Own, vec![(0, 0xc000)]),
                (0x1000, Pages::All, vec![(0, 0x10000)]),
                (0x2000, Pages::Own, vec![(1, 0xd000)])
            ]
        );
    }

    #[test]
    fn a_shared_object_is_cut_where_its_mappers_change() {
        let first: &[&str] = &["10000-14000 rw-s 00000000 00:01 7 /dev/shm/a"];
        let second: &[&str] = &["50000-52000 rw-s 00001000 00:01 7 /dev/shm/a"];
        assert_eq!(
            of(&[first, second]),
            [
                (0x1000, Pages::All, vec![(0, 0x10000)]),
                (0x2000, Pages::All, vec![(0, 0x11000), (1, 0x50000)]),
                (0x1000, Pages::All, vec![(0, 0x13000)]),
            ]
        );
    }

    #[test]
    fn an_object_mapped_twice_by_one_process_has_two_mappings() {
        let lines: &[&str] =
            &["1000-2000 rw-s 0 00:01 7 /dev/shm/a", "8000-9000 rw-s 0 00:01 7 /dev/shm/a"];
        assert_eq!(of(&[lines]), [(0x1000, Pages::All, vec![(0, 0x1000), (0, 0x8000)])]);
    }

    fn compared(start: u64, pages: std::ops::Range<u64>, shared: bool) -> Vma {
        Vma { object: Object::Compared { inode: 7 }, ..vma(start, pages, shared) }
    }

    #[test]
    fn what_may_be_one_file_is_compared_page_by_page() {
        let one = vec![compared(0x10000, 0..4, true)];
        let other = vec![compared(0x50000, 1..3, true)];
        let layer = vec![vma(0x90000, 2..3, true), vma(0xa0000, 8..9, true)];
        let parts = parts(vec![one, other, layer]).expect("they overlap little");
        assert!(parts.iter().all(|part| part.object == Object::Compared { inode: 7 }));
        let seen: Vec<Vec<Range<u64>>> =
            parts.iter().map(|part| std::iter::once(0..part.extent.bytes).collect()).collect();
        let joined = flat(common(&parts, &seen).expect("they overlap little"));
        assert_eq!(
            flat(parts),
            [
                (0x4000, Pages::Own, vec![(0, 0x10000)]),
                (0x2000, Pages::Own, vec![(1, 0x50000)]),
                (0x1000, Pages::Own, vec![(2, 0x90000)]),
                (0x1000, Pages::All, vec![(2, 0xa0000)]),
            ]
        );
        let all = Pages::Common(Default::default());
        assert!(joined.contains(&(0x1000, all, vec![(0, 0x12000), (1, 0x51000), (2, 0x90000)])));
    }

    #[test]
    fn a_file_whose_inode_nothing_else_has_is_not_compared() {
        let other = Object::Compared { inode: 8 };
        let vmas = vec![vma(0x10000, 0..4, true), Vma { object: other, ..vma(0, 0..1, true) }];
        let parts = parts(vec![vmas, vec![vma(0x50000, 0..4, true)]]).expect("they overlap little");
        assert!(parts.iter().all(|part| part.extent.pages == Pages::All));
    }

    fn vma(start: u64, pages: std::ops::Range<u64>, shared: bool) -> Vma {
        let object = Object::File { device: (0, 1), inode: 7 };
        let (end, offset) = (start + (pages.end - pages.start) * 4096, pages.start * 4096);
        let (kind, name) = (numaloc_core::Kind::Shmem, "/memfd:x (deleted)".into());
        let (hugetlb_bytes, mappers) = Default::default();
        let (rule, fixed) = (None, None);
        Vma { start, end, offset, object, shared, kind, fixed, hugetlb_bytes, mappers, name, rule }
    }

    /// Mappings of one process from each page to the end.
    fn stairs(count: u64, shared: bool) -> Vec<Vma> {
        (0..count).map(|page| vma(page << 32, page..count, shared)).collect()
    }

    #[test]
    fn one_process_whose_mappings_overlap_by_the_thousand_is_refused_by_name() {
        let calm = vec![vma(0, 0..1, true)];
        assert_eq!(
            parts(vec![calm.clone(), stairs(60_000, true)]).expect_err("too many"),
            Overlaps { process: 1, mappings: 60_000, name: "/memfd:x (deleted)".into() }
        );
        assert_eq!(parts(vec![stairs(1000, true)]).expect("half a million").len(), 1000);
        // Each has one mapping of all, and one process cuts all of them.
        let mut many = vec![vec![vma(0, 0..60_000, true)]; 1000];
        many.push((0..60_000).map(|page| vma(page << 32, page..page + 1, true)).collect());
        let refused = parts(many).expect_err("sixty million");
        assert_eq!((refused.process, refused.mappings), (1000, 60_000));
    }

    #[test]
    fn private_mappings_are_refused_where_pages_with_several_mappings_were_seen() {
        let parts = parts(vec![stairs(60_000, false)]).expect("one part for each");
        let seen: Vec<Vec<_>> =
            parts.iter().map(|part| std::iter::once(0..part.extent.bytes).collect()).collect();
        assert_eq!(common(&parts, &seen).expect_err("too many").mappings, 60_000);
    }

    #[test]
    fn common_parts_are_where_pages_with_several_mappings_were_seen() {
        let line: &[&str] = &["200000-a00000 rw-p 0 00:00 0"];
        let parts = parts_of(&[line, line, line]);
        let seen = [0..8 << 20, 0..pmd_size(), 0..0];
        let seen = seen.map(|range| Vec::from_iter(Some(range).filter(|range| !range.is_empty())));
        let start = 0x20_0000;
        let pages = Pages::Common(Default::default());
        assert_eq!(
            flat(common(&parts, &seen).expect("they overlap little")),
            [
                (pmd_size(), pages.clone(), vec![(0, start), (1, start)]),
                (3 * pmd_size(), pages, vec![(0, start + pmd_size())]),
            ]
        );
    }
}

//! Holes of large mappings: pieces without pages are passed over together (PAGEMAP_SCAN), and not scanned one by one.

use super::{Looker, PIECE};
use crate::{
    Error,
    survey::{extents::Part, space::AddressSpace},
};
use numaloc_core::{Mapping, pmd_size};
use parking_lot::Mutex;
use std::{collections::BTreeMap, ops::Range};

/// By the index of each mapping of several pieces: the last hole that was found in it, in bytes from its start. The threads of a look
/// share them, and one may come to its piece after another has found a hole behind it.
#[derive(Debug)]
pub(super) struct Holes(BTreeMap<usize, Mutex<Range<u64>>>);

impl Holes {
    /// None is known yet.
    pub(super) fn of(parts: &[Part]) -> Self {
        let is_large = |Part { extent, .. }: &Part| {
            extent.mappings.len() == 1 && extent.hugetlb_bytes.is_none() && extent.bytes > PIECE
        };
        let large = (0..parts.len()).filter(|&index| is_large(&parts[index]));
        Self(large.map(|index| (index, Mutex::default())).collect())
    }

    /// The rest of a piece of the part with this index, from the first chunk on that may have pages. `None`: it has none.
    ///
    /// # Errors
    /// [`Error::Pages`] if the pages of an address space that exists cannot be read.
    pub(super) fn rest(
        &self,
        index: usize,
        Part { extent, .. }: &Part,
        piece: Range<u64>,
        spaces: &[AddressSpace],
        looker: &mut Looker,
    ) -> Result<Option<Range<u64>>, Error> {
        let Some(hole) = self.0.get(&index) else { return Ok(Some(piece)) };
        let is_within = |hole: &Range<u64>| hole.start <= piece.start && piece.end <= hole.end;
        if is_within(&hole.lock()) {
            return Ok(None);
        }
        let Mapping { process, start } = extent.mappings[0];
        let addresses = start + piece.start..start + extent.bytes;
        let first = looker.scanner.first_present(&spaces[process], addresses.clone())?;
        let is_none = first == addresses.end;
        let first = if is_none { first } else { first / pmd_size() * pmd_size() };
        let begin = first.max(addresses.start) - start;
        *hole.lock() = piece.start..begin;
        Ok((begin < piece.end).then_some(begin..piece.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Roots,
        fake::anonymous,
        files::maps::Object,
        survey::{
            folios::Folios,
            reserved::Reserved,
            residency::find,
            scan::{Precision, Scanner, tests::this_process},
        },
    };
    use numaloc_core::{Claim, Origin, number, page_size};

    fn part(start: u64, bytes: u64) -> Part {
        let extent = anonymous(start, bytes);
        Part { extent, object: Object::Anonymous, offset: start, origin: Origin::default() }
    }

    #[test]
    fn pages_behind_holes_are_found_by_all_threads() {
        let roots = Roots::default();
        let Some((space, page_access)) = this_process(&roots) else { return };
        let mut memory = vec![0u8; number::index(9 * PIECE)];
        let start = (memory.as_ptr() as u64).next_multiple_of(pmd_size());
        let offsets = [3 * PIECE + 5 * page_size(), 7 * PIECE - page_size()];
        for offset in offsets {
            let index = number::index(start + offset - memory.as_ptr() as u64);
            memory[index] = 1;
        }
        let (spaces, claims) = ([space], [Claim::default()].into_iter().collect());
        let looker = || {
            let scanner = Scanner::new(&roots, &page_access, Precision::Exact);
            Looker { scanner, folios: Folios::new(&roots), include_shared: false, keeper: None }
        };
        for threads in [1, 3] {
            let (parts, reserved) = ([part(start, 8 * PIECE)], Reserved::default());
            let found = find(&parts, &reserved, &spaces, &claims, threads, &looker, &|| false);
            let [mut found]: [_; 1] = found.expect("no error").try_into().expect("one part");
            // They may be huge pages.
            let chunks: Vec<_> = found.own.entry(None).away.ranges(start, 8 * PIECE).collect();
            let expected = offsets.map(|offset| {
                offset / pmd_size() * pmd_size()..(offset / pmd_size() + 1) * pmd_size()
            });
            assert_eq!(chunks, expected);
        }
        assert!(Holes::of(&[part(start, PIECE)]).0.is_empty(), "it is one piece");
    }

    #[test]
    fn a_hole_that_begins_later_hides_no_page() {
        let roots = Roots::default();
        let Some((space, page_access)) = this_process(&roots) else { return };
        let mut memory = vec![0u8; number::index(9 * PIECE)];
        let start = (memory.as_ptr() as u64).next_multiple_of(pmd_size());
        let at = |piece: u64| number::index(start + piece * PIECE - memory.as_ptr() as u64);
        let (first, last) = (at(0), at(7));
        (memory[first], memory[last]) = (1, 1);
        let (part, spaces) = (part(start, 8 * PIECE), [space]);
        let scanner = Scanner::new(&roots, &page_access, Precision::Exact);
        let folios = Folios::new(&roots);
        let mut looker = Looker { scanner, folios, include_shared: false, keeper: None };
        let holes = Holes::of(std::slice::from_ref(&part));
        let mut rest = |piece: u64| {
            let piece = piece * PIECE..(piece + 1) * PIECE;
            holes.rest(0, &part, piece, &spaces, &mut looker).expect("no error")
        };
        assert_eq!(rest(2), None);
        assert_eq!(rest(5), None, "it is in the same hole");
        assert_eq!(rest(0), Some(0..PIECE), "another thread comes to it later");
        assert_eq!(rest(7), Some(7 * PIECE..8 * PIECE));
        assert_eq!(rest(6), None);
    }
}

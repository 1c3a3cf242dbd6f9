//! VMAs of several processes -> extents: ranges that a fixed set of mappings shares.

use crate::maps::{Object, Vma};
use numaloc_core::{Extent, Mapping, Mempolicy, Residency};
use std::collections::BTreeMap;

/// One VMA on the coordinate of its object.
struct Piece {
    process: usize,
    vma: Vma,
}

/// Cuts the objects that the processes map at each boundary of a VMA. `vmas` holds one list per process, by its index.
///
/// Pages of a file or of shared memory meet at their offset in the object; private anonymous pages that a forked
/// family shares meet at their address.
pub fn extents(vmas: Vec<Vec<Vma>>) -> Vec<Extent> {
    let mut objects: BTreeMap<Object, Vec<Piece>> = BTreeMap::new();
    for (process, vmas) in vmas.into_iter().enumerate() {
        for vma in vmas {
            objects.entry(vma.object).or_default().push(Piece { process, vma });
        }
    }
    let mut extents = Vec::new();
    for pieces in objects.into_values() {
        cut(pieces, &mut extents);
    }
    // In the order of processes and addresses, as people read them.
    extents.sort_by_key(|extent: &Extent| (extent.mappings[0].process, extent.mappings[0].start));
    extents
}

fn cut(mut pieces: Vec<Piece>, extents: &mut Vec<Extent>) {
    pieces.sort_by_key(|piece| (piece.vma.offset, piece.process, piece.vma.start));
    let end = |piece: &Piece| piece.vma.offset + (piece.vma.end - piece.vma.start);
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
            return;
        }
        let first_end = active.iter().map(|piece| end(piece)).min().unwrap_or(at);
        let next = rest.peek().map_or(first_end, |piece| piece.vma.offset.min(first_end));
        if next > at {
            extents.push(extent(&active, at, next));
        }
        at = next;
        active.retain(|piece| end(piece) > at);
    }
}

fn extent(active: &[&Piece], from: u64, to: u64) -> Extent {
    let mut mappings: Vec<Mapping> = active
        .iter()
        .map(|piece| Mapping {
            process: piece.process,
            start: piece.vma.start + (from - piece.vma.offset),
        })
        .collect();
    mappings.sort_by_key(|mapping| (mapping.process, mapping.start));
    let first = &active[0].vma;
    Extent {
        mappings,
        bytes: to - from,
        kind: first.kind,
        policy: Mempolicy::Default,
        hugetlb_bytes: None,
        name: first.name.clone(),
        residency: Residency::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::parse_line;

    fn of(processes: &[&[&str]]) -> Vec<(u64, Vec<(usize, u64)>)> {
        let vmas = processes
            .iter()
            .map(|lines| lines.iter().map(|line| parse_line(line).unwrap()).collect());
        let flat = |extent: Extent| {
            (
                extent.bytes,
                extent.mappings.iter().map(|mapping| (mapping.process, mapping.start)).collect(),
            )
        };
        extents(vmas.collect()).into_iter().map(flat).collect()
    }

    #[test]
    fn private_memory_of_one_process_stays_as_it_is() {
        let lines: &[&str] =
            &["1000-3000 rw-p 0 00:00 0", "3000-4000 r--p 0 00:00 0", "9000-a000 rw-p 0 00:00 0"];
        assert_eq!(
            of(&[lines]),
            [(0x2000, vec![(0, 0x1000)]), (0x1000, vec![(0, 0x3000)]), (0x1000, vec![(0, 0x9000)])]
        );
    }

    #[test]
    fn a_shared_object_is_cut_where_its_mappers_change() {
        let first: &[&str] = &["10000-14000 rw-s 00000000 00:01 7 /dev/shm/a"];
        let second: &[&str] = &["50000-52000 rw-s 00001000 00:01 7 /dev/shm/a"];
        assert_eq!(
            of(&[first, second]),
            [
                (0x1000, vec![(0, 0x10000)]),
                (0x2000, vec![(0, 0x11000), (1, 0x50000)]),
                (0x1000, vec![(0, 0x13000)]),
            ]
        );
    }

    #[test]
    fn an_object_mapped_twice_by_one_process_has_two_mappings() {
        let lines: &[&str] =
            &["1000-2000 rw-s 0 00:01 7 /dev/shm/a", "8000-9000 rw-s 0 00:01 7 /dev/shm/a"];
        assert_eq!(of(&[lines]), [(0x1000, vec![(0, 0x1000), (0, 0x8000)])]);
    }
}

//! Where the pages of extents are: scanned piece by piece, by several threads if wished.

use crate::{
    Error,
    pagemap::Entry,
    scan::{Ownership, Run, Scanner},
    space::AddressSpace,
};
use numaloc_core::{Extent, HUGE, NodeResidency, Residency};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Mutex, PoisonError},
    thread,
};

/// What is scanned at a time: some milliseconds of base pages.
const PIECE: u64 = 128 << 20;

/// Extents in pieces, with the extent's index and bytes from its start. They end at multiples of the huge page size in the
/// first mapping.
fn pieces(extents: &[Extent]) -> impl Iterator<Item = (usize, Range<u64>)> {
    extents.iter().enumerate().flat_map(|(index, extent)| {
        let start = extent.mappings[0].start;
        let end = move |from: u64| {
            ((start + from + PIECE).next_multiple_of(HUGE) - start).min(extent.bytes)
        };
        let next = move |before: &Range<u64>| {
            (before.end < extent.bytes).then(|| before.end..end(before.end))
        };
        std::iter::successors(Some(0..end(0)), next).map(move |range| (index, range))
    })
}

/// Fills in where the extents' pages are now. `threads` scan at the same time, if there is enough for them.
///
/// # Errors
/// [`Error::Stopped`] when `stop` says between two pieces that it is wanted no more.
pub fn fill(
    extents: &mut [Extent],
    spaces: &[AddressSpace],
    threads: usize,
    scanner: &(dyn Fn() -> Scanner + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    for found in look(extents, spaces, threads, scanner, stop) {
        for (index, residency) in found? {
            join(&mut extents[index].residency, residency);
        }
    }
    Ok(())
}

/// Residency by extent.
type Found = BTreeMap<usize, Residency>;

/// What each thread has found.
fn look(
    extents: &[Extent],
    spaces: &[AddressSpace],
    threads: usize,
    scanner: &(dyn Fn() -> Scanner + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Result<Found, Error>> {
    let threads = threads.min(pieces(extents).take(threads).count());
    let todo = Mutex::new(pieces(extents));
    let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut scanner = scanner();
        let mut found = Found::new();
        while let Some((index, range)) = next() {
            if stop() {
                return Err(Error::Stopped);
            }
            let residency = found.entry(index).or_default();
            add(residency, &mut scanner, spaces, &extents[index], range);
        }
        Ok(found)
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        let others = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::iter::once(own).chain(others).collect()
    })
}

fn join(sum: &mut Residency, other: Residency) {
    sum.unplaced_bytes += other.unplaced_bytes;
    for (node, NodeResidency { owned_bytes, shared_bytes, huge_bytes }) in other.nodes {
        let tally = sum.nodes.entry(node).or_default();
        tally.owned_bytes += owned_bytes;
        tally.shared_bytes += shared_bytes;
        tally.huge_bytes += huge_bytes;
    }
}

/// Adds where the pages of a part of an extent are.
fn add(
    residency: &mut Residency,
    scanner: &mut Scanner,
    spaces: &[AddressSpace],
    extent: &Extent,
    range: Range<u64>,
) {
    scanner.scan(spaces, &extent.mappings, range, &mut |run: Run<'_>| {
        let Some(node) = run.node else {
            residency.unplaced_bytes += run.bytes;
            return;
        };
        let tally = residency.nodes.entry(node).or_default();
        match run.ownership {
            Ownership::Stranger => tally.shared_bytes += run.bytes,
            Ownership::Exclusive | Ownership::Family => tally.owned_bytes += run.bytes,
        }
        tally.huge_bytes += if run.huge || looks_huge(&run) { run.bytes / HUGE * HUGE } else { 0 };
    });
}

/// Whether a run of base entries lies as huge pages do. A guess for the prediction of time, nothing else.
fn looks_huge(run: &Run<'_>) -> bool {
    let frames = run.entries.get(0).zip(run.entries.get(run.entries.len() - 1));
    let in_a_row = |(first, last): (Entry, Entry)| {
        last.pfn().wrapping_sub(first.pfn()) == run.entries.len() as u64 - 1
    };
    run.bytes >= HUGE && frames.is_some_and(in_a_row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Kind, Mapping, Mempolicy};

    fn extent(start: u64, bytes: u64) -> Extent {
        Extent {
            mappings: vec![Mapping { process: 0, start }],
            bytes,
            kind: Kind::Anonymous,
            policy: Mempolicy::Default,
            hugetlb_bytes: None,
            name: "".into(),
            residency: Residency::default(),
        }
    }

    #[test]
    fn pieces_cover_each_extent_once_and_end_at_huge_pages() {
        let sizes = [(HUGE - 4096, 4096), (HUGE, PIECE), (3 * HUGE + 8192, 5 * PIECE + 4096)];
        let extents = sizes.map(|(start, bytes)| extent(start, bytes));
        for (index, extent) in extents.iter().enumerate() {
            let mut end = 0;
            for (_, range) in pieces(&extents).filter(|piece| piece.0 == index) {
                assert_eq!(range.start, end);
                assert!(range.end > range.start && range.end - range.start <= PIECE + HUGE);
                let address = extent.mappings[0].start + range.end;
                assert!(address.is_multiple_of(HUGE) || range.end == extent.bytes);
                end = range.end;
            }
            assert_eq!(end, extent.bytes);
        }
        assert_eq!(pieces(&extents).count(), 1 + 1 + 5);
    }
}

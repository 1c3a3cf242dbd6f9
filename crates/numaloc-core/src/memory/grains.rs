//! Where in an extent the pages of each node are, in pieces of equal size.

use crate::{machine::ids::NodeId, memory::chunks::Chunks, number, page_size, pmd_size};
use std::{collections::BTreeMap, ops::Range};

/// Least bytes of a grain: small against a hundredth of the least extent that is balanced by itself.
const LEAST: u64 = 64 << 10;
/// Most grains of an extent that is fully resident, as long as a grain is smaller than a huge page.
const MOST: u64 = 2048;

/// Bytes of pages that may move, by node and grain. A grain begins at a multiple of its size in addresses of the first mapping. An
/// extent of 1 TiB whose pages are on two nodes takes 16 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grains {
    /// Size of a grain in bytes; 0 if there are no pages.
    size: u64,
    /// By node: number of the grain, and pages in it; in the order of the numbers, none without pages.
    by_node: BTreeMap<NodeId, Vec<(u32, u32)>>,
    /// Chunks with huge pages, which are not cut.
    huge: Chunks,
}

/// Pages on one node that were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenRange {
    /// Where they are, in bytes from the start of the extent. Pages of other nodes may be among them; the last grain may reach beyond
    /// the end of the extent.
    pub range: Range<u64>,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether no page of the node is left behind them.
    pub is_all: bool,
}

/// How an extent is divided into grains.
#[derive(Clone, Copy, Debug)]
pub struct Raster {
    /// The address at which the extent starts.
    pub start: u64,
    /// Size of its grains, in bytes.
    pub size: u64,
}

/// Size of the grains of an extent of `bytes` bytes.
pub fn grain_bytes(bytes: u64, hugetlb_bytes: Option<u64>) -> u64 {
    hugetlb_bytes.unwrap_or_else(|| (bytes / MOST).next_power_of_two().clamp(LEAST, pmd_size()))
}

impl Grains {
    /// Adds pages on a node: `bytes` is counted from the start of the extent.
    /// Pages may come in any order; those before the last ones cost a search each.
    pub fn add(
        &mut self,
        node: NodeId,
        Raster { start, size }: Raster,
        bytes: Range<u64>,
        is_huge: bool,
    ) {
        self.size = size;
        let grains = self.by_node.entry(node).or_default();
        let skew = start % size;
        let (mut at, end) = (skew + bytes.start, skew + bytes.end);
        while at < end {
            let number = at / size;
            let next = ((number + 1) * size).min(end);
            let (number, pages) = (number::small(number), number::small((next - at) / page_size()));
            match grains.last_mut() {
                Some((last, count)) if *last == number => *count += pages,
                Some((last, _)) if *last > number => {
                    match grains.binary_search_by_key(&number, |&(known, _)| known) {
                        Ok(index) => grains[index].1 += pages,
                        Err(index) => grains.insert(index, (number, pages)),
                    }
                }
                _ => grains.push((number, pages)),
            }
            at = next;
        }
        if is_huge {
            self.huge.add(start, bytes);
        }
    }

    /// Adds the pages of another part of the same extent.
    pub fn join(&mut self, other: Self) {
        self.size = self.size.max(other.size);
        for (node, grains) in other.by_node {
            let sum = self.by_node.entry(node).or_default();
            sum.extend(grains);
            sum.sort_unstable();
            sum.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                kept.1 += if is_same { next.1 } else { 0 };
                is_same
            });
        }
        self.huge.join(other.huge);
    }

    /// Bytes on each node, in whole base pages.
    pub fn bytes(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.by_node.iter().map(|(&node, grains)| {
            (node, grains.iter().map(|&(_, pages)| u64::from(pages) * page_size()).sum())
        })
    }

    /// Takes pages on `node` from the offset `begin` on, whole grains and at most `most` bytes. The extent is at address `start`.
    pub fn take(&self, node: NodeId, start: u64, begin: u64, most: u64) -> TakenRange {
        let skew = start % self.size.max(1);
        let mut taken = TakenRange { range: begin..begin, bytes: 0, is_all: true };
        for (piece, bytes) in self.pieces(node, start) {
            let piece = piece.start.saturating_sub(skew)..piece.end - skew;
            if piece.start < begin {
                continue;
            }
            if bytes > most - taken.bytes {
                taken.is_all = false;
                break;
            }
            let start = if taken.bytes == 0 { piece.start } else { taken.range.start };
            taken.range = start..piece.end;
            taken.bytes += bytes;
        }
        taken
    }

    /// Bytes by node in each chunk that has any pages, by the address of the chunk, a multiple of [`pmd_size`]. The extent is at address `start`.
    pub fn chunks(&self, start: u64) -> Vec<(u64, BTreeMap<NodeId, u64>)> {
        self.sums(start, chunk_of)
    }

    /// Bytes by node in the least pieces that no huge page is cut by, by their addresses: chunks with huge pages, and grains of other memory.
    /// The extent is at address `start`.
    pub fn uncut(&self, start: u64) -> Vec<(u64, BTreeMap<NodeId, u64>)> {
        self.sums(
            start,
            |address| if self.is_huge(start, address) { chunk_of(address) } else { address },
        )
    }

    /// Bytes by node of the grains that are in the same piece. `piece` has its address, by that of a grain.
    fn sums(&self, start: u64, piece: impl Fn(u64) -> u64) -> Vec<(u64, BTreeMap<NodeId, u64>)> {
        let first = start - start % self.size.max(1);
        let mut all: Vec<(u64, NodeId, u64)> = Vec::new();
        for (&node, grains) in &self.by_node {
            for &(number, pages) in grains {
                let address = piece(first + u64::from(number) * self.size);
                let bytes = u64::from(pages) * page_size();
                match all.last_mut() {
                    Some((last, on, sum)) if (*last, *on) == (address, node) => *sum += bytes,
                    _ => all.push((address, node, bytes)),
                }
            }
        }
        all.sort_unstable();
        let mut pieces: Vec<(u64, BTreeMap<NodeId, u64>)> = Vec::new();
        for (address, node, bytes) in all {
            match pieces.last_mut() {
                Some((last, on)) if *last == address => {
                    on.insert(node, bytes);
                }
                _ => pieces.push((address, [(node, bytes)].into())),
            }
        }
        pieces
    }

    /// Whether the grain at this address is in a chunk with huge pages. The extent is at address `start`.
    fn is_huge(&self, start: u64, address: u64) -> bool {
        let offset = address.max(start) - start;
        self.size < pmd_size()
            && self.huge.next(start, offset).is_some_and(|run| run.start <= offset)
    }

    /// The grains of a node, those of a huge page as one: range in bytes from the grain's multiple before the extent, and bytes on the node.
    fn pieces(&self, node: NodeId, start: u64) -> impl Iterator<Item = (Range<u64>, u64)> {
        let size = self.size.max(1);
        let skew = start % size;
        let grains = self.by_node.get(&node).map_or(&[][..], Vec::as_slice);
        let mut rest = grains.iter().copied().peekable();
        let range = move |number: u32| u64::from(number) * size..(u64::from(number) + 1) * size;
        let chunk = move |number: u32| chunk_of(start - skew + u64::from(number) * size);
        std::iter::from_fn(move || {
            let (number, pages) = rest.next()?;
            let (mut piece, mut bytes) = (range(number), u64::from(pages) * page_size());
            let is_huge = self.is_huge(start, start - skew + piece.start);
            while is_huge
                && let Some((next, pages)) = rest.next_if(|&(next, _)| chunk(next) == chunk(number))
            {
                piece.end = range(next).end;
                bytes += u64::from(pages) * page_size();
            }
            Some((piece, bytes))
        })
    }
}

/// The address of the chunk that an address is in.
fn chunk_of(address: u64) -> u64 {
    address - address % pmd_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const NODE: NodeId = NodeId(0);
    const MIB: u64 = 1 << 20;

    #[test]
    fn grains_are_small_against_what_is_balanced() {
        assert_eq!(grain_bytes(64 * MIB, None), LEAST);
        assert_eq!(grain_bytes(1 << 30, None), 512 << 10);
        assert_eq!(grain_bytes(1 << 40, None), pmd_size());
        assert_eq!(grain_bytes(64 * MIB, Some(pmd_size())), pmd_size());
        assert_eq!(grain_bytes(0, None), LEAST);
    }

    #[test]
    fn pages_of_other_nodes_between_two_grains_do_not_divide_a_range() {
        let (mut grains, at) = (Grains::default(), Raster { start: 0, size: LEAST });
        for index in 0..8 {
            grains.add(
                NodeId(index % 2),
                at,
                u64::from(index) * LEAST..(u64::from(index) + 1) * LEAST,
                false,
            );
        }
        let taken = |range, bytes, is_all| TakenRange { range, bytes, is_all };
        assert_eq!(
            grains.take(NODE, at.start, 0, 2 * LEAST),
            taken(0..3 * LEAST, 2 * LEAST, false)
        );
        let rest = grains.take(NODE, at.start, 3 * LEAST, u64::MAX);
        assert_eq!(rest, taken(4 * LEAST..7 * LEAST, 2 * LEAST, true));
        assert_eq!(grains.bytes().collect::<Vec<_>>(), [(NODE, 4 * LEAST), (NodeId(1), 4 * LEAST)]);
    }

    #[test]
    fn huge_pages_are_not_cut() {
        let (mut grains, at) =
            (Grains::default(), Raster { start: pmd_size() - LEAST, size: LEAST });
        grains.add(NODE, at, 0..LEAST, false);
        grains.add(NODE, at, LEAST..LEAST + 2 * pmd_size(), true);
        let (begin, end) = (0, LEAST + pmd_size());
        let taken = |begin, most| {
            let taken = grains.take(NODE, at.start, begin, most);
            (taken.range, taken.bytes)
        };
        assert_eq!(taken(begin, pmd_size() + 3 * LEAST), (0..end, pmd_size() + LEAST));
        assert_eq!(taken(end, pmd_size()), (end..end + pmd_size(), pmd_size()));
        assert_eq!(taken(begin, LEAST), (0..LEAST, LEAST));
    }

    proptest! {
        /// Never more than asked for, and less only by what the smallest grain has that is left.
        #[test]
        fn what_is_taken_is_there(
            pages in vec((0..400u64, 1..40u64), 1..40),
            page in 0..1024u64,
            most in 0..20_000u64,
        ) {
            let at = Raster { start: page * page_size(), size: LEAST };
            let mut all = std::collections::BTreeSet::new();
            let mut halves = [Grains::default(), Grains::default()];
            for (index, (first, count)) in pages.into_iter().enumerate() {
                for page in first..first + count {
                    if all.insert(page) {
                        halves[index % 2].add(NODE, at, page * page_size()..(page + 1) * page_size(), false);
                    }
                }
            }
            let [mut grains, other] = halves;
            grains.join(Grains::default());
            grains.join(other);
            let taken = grains.take(NODE, at.start, 0, most * page_size());
            let sum = taken.bytes;
            prop_assert!(sum <= most * page_size());
            let within = taken.range.start / page_size()..taken.range.end / page_size();
            prop_assert_eq!(all.range(within).count() as u64 * page_size(), sum);
            prop_assert_eq!(taken.is_all, sum == all.len() as u64 * page_size());
            prop_assert!(sum + LEAST > (most.min(all.len() as u64)) * page_size());
        }
    }
}

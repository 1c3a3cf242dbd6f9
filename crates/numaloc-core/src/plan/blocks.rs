//! Placements by blocks ([`Placement::Block`](crate::Placement)): which part of an extent belongs on which node.
//!
//! The parts have equal amounts of resident memory that may move. No huge page is in two of them, nor, where a part has many, a place
//! for one. A move changes no amount, so that planning again finds the same parts.

use crate::{
    machine::ids::{NodeId, NodeSet},
    memory::extent::Extent,
    pmd_size,
};
use std::{collections::BTreeMap, ops::Range};

/// Parts of so many huge pages or more end at multiples of their size: the kernel can still make a huge page of base pages there, and a part has
/// no more than a sixteenth more or less than its share. Smaller parts end where a huge page does that is there, and between grains
/// else: with base pages of 64 KiB a huge page has 512 MiB.
const HUGE_PAGES: u64 = 8;

/// A part of an extent that belongs on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The node that the part belongs on.
    pub node: NodeId,
    /// Bytes from the start of the extent.
    pub range: Range<u64>,
    /// Bytes in it that may move, by the node that they are on.
    pub bytes: BTreeMap<NodeId, u64>,
}

/// The blocks of an extent on these nodes, in their order. Blocks without pages are left out.
pub fn blocks(extent: &Extent, nodes: &NodeSet) -> Vec<Block> {
    let start = extent.mappings[0].start;
    let nodes: Vec<NodeId> = nodes.iter().collect();
    let grains = &extent.residency.grains;
    let all: u64 = grains.bytes().map(|(_, bytes)| bytes).sum();
    let is_large = all >= HUGE_PAGES * pmd_size() * nodes.len() as u64;
    let pieces = if is_large { grains.chunks(start) } else { grains.uncut(start) };
    let part = |before: u64, bytes: u64| {
        // The part in which the middle of the piece lies.
        let middle = u128::from(before) * 2 + u128::from(bytes);
        let index = middle * nodes.len() as u128 / (2 * u128::from(all.max(1)));
        nodes.get(index as usize).or(nodes.last()).copied()
    };
    let (mut before, mut blocks): (u64, Vec<Block>) = (0, Vec::new());
    for (address, on) in pieces {
        let bytes: u64 = on.values().sum();
        let Some(node) = part(before, bytes) else { break };
        before += bytes;
        let range = address.saturating_sub(start)..extent.bytes;
        match blocks.last_mut().filter(|last| last.node == node) {
            Some(last) => {
                on.into_iter()
                    .for_each(|(node, bytes)| *last.bytes.entry(node).or_default() += bytes);
            }
            None => blocks.push(Block { node, range, bytes: on }),
        }
    }
    let starts: Vec<u64> = blocks.iter().skip(1).map(|block| block.range.start).collect();
    for (block, end) in blocks.iter_mut().zip(starts.into_iter().chain([extent.bytes])) {
        block.range.end = end;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Residency,
        memory::grains::{Raster, grain_bytes},
        page_size,
    };
    use proptest::{collection::vec, prelude::*};

    fn extent(start: u64, pages: &[Option<u32>]) -> Extent {
        let bytes = pages.len() as u64 * page_size();
        let mut residency = Residency::default();
        for (index, node) in pages.iter().enumerate() {
            let begin = index as u64 * page_size();
            let place = Raster { start, size: grain_bytes(bytes, None) };
            if let Some(node) = *node {
                residency.grains.add(NodeId(node), place, begin..begin + page_size(), false);
            }
        }
        Extent::anonymous(start, bytes, residency)
    }

    fn nodes(list: &str) -> NodeSet {
        list.parse().expect("a list")
    }

    #[test]
    fn each_node_has_one_part_in_the_order_of_nodes() {
        let whole = extent(0, &[Some(8); 6 * 512]);
        let on = |chunks: u64| BTreeMap::from([(NodeId(8), chunks * pmd_size())]);
        let block = |node, range: Range<u64>| Block {
            node: NodeId(node),
            bytes: on(range.end - range.start),
            range: range.start * pmd_size()..range.end * pmd_size(),
        };
        assert_eq!(blocks(&whole, &nodes("0,8")), [block(0, 0..3), block(8, 3..6)]);
        assert_eq!(
            blocks(&whole, &nodes("0,2,8")),
            [block(0, 0..2), block(2, 2..4), block(8, 4..6)]
        );
        assert_eq!(blocks(&extent(0, &[None; 512]), &nodes("0,8")), []);
    }

    #[test]
    fn a_huge_page_is_in_one_part() {
        let ranges = |extent: &Extent| -> Vec<Range<u64>> {
            blocks(extent, &nodes("0-1")).into_iter().map(|block| block.range).collect()
        };
        let middle = pmd_size() * 3 / 2;
        let mut some = extent(0, &[Some(1); 3 * 512]);
        assert_eq!(ranges(&some), [0..middle, middle..3 * pmd_size()]);
        let huge = pmd_size()..2 * pmd_size();
        let place = Raster { start: 0, size: grain_bytes(some.bytes, None) };
        some.residency.grains.add(NodeId(1), place, huge.clone(), true);
        assert_eq!(ranges(&some), [0..pmd_size(), pmd_size()..3 * pmd_size()]);
    }

    #[test]
    fn a_part_of_many_huge_pages_ends_where_one_may_be_made() {
        let ends = |chunks: usize| {
            let whole = extent(0, &vec![Some(1); chunks * 512]);
            blocks(&whole, &nodes("0-1"))[0].range.end
        };
        assert_eq!(ends(15), 15 * pmd_size() / 2);
        assert_eq!(ends(17) % pmd_size(), 0);
    }

    #[test]
    fn what_is_not_resident_does_not_count() {
        let pages = [vec![None; 8 * 512], vec![Some(1); 4 * 512]].concat();
        let found = blocks(&extent(0, &pages), &nodes("0-1"));
        let ranges: Vec<_> = found.iter().map(|block| block.range.clone()).collect();
        assert_eq!(ranges, [8 * pmd_size()..10 * pmd_size(), 10 * pmd_size()..12 * pmd_size()]);
    }

    proptest! {
        #[test]
        fn parts_are_equal_to_a_piece_and_the_same_after_the_move(
            runs in vec((proptest::option::of(0..3u32), 1..3000usize), 1..30),
            page in 0..1024u64,
            list in prop_oneof![Just("0-1"), Just("0-2"), Just("1,5")],
        ) {
            let mut pages: Vec<Option<u32>> =
                runs.into_iter().flat_map(|(node, count)| vec![node; count]).collect();
            let (start, nodes) = (page * page_size(), nodes(list));
            let found = blocks(&extent(start, &pages), &nodes);
            let all = pages.iter().flatten().count() as u64 * page_size();
            let share = all / nodes.len() as u64;
            let piece = if share >= HUGE_PAGES * pmd_size() {
                pmd_size()
            } else {
                grain_bytes(pages.len() as u64 * page_size(), None)
            };
            let mut end = 0;
            for block in &found {
                prop_assert!(block.range.start >= end && block.range.start < block.range.end);
                prop_assert!(nodes.contains(block.node));
                end = block.range.end;
                let bytes: u64 = block.bytes.values().sum();
                prop_assert!(bytes.abs_diff(share) <= piece);
                for (index, page) in pages.iter_mut().enumerate() {
                    if page.is_some() && block.range.contains(&(index as u64 * page_size())) {
                        *page = Some(block.node.0);
                    }
                }
            }
            prop_assert_eq!(found.iter().flat_map(|block| block.bytes.values()).sum::<u64>(), all);
            let again = blocks(&extent(start, &pages), &nodes);
            let ranges = |blocks: &[Block]| {
                blocks.iter().map(|block| (block.node, block.range.clone())).collect::<Vec<_>>()
            };
            prop_assert_eq!(ranges(&again), ranges(&found));
            let is_there = |block: &Block| block.bytes.keys().all(|&on| on == block.node);
            prop_assert!(again.iter().all(is_there));
        }
    }
}

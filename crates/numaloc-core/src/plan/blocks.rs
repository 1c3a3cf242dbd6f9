//! Placements by blocks ([`Placement::Block`](crate::Placement)): which part of an extent belongs on which node.
//!
//! The parts have equal amounts of resident memory that may move. They end where huge pages do, so that no huge
//! page is in two of them. A move changes no amount, so that planning again finds the same parts.

use crate::{
    machine::ids::{NodeId, NodeSet},
    memory::extent::Extent,
    pmd_size,
};
use std::{collections::BTreeMap, ops::Range};

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
    let chunks = extent.residency.grains.chunks(start);
    let all: u64 = chunks.iter().flat_map(|(_, on)| on.values()).sum();
    let nodes: Vec<NodeId> = nodes.iter().collect();
    let part = |before: u64, bytes: u64| {
        // The part in which the middle of the chunk lies.
        let middle = u128::from(before) * 2 + u128::from(bytes);
        let index = middle * nodes.len() as u128 / (2 * u128::from(all.max(1)));
        nodes.get(index as usize).or(nodes.last()).copied()
    };
    let (mut before, mut blocks): (u64, Vec<Block>) = (0, Vec::new());
    for (chunk, on) in chunks {
        let bytes: u64 = on.values().sum();
        let Some(node) = part(before, bytes) else { break };
        before += bytes;
        let range = (chunk * pmd_size()).saturating_sub(start % pmd_size())..extent.bytes;
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
        assert_eq!(blocks(&extent(0, &[Some(8); 512]), &nodes("0,8")).len(), 1, "no border in it");
        assert_eq!(blocks(&extent(0, &[None; 512]), &nodes("0,8")), []);
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
        fn parts_are_equal_to_a_chunk_and_the_same_after_the_move(
            runs in vec((proptest::option::of(0..3u32), 1..3000usize), 1..30),
            page in 0..1024u64,
            list in prop_oneof![Just("0-1"), Just("0-2"), Just("1,5")],
        ) {
            let mut pages: Vec<Option<u32>> =
                runs.into_iter().flat_map(|(node, count)| vec![node; count]).collect();
            let (start, nodes) = (page * page_size(), nodes(list));
            let found = blocks(&extent(start, &pages), &nodes);
            let all = pages.iter().flatten().count() as u64 * page_size();
            let mut end = 0;
            for block in &found {
                prop_assert!(block.range.start >= end && block.range.start < block.range.end);
                prop_assert!(nodes.contains(block.node));
                end = block.range.end;
                let bytes: u64 = block.bytes.values().sum();
                prop_assert!(bytes.abs_diff(all / nodes.len() as u64) <= pmd_size() || all < 16 * pmd_size());
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

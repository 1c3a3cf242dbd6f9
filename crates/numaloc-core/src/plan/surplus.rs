//! Placements by shares ([`Placement::Balance`](crate::Placement)): which pages of extents move, so that no node has more than its share.
//!
//! A share is not a function of a page's index: it depends on where the pages are. So the plan cuts extents: each cut is a range, and
//! all pages in it that are on one node go to another one. To the executor it is an extent like any other. The cuts end where
//! the surplus does.

use crate::{
    ask::placement::balance::Shares,
    machine::ids::{NodeId, NodeSet},
    memory::extent::Extent,
};
use std::{collections::BTreeMap, ops::Range};

/// Extents with at least this many resident bytes that may move are balanced by themselves; the smaller ones of a process together.
pub const ALONE_BYTES: u64 = 64 << 20;

/// A part of an extent whose pages on one node go to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Index of the extent.
    pub extent: usize,
    /// The node that has more than its share.
    pub from: NodeId,
    /// The node that has less.
    pub to: NodeId,
    /// Bytes from the start of the extent.
    pub range: Range<u64>,
    /// Bytes of the pages that go.
    pub bytes: u64,
}

/// Bytes of several extents that may move, by node.
pub fn movable(extents: &[&Extent]) -> BTreeMap<NodeId, u64> {
    let mut sum = BTreeMap::new();
    for (node, bytes) in extents.iter().flat_map(|extent| extent.residency.grains.bytes()) {
        *sum.entry(node).or_default() += bytes;
    }
    sum
}

/// The cuts after which each node has its share of these extents together, as near as grains and huge pages allow.
/// Empty if each is within a hundredth of all bytes already. Pages leave `sources` only; what is on other nodes
/// without a share does not count.
pub fn cuts(extents: &[&Extent], shares: &Shares, sources: &NodeSet) -> Vec<Cut> {
    let counts = sources.or(&shares.nodes());
    let mut have = movable(extents);
    have.retain(|&node, _| counts.contains(node));
    let all: u64 = have.values().sum();
    for node in shares.nodes().iter() {
        have.entry(node).or_default();
    }
    let want = |node| shares.of(node, all);
    let mut short: BTreeMap<NodeId, u64> =
        have.iter().map(|(&node, &bytes)| (node, want(node).saturating_sub(bytes))).collect();
    if have.iter().all(|(&node, &bytes)| bytes.abs_diff(want(node)) <= all / 100) {
        return Vec::new();
    }
    let mut cuts: Vec<Cut> = Vec::new();
    for (&from, &bytes) in have.iter().filter(|(node, _)| sources.contains(**node)) {
        let mut surplus = bytes.saturating_sub(want(from));
        let mut begin = Position::default();
        for (&to, missing) in &mut short {
            let wanted = surplus.min(*missing);
            let taken = take(extents, (from, to), begin, wanted);
            let sum: u64 = taken.iter().map(|cut| cut.bytes).sum();
            (surplus, *missing) = (surplus - sum, *missing - sum);
            let end = |last: &Cut| Position { extent: last.extent, offset: last.range.end };
            begin = taken.last().map_or(begin, end);
            cuts.extend(taken);
        }
    }
    cuts
}

/// A place in a list of extents.
#[derive(Clone, Copy, Default)]
struct Position {
    /// Index of the extent.
    extent: usize,
    /// Bytes from its start.
    offset: u64,
}

/// Up to this many bytes from one node, from a position on.
fn take(
    extents: &[&Extent],
    (from, to): (NodeId, NodeId),
    position: Position,
    mut wanted: u64,
) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (index, extent) in extents.iter().enumerate().skip(position.extent) {
        let begin = if index == position.extent { position.offset } else { 0 };
        let start = extent.mappings[0].start;
        let taken = extent.residency.grains.take(from, start, begin, wanted);
        wanted -= taken.bytes;
        if taken.bytes > 0 {
            let range = taken.range.start..taken.range.end.min(extent.bytes);
            cuts.push(Cut { extent: index, from, to, range, bytes: taken.bytes });
        }
        if !taken.is_all {
            break;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        NodeResidency, Residency,
        memory::grains::{Raster, grain_bytes},
        page_size, pmd_size,
    };
    use proptest::{collection::vec, prelude::*};

    const MIB: u64 = 1 << 20;

    /// An extent whose pages are on these nodes, one after the other; with huge pages, each number stands for one.
    fn extent(start: u64, pages: &[u32], is_huge: bool) -> Extent {
        let page = if is_huge { pmd_size() } else { page_size() };
        let bytes = pages.len() as u64 * page;
        let mut residency = Residency::default();
        for (index, &node) in pages.iter().enumerate() {
            let begin = index as u64 * page;
            let place = Raster { start, size: grain_bytes(bytes, None) };
            residency.grains.add(NodeId(node), place, begin..begin + page, is_huge);
            let on_node: &mut NodeResidency = residency.nodes.entry(NodeId(node)).or_default();
            on_node.owned_bytes += page;
        }
        Extent::anonymous(start, bytes, residency)
    }

    fn shares(weights: &str) -> Shares {
        Shares::of_weights(&weights.parse().expect("weights"))
    }

    fn nodes(list: &str) -> NodeSet {
        list.parse().expect("a list")
    }

    /// Moves what the cuts say.
    fn carry_out(cuts: &[Cut], extents: &mut [(u64, Vec<u32>)], page: u64) {
        for cut in cuts {
            let mut moved = 0;
            for (index, node) in extents[cut.extent].1.iter_mut().enumerate() {
                if cut.range.contains(&(index as u64 * page)) && NodeId(*node) == cut.from {
                    *node = cut.to.0;
                    moved += page;
                }
            }
            assert_eq!(moved, cut.bytes, "{cut:?}");
        }
    }

    #[test]
    fn only_the_surplus_moves_and_from_the_front() {
        let one = extent(0, &[1; 128 * 256], false);
        let cuts = cuts(&[&one], &shares("0=1,1=1"), &nodes("0-1"));
        let cut =
            Cut { extent: 0, from: NodeId(1), to: NodeId(0), range: 0..64 * MIB, bytes: 64 * MIB };
        assert_eq!(cuts, [cut]);
        let weighted = super::cuts(&[&one], &shares("0=3,1=1"), &nodes("0-1"));
        assert_eq!(weighted.iter().map(|cut| cut.bytes).sum::<u64>(), 96 * MIB);
        // Memory on a node that pages may not leave, and that has no share, does not count.
        let other = extent(0, &[[1; 1024], [2; 1024]].concat(), false);
        assert_eq!(super::cuts(&[&other], &shares("0=1,1=1"), &nodes("0-1"))[0].bytes, 2 * MIB);
        let all = super::cuts(&[&other], &shares("0=1,1=1"), &nodes("0-2"));
        assert_eq!((all.len(), all[0].from, all[0].bytes), (1, NodeId(2), 4 * MIB));
    }

    #[test]
    fn small_extents_are_balanced_together() {
        let all: Vec<Extent> = (0..8).map(|index| extent(index << 32, &[1; 256], false)).collect();
        let cuts = cuts(&all.iter().collect::<Vec<_>>(), &shares("0=1,1=1"), &nodes("0-1"));
        assert_eq!(cuts.iter().map(|cut| cut.extent).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(cuts.iter().all(|cut| cut.range == (0..MIB) && cut.bytes == MIB), "{cuts:?}");
    }

    #[test]
    fn a_hundredth_is_no_surplus() {
        let pages = |less: usize| [vec![0; 8192 - less], vec![1; 8192 + less]].concat();
        let cuts = |less| {
            let one = extent(0, &pages(less), false);
            super::cuts(&[&one], &shares("0=1,1=1"), &nodes("0-1"))
        };
        assert_eq!(cuts(163), []);
        assert_eq!(cuts(176).iter().map(|cut| cut.bytes).sum::<u64>(), 176 * page_size());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// However the pages are: no more than the surplus moves, each node has its share to within a hundredth, and planning again
        /// finds nothing. Runs of pages alternate between nodes.
        #[test]
        fn shares_are_reached_by_the_surplus_alone(
            runs in vec((0..4u32, 1..3000usize), 1..60),
            weights in prop_oneof![Just("0=1,1=1"), Just("0=3,1=1,2=2"), Just("0=1,2=7,3=1")],
            page in 0..2048u64,
        ) {
            let mut pages: Vec<u32> = runs.iter().flat_map(|&(node, count)| vec![node; count]).collect();
            // Large enough that a grain is less than a hundredth.
            while pages.len() < 16 * 1024 {
                pages.extend(pages.clone());
            }
            let (shares, all) = (shares(weights), nodes("0-3"));
            let mut extents = [(page * page_size(), pages)];
            let find = |extents: &[(u64, Vec<u32>)]| {
                let built = extent(extents[0].0, &extents[0].1, false);
                cuts(&[&built], &shares, &all)
            };
            let bytes = extents[0].1.len() as u64 * page_size();
            let have = |extents: &[(u64, Vec<u32>)], node: u32| {
                extents[0].1.iter().filter(|&&on| on == node).count() as u64 * page_size()
            };
            let beyond = |extents: &[(u64, Vec<u32>)]| (0..4)
                .map(|node| have(extents, node).saturating_sub(shares.of(NodeId(node), bytes)))
                .sum::<u64>();
            let surplus = beyond(&extents);
            let found = find(&extents);
            prop_assert!(found.iter().map(|cut| cut.bytes).sum::<u64>() <= surplus);
            carry_out(&found, &mut extents, page_size());
            for node in 0..4 {
                let off = have(&extents, node).abs_diff(shares.of(NodeId(node), bytes));
                prop_assert!(off <= bytes / 100, "node {} by {}", node, off);
            }
            prop_assert_eq!(find(&extents), []);
        }

        /// Huge pages stay whole, and each node's part is exact to one of them.
        #[test]
        fn huge_pages_are_balanced_whole(pages in vec(0..3u32, 32..200), skew in 0..512u64) {
            let mut extents = [(skew * pmd_size(), pages)];
            let shares = shares("0=1,1=1,2=1");
            let built = extent(extents[0].0, &extents[0].1, true);
            let found = cuts(&[&built], &shares, &nodes("0-2"));
            carry_out(&found, &mut extents, pmd_size());
            let bytes = extents[0].1.len() as u64 * pmd_size();
            for node in 0..3 {
                let have = extents[0].1.iter().filter(|&&on| on == node).count() as u64 * pmd_size();
                let most = (bytes / 100).max(2 * pmd_size());
                prop_assert!(have.abs_diff(shares.of(NodeId(node), bytes)) <= most);
            }
        }
    }
}

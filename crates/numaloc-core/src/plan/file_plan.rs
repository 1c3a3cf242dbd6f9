//! Where the page cache of a file belongs, piece by piece.
//!
//! No CPU belongs to a file, so its cache has no home of its own: a request names nodes, or a placement on several
//! nodes. A placement in turns divides it in pieces, because one call moves a large folio whole, however few of its
//! pages are named.

use crate::{
    ask::placement::Placement,
    machine::ids::{NodeId, NodeSet},
    memory::{
        cycle::Cycle,
        file_cache::{CachedPart, FileCache},
    },
};

/// Where the page cache of files belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheGoal {
    /// On any of these nodes.
    On(NodeSet),
    /// Piece by piece on nodes in turn.
    InTurns(Cycle),
    /// One part of the cached bytes on each of these nodes, in the order of the file; sizes differ by a piece at most.
    InBlocks(NodeSet),
}

/// Why a request does not say where the cache of a file belongs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum BadGoal {
    #[error("a file has no home: name nodes, or a placement on several nodes")]
    NoNodes,
    #[error(
        "the placement {placement} needs two nodes or more, and there is node {nodes} alone: name them"
    )]
    Narrow { placement: &'static str, nodes: NodeSet },
    #[error("files have no placement {0}: expected interleave, weighted or block")]
    Placement(&'static str),
}

impl CacheGoal {
    /// The goal of a request. Placements that name no nodes are on `all` of them. Weights that follow from the bandwidth of nodes are
    /// known ([`Placement::on`]).
    ///
    /// # Errors
    /// [`BadGoal`].
    pub fn new(
        to: Option<&NodeSet>,
        placement: &Placement,
        all: &NodeSet,
    ) -> Result<Self, BadGoal> {
        let nodes = placement.nodes().unwrap_or_else(|| all.clone());
        let name = placement.name();
        match placement {
            Placement::Nodes(nodes) => Ok(Self::On(nodes.clone())),
            Placement::Home => to.cloned().map(Self::On).ok_or(BadGoal::NoNodes),
            Placement::Balance(_) | Placement::Tiers(_) => Err(BadGoal::Placement(name)),
            _ if nodes.len() < 2 => Err(BadGoal::Narrow { placement: name, nodes }),
            Placement::Block(_) => Ok(Self::InBlocks(nodes)),
            Placement::Interleave(_) | Placement::Weighted(_) | Placement::Bandwidth(_) => {
                let cycle = placement.cycle(&nodes);
                cycle.map(Self::InTurns).ok_or(BadGoal::Placement(name))
            }
        }
    }
}

impl CacheGoal {
    /// The nodes that some of it may be on.
    pub fn nodes(&self) -> NodeSet {
        match self {
            Self::On(nodes) | Self::InBlocks(nodes) => nodes.clone(),
            Self::InTurns(cycle) => cycle.nodes(),
        }
    }
}

/// Where the cache of one file belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlan {
    goal: CacheGoal,
    /// The first piece of each block, with its node; none for other goals.
    blocks: Vec<(u64, NodeId)>,
    /// Bytes on another node than they belong on.
    pub bytes_to_move: u64,
}

impl FilePlan {
    /// The plan for what was found of a file.
    pub fn new(goal: &CacheGoal, cache: &FileCache) -> Self {
        let blocks = match goal {
            CacheGoal::InBlocks(nodes) => blocks(nodes, cache),
            CacheGoal::On(_) | CacheGoal::InTurns(_) => Vec::new(),
        };
        let mut plan = Self { goal: goal.clone(), blocks, bytes_to_move: 0 };
        plan.bytes_to_move = cache.pieces().map(|parts| plan.bytes_elsewhere(parts)).sum();
        plan
    }

    /// The nodes that some of it may be on.
    pub fn nodes(&self) -> NodeSet {
        self.goal.nodes()
    }

    /// The nodes that a piece may be on.
    pub fn nodes_of(&self, piece: u64) -> NodeSet {
        match &self.goal {
            CacheGoal::On(nodes) => nodes.clone(),
            CacheGoal::InTurns(cycle) => [cycle.node(piece)].into_iter().collect(),
            CacheGoal::InBlocks(_) => {
                let after = self.blocks.partition_point(|(first, _)| *first <= piece);
                self.blocks[..after].last().map(|(_, node)| *node).into_iter().collect()
            }
        }
    }

    /// The parts of a piece that are on other nodes than it may be on.
    pub fn elsewhere<'a>(&self, parts: &'a [CachedPart]) -> impl Iterator<Item = &'a CachedPart> {
        let nodes = parts.first().map(|first| self.nodes_of(first.piece)).unwrap_or_default();
        parts.iter().filter(move |part| !nodes.contains(part.node))
    }

    /// Bytes of a piece that are on nodes where it may not be.
    pub fn bytes_elsewhere(&self, parts: &[CachedPart]) -> u64 {
        self.elsewhere(parts).map(|part| u64::from(part.bytes)).sum()
    }
}

/// The first piece of each block.
fn blocks(nodes: &NodeSet, cache: &FileCache) -> Vec<(u64, NodeId)> {
    let (all, count) = (u128::from(cache.bytes()), nodes.len() as u128);
    let mut blocks = Vec::new();
    let (mut left, mut before) = (nodes.iter(), 0u128);
    for parts in cache.pieces() {
        // Number of blocks that have ended before this piece.
        let ended = before * count / all;
        while blocks.len() as u128 <= ended
            && let Some(node) = left.next()
        {
            blocks.push((parts[0].piece, node));
        }
        before += parts.iter().map(|part| u128::from(part.bytes)).sum::<u128>();
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::file_cache::piece_bytes;
    use proptest::{collection::vec, prelude::*};
    use std::collections::BTreeMap;

    fn set(list: &str) -> NodeSet {
        list.parse().expect("a list")
    }

    /// Pieces of which so much is cached on these nodes.
    fn cache(pieces: &[(u64, u32, u64)]) -> FileCache {
        let mut cache = FileCache::default();
        for &(piece, node, bytes) in pieces {
            cache.add(piece, &[(NodeId(node), bytes)].into());
        }
        cache
    }

    fn goal(to: Option<&str>, placement: &str) -> Result<CacheGoal, BadGoal> {
        let to = to.map(set);
        CacheGoal::new(to.as_ref(), &placement.parse().expect("a placement"), &set("0,8"))
    }

    #[test]
    fn a_request_has_to_name_nodes_or_a_placement_that_files_have() {
        assert_eq!(goal(Some("8"), "home"), Ok(CacheGoal::On(set("8"))));
        let turns = |weights: [u8; 2]| {
            Ok(CacheGoal::InTurns(Cycle::new([NodeId(0), NodeId(8)].into_iter().zip(weights))))
        };
        assert_eq!(goal(None, "interleave"), turns([1, 1]));
        assert_eq!(goal(None, "weighted:0=3,8=1"), turns([3, 1]));
        assert_eq!(goal(None, "block:0,4"), Ok(CacheGoal::InBlocks(set("0,4"))));
        assert_eq!(goal(None, "home"), Err(BadGoal::NoNodes));
        assert_eq!(goal(None, "balance"), Err(BadGoal::Placement("balance")));
        let alone = CacheGoal::new(None, &Placement::Interleave(None), &set("3"));
        assert!(alone.expect_err("one node").to_string().contains("node 3 alone"));
    }

    #[test]
    fn a_piece_belongs_where_its_number_says() {
        let found =
            cache(&[(0, 0, piece_bytes()), (1, 0, piece_bytes()), (5, 8, 4096), (6, 8, 8192)]);
        let plan = |goal: Result<CacheGoal, BadGoal>| FilePlan::new(&goal.expect("valid"), &found);
        assert_eq!(plan(goal(Some("8"), "home")).bytes_to_move, 2 * piece_bytes());
        assert_eq!(plan(goal(Some("0,8"), "home")).bytes_to_move, 0);
        let turns = plan(goal(None, "interleave"));
        assert_eq!([0, 1, 5, 6].map(|piece| turns.nodes_of(piece)), ["0", "8", "8", "0"].map(set));
        assert_eq!(turns.bytes_to_move, piece_bytes() + 8192);
        let weighted = plan(goal(None, "weighted:0=3,8=1"));
        assert_eq!([2, 3, 4].map(|piece| weighted.nodes_of(piece)), ["0", "8", "0"].map(set));
        assert_eq!(FilePlan::new(&CacheGoal::InBlocks(set("0,8")), &cache(&[])).bytes_to_move, 0);
    }

    #[test]
    fn blocks_are_parts_of_the_cached_bytes() {
        let found = cache(&[
            (0, 0, piece_bytes()),
            (1, 0, piece_bytes()),
            (900, 0, piece_bytes()),
            (901, 0, piece_bytes()),
        ]);
        let plan = FilePlan::new(&CacheGoal::InBlocks(set("0,8")), &found);
        let pieces = [0, 1, 2, 900, 901, 5000].map(|piece| plan.nodes_of(piece));
        assert_eq!(pieces, ["0", "0", "0", "8", "8", "8"].map(set));
        assert_eq!(plan.bytes_to_move, 2 * piece_bytes());
    }

    proptest! {
        #[test]
        fn blocks_are_equal_but_for_a_piece_and_stay(
            bytes in vec(0..=piece_bytes() / 4096, 1..200),
            count in 2u32..6,
        ) {
            let nodes: NodeSet = (0..count).map(NodeId).collect();
            let mut found = FileCache::default();
            for (piece, pages) in (0..).zip(&bytes) {
                found.add(piece, &[(NodeId(0), pages * 4096)].into());
            }
            let goal = CacheGoal::InBlocks(nodes.clone());
            let plan = FilePlan::new(&goal, &found);
            let (mut moved, mut on) = (FileCache::default(), BTreeMap::<NodeId, u64>::new());
            for parts in found.pieces() {
                let piece_nodes = plan.nodes_of(parts[0].piece);
                let node = piece_nodes.iter().next().expect("one");
                let bytes = parts.iter().map(|part| u64::from(part.bytes)).sum();
                *on.entry(node).or_default() += bytes;
                moved.add(parts[0].piece, &[(node, bytes)].into());
            }
            let share = found.bytes() / u64::from(count);
            let bounds = share.saturating_sub(piece_bytes())..=share + piece_bytes();
            prop_assert!(found.bytes() == 0 || on.values().all(|bytes| bounds.contains(bytes)), "{on:?}");
            prop_assert_eq!(FilePlan::new(&goal, &moved).bytes_to_move, 0);
        }
    }
}

//! The page cache of a file: how much of each piece of it is on which node.

use crate::{HUGE, machine::ids::NodeId};
use std::collections::BTreeMap;

/// The length of a piece in bytes. It is that of the largest folio of the page cache (include/linux/pagemap.h,
/// `MAX_PAGECACHE_ORDER`: a huge page), which begins at a multiple of its length in the file. So no folio is in two pieces.
pub const PIECE: u64 = HUGE;

/// What of a piece of a file is cached on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPart {
    /// The number of the piece: it begins at this multiple of [`PIECE`].
    pub piece: u32,
    /// The node.
    pub node: NodeId,
    /// How much is there, in bytes; at most [`PIECE`].
    pub bytes: u32,
}

/// The page cache of a file. Its size follows the number of pieces and nodes: 6 MiB for 1 TiB on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCache {
    /// In ascending order of pieces.
    parts: Vec<CachedPart>,
}

impl FileCache {
    /// Adds what is cached of a piece, by node in bytes. Pieces come in ascending order.
    pub fn add(&mut self, piece: u32, nodes: &BTreeMap<NodeId, u64>) {
        debug_assert!(self.parts.last().is_none_or(|last| last.piece < piece), "{piece} again");
        let parts = nodes.iter().filter(|(_, bytes)| **bytes > 0).map(|(&node, &bytes)| {
            let bytes = u32::try_from(bytes.min(PIECE)).unwrap_or(u32::MAX);
            CachedPart { piece, node, bytes }
        });
        self.parts.extend(parts);
    }

    /// How much is cached on each node, in bytes.
    pub fn nodes(&self) -> BTreeMap<NodeId, u64> {
        let mut nodes = BTreeMap::new();
        for part in &self.parts {
            *nodes.entry(part.node).or_default() += u64::from(part.bytes);
        }
        nodes
    }

    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.bytes)).sum()
    }

    /// The pieces of which something is cached, in ascending order: of each its parts.
    pub fn pieces(&self) -> impl Iterator<Item = &[CachedPart]> {
        self.parts.chunk_by(|one, next| one.piece == next.piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cached_is_known_by_piece_and_by_node() {
        let mut cache = FileCache::default();
        cache.add(0, &[(NodeId(0), PIECE)].into());
        cache.add(1, &BTreeMap::new());
        cache.add(7, &[(NodeId(0), 4096), (NodeId(8), 8192), (NodeId(9), 0)].into());
        assert_eq!(cache.nodes(), [(NodeId(0), PIECE + 4096), (NodeId(8), 8192)].into());
        assert_eq!(cache.bytes(), PIECE + 12288);
        let pieces: Vec<_> = cache.pieces().map(|parts| (parts[0].piece, parts.len())).collect();
        assert_eq!(pieces, [(0, 1), (7, 2)]);
    }

    #[test]
    fn a_tebibyte_takes_little_memory() {
        assert!(size_of::<CachedPart>() as u64 * (1 << 40) / PIECE <= 6 << 20);
    }
}

//! The page cache of a file: how much of each piece of it is on which node.

use crate::{machine::ids::NodeId, pmd_size};
use std::{collections::BTreeMap, ops::Range};

/// The length of a piece in bytes. It is that of the largest folio of the page cache (include/linux/pagemap.h,
/// `MAX_PAGECACHE_ORDER`: a huge page), which begins at a multiple of its length in the file. So no folio is in two pieces.
pub fn piece_bytes() -> u64 {
    pmd_size()
}

/// The range that [`cached_range`] halves no further: a look at its pieces costs about as much as further counts.
pub fn span_bytes() -> u64 {
    8 * piece_bytes()
}

/// The cached part of a piece of a file on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPart {
    /// The number of the piece: it begins at this multiple of [`piece_bytes`]. The longest file, of 8 EiB, has 2^42 pieces.
    pub piece: u64,
    /// The node that the bytes are on.
    pub node: NodeId,
    /// Cached bytes; at most [`piece_bytes`].
    pub bytes: u32,
}

/// The page cache of a file. Its size follows the number of cached pieces and nodes: 8 MiB for 1 TiB on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCache {
    /// In ascending order of pieces.
    parts: Vec<CachedPart>,
}

impl FileCache {
    /// Adds what is cached of a piece, by node in bytes. Pieces come in ascending order.
    pub fn add(&mut self, piece: u64, nodes: &BTreeMap<NodeId, u64>) {
        debug_assert!(self.parts.last().is_none_or(|last| last.piece < piece), "{piece} again");
        let parts = nodes.iter().filter(|(_, bytes)| **bytes > 0).map(|(&node, &bytes)| {
            let bytes = u32::try_from(bytes.min(piece_bytes())).unwrap_or(u32::MAX);
            CachedPart { piece, node, bytes }
        });
        self.parts.extend(parts);
    }

    /// Cached bytes of each node.
    pub fn nodes(&self) -> BTreeMap<NodeId, u64> {
        let mut nodes = BTreeMap::new();
        for part in &self.parts {
            *nodes.entry(part.node).or_default() += u64::from(part.bytes);
        }
        nodes
    }

    /// Cached bytes on all nodes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.bytes)).sum()
    }

    /// The pieces of which something is cached, in ascending order: of each its parts.
    pub fn pieces(&self) -> impl Iterator<Item = &[CachedPart]> {
        self.parts.chunk_by(|one, next| one.piece == next.piece)
    }
}

/// The first range from `from` on in which `count` finds pages, of at most [`span_bytes`]; `None` if there are none up to `end`. It
/// begins at a multiple of [`piece_bytes`] from `from`.
///
/// # Errors
/// The errors of `count`.
pub fn cached_range<E>(
    mut from: u64,
    end: u64,
    mut count: impl FnMut(Range<u64>) -> Result<u64, E>,
) -> Result<Option<Range<u64>>, E> {
    // The length doubles each time: a file without further pages takes one call for each bit of its length.
    let mut len = span_bytes().min(end - from);
    while count(from..from + len)? == 0 {
        from += len;
        if from >= end {
            return Ok(None);
        }
        len = len.saturating_mul(2).min(end - from);
    }
    while len > span_bytes() {
        let half = (len / 2).next_multiple_of(piece_bytes());
        if count(from..from + half)? == 0 {
            from += half;
            len -= half;
        } else {
            len = half;
        }
    }
    Ok(Some(from..from + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::btree_set, prelude::*};
    use std::{collections::BTreeSet, convert::Infallible};

    #[test]
    fn what_is_cached_is_known_by_piece_and_by_node() {
        let mut cache = FileCache::default();
        cache.add(0, &[(NodeId(0), piece_bytes())].into());
        cache.add(1, &BTreeMap::new());
        cache.add(7, &[(NodeId(0), 4096), (NodeId(8), 8192), (NodeId(9), 0)].into());
        assert_eq!(cache.nodes(), [(NodeId(0), piece_bytes() + 4096), (NodeId(8), 8192)].into());
        assert_eq!(cache.bytes(), piece_bytes() + 12288);
        let pieces: Vec<_> = cache.pieces().map(|parts| (parts[0].piece, parts.len())).collect();
        assert_eq!(pieces, [(0, 1), (7, 2)]);
    }

    #[test]
    fn a_tebibyte_takes_little_memory() {
        assert!(size_of::<CachedPart>() as u64 * (1 << 40) / piece_bytes() <= 8 << 20);
    }

    proptest! {
        #[test]
        fn counted_ranges_leave_no_cached_piece_out(
            cached in btree_set(0u64..1 << 20, 0..20),
            tail in 0..piece_bytes(),
        ) {
            let end = (1 << 20) * piece_bytes() + tail;
            let mut calls = 0;
            let mut count = |range: Range<u64>| {
                calls += 1;
                let pieces = range.start / piece_bytes()..range.end.div_ceil(piece_bytes());
                Ok::<_, Infallible>(cached.range(pieces).count() as u64)
            };
            let (mut seen, mut from) = (BTreeSet::new(), 0);
            while from < end {
                let Ok(found) = cached_range(from, end, &mut count);
                let Some(range) = found else { break };
                prop_assert!(range.start >= from && range.end <= end && range.end - range.start <= span_bytes());
                prop_assert_eq!(range.start % piece_bytes(), 0);
                seen.extend(range.start / piece_bytes()..range.end.div_ceil(piece_bytes()));
                from = range.end.next_multiple_of(piece_bytes());
            }
            prop_assert!(cached.is_subset(&seen));
            prop_assert!(seen.len() <= cached.len() * (span_bytes() / piece_bytes()) as usize);
            prop_assert!(calls <= 50 * (cached.len() + 1), "{} calls", calls);
        }
    }
}

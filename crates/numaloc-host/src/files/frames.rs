//! The node of a page frame.
//!
//! The table comes from the memory blocks that sysfs links below each node
//! (Documentation/ABI/stable/sysfs-devices-node). Blocks of different nodes do not overlap, unlike the zones' spans in
//! zoneinfo. The spans decide only within a block that two nodes share, because their memory meets in the middle of it.

use crate::{
    Error, Roots,
    files::{
        read,
        zoneinfo::{Zone, zones},
    },
};
use numaloc_core::{NodeId, page_size};
use std::{fs, ops::Range};

/// Page frame number -> node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameNodes {
    block_shift: u32,
    blocks: Vec<u32>,
    /// The frames that zones span; read only if a block is shared.
    zones: Vec<(NodeId, Range<u64>)>,
    /// The only node, on a machine with one node: then there is nothing to look up.
    only: Option<NodeId>,
}

const UNKNOWN: u32 = u32::MAX;
const SHARED: u32 = u32::MAX - 1;

impl FrameNodes {
    /// Reads the block links, and the zones if two nodes share a block.
    ///
    /// # Errors
    /// If sysfs shows no memory blocks although there are several nodes.
    pub fn read(roots: &Roots) -> Result<Self, Error> {
        let nodes = read::node_ids(roots)?;
        if let (Some(&only), 1) = (nodes.first(), nodes.len()) {
            let (blocks, zones) = (Vec::new(), Vec::new());
            return Ok(Self { block_shift: 0, blocks, zones, only: Some(only) });
        }
        let path = roots.sys.join("devices/system/memory/block_size_bytes");
        let text = read::text(&path)?;
        let block_bytes = u64::from_str_radix(text.trim(), 16)
            .ok()
            .filter(|size| size.is_power_of_two() && *size >= page_size());
        let block_bytes = block_bytes.ok_or_else(|| Error::Parse {
            path,
            reason: format!("block size '{}'", text.trim()),
        })?;
        let mut blocks = Vec::new();
        for node in nodes {
            for block in node_blocks(roots, node)? {
                if blocks.len() <= block {
                    blocks.resize(block + 1, UNKNOWN);
                }
                blocks[block] = if blocks[block] == UNKNOWN { node.0 } else { SHARED };
            }
        }
        let zones = if blocks.contains(&SHARED) {
            spans(&read::text(&roots.proc.join("zoneinfo"))?)
        } else {
            Vec::new()
        };
        Ok(Self {
            block_shift: (block_bytes / page_size()).trailing_zeros(),
            blocks,
            zones,
            only: None,
        })
    }

    /// A table all of whose frames are in blocks that nodes share, and in no zone.
    #[cfg(test)]
    pub fn all_ambiguous() -> Self {
        Self { blocks: vec![SHARED; 1 << 20], ..Self::empty() }
    }

    /// A table without frames, as before any memory has come online.
    #[cfg(test)]
    pub fn empty() -> Self {
        Self { block_shift: 15, blocks: Vec::new(), zones: Vec::new(), only: None }
    }

    /// Whether the nodes of some frames cannot be determined because several nodes share a memory block and span it.
    pub fn has_ambiguous(&self) -> bool {
        self.blocks.contains(&SHARED)
    }

    /// Whether the frame is one of [`Self::has_ambiguous`].
    pub fn is_ambiguous(&self, pfn: u64) -> bool {
        let block = usize::try_from(pfn >> self.block_shift).ok();
        let block = block.and_then(|block| self.blocks.get(block));
        block == Some(&SHARED) && self.node(pfn).is_none()
    }

    /// The frame's node; `None` if it cannot be determined.
    pub fn node(&self, pfn: u64) -> Option<NodeId> {
        if self.only.is_some() {
            return self.only;
        }
        match *self.blocks.get(usize::try_from(pfn >> self.block_shift).ok()?)? {
            UNKNOWN => None,
            SHARED => {
                let mut spans = self.zones.iter().filter(|(_, frames)| frames.contains(&pfn));
                let &(node, _) = spans.next()?;
                // Spans of different nodes may overlap; then the node cannot be determined.
                spans.all(|&(other, _)| other == node).then_some(node)
            }
            node => Some(NodeId(node)),
        }
    }
}

/// Frames that each zone spans.
fn spans(zoneinfo: &str) -> Vec<(NodeId, Range<u64>)> {
    let frames = |zone: Zone| Some((zone.node, zone.start_pfn?..zone.start_pfn? + zone.spanned));
    zones(zoneinfo).into_iter().filter_map(frames).collect()
}

fn node_blocks(roots: &Roots, node: NodeId) -> Result<Vec<usize>, Error> {
    let path = roots.sys.join(format!("devices/system/node/node{node}"));
    let entries = fs::read_dir(&path).map_err(|source| Error::Read { path, source })?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    // 1 << 24 blocks of 128 MiB are 2 PiB: a larger number is not a block of a real machine.
    let block = |name: String| {
        name.strip_prefix("memory")?.parse().ok().filter(|&block: &usize| block < 1 << 24)
    };
    Ok(names.filter_map(block).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn tree(dir: &Path, nodes: &[(u32, &[u32])]) -> Roots {
        let sys = dir.join("devices/system");
        for (node, blocks) in nodes {
            for block in *blocks {
                fs::create_dir_all(sys.join(format!("node/node{node}/memory{block}"))).unwrap();
            }
            fs::create_dir_all(sys.join(format!("node/node{node}"))).unwrap();
        }
        let online: Vec<String> = nodes.iter().map(|(node, _)| node.to_string()).collect();
        fs::write(sys.join("node/online"), online.join(",")).unwrap();
        fs::create_dir_all(sys.join("memory")).unwrap();
        fs::write(sys.join("memory/block_size_bytes"), "8000000\n").unwrap();
        let zone = |node: u32, first: u64, pages: u64| {
            format!(
                "Node {node}, zone   Normal\n        spanned  {pages}\n  start_pfn:           {first}\n"
            )
        };
        // Node 0 ends in the middle of block 1, where node 8 begins; frames 40,000 to 40,009 are in both spans.
        let zoneinfo = zone(0, 1, 40_009) + &zone(8, 40_000, 5 << 15);
        fs::write(dir.join("zoneinfo"), zoneinfo).unwrap();
        Roots { sys: dir.to_path_buf(), proc: dir.to_path_buf(), ..Roots::default() }
    }

    #[test]
    fn frames_belong_to_the_node_of_their_block() {
        let dir = tempfile::tempdir().unwrap();
        let frames =
            FrameNodes::read(&tree(dir.path(), &[(0, &[0, 1]), (8, &[4, 1]), (70, &[32])]))
                .unwrap();
        let block = |number: u64| number << 15;
        assert_eq!(frames.node(0), Some(NodeId(0)));
        assert_eq!(frames.node(block(1)), Some(NodeId(0)), "two nodes share it");
        assert_eq!(frames.node(39_999), Some(NodeId(0)));
        assert_eq!(frames.node(40_005), None, "both span it");
        assert_eq!(frames.node(40_010), Some(NodeId(8)));
        assert_eq!(frames.node(block(2) - 1), Some(NodeId(8)));
        assert_eq!(frames.node(block(3)), None, "a hole");
        assert_eq!(frames.node(block(5) - 1), Some(NodeId(8)));
        assert_eq!(frames.node(block(32)), Some(NodeId(70)));
        assert_eq!(frames.node(u64::MAX), None);
    }
}

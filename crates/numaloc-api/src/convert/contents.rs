//! The message of what is on a node.

use super::names::{index, int, int32};
use crate::v1;
use numaloc_core::contents::{ContentOwner, NodeContents};

/// Most cgroups of an answer.
const OWNERS: usize = 1024;

impl From<&NodeContents> for v1::NodeContents {
    fn from(contents: &NodeContents) -> Self {
        let NodeContents { node, total_bytes, free_bytes, kinds, owners, blocks } = contents;
        let kinds = kinds.iter().map(|(&kind, &bytes)| v1::KindBytes {
            kind: v1::ContentKind::from(kind).into(),
            bytes: int(bytes),
        });
        let owner = |owner: &ContentOwner| v1::ContentOwner {
            cgroup: owner.cgroup.clone(),
            memory_bytes: int(owner.memory_bytes),
            cache_bytes: int(owner.cache_bytes),
        };
        Self {
            node_id: index(node.0),
            total_bytes: int(*total_bytes),
            free_bytes: int(*free_bytes),
            kinds: kinds.collect(),
            owners: owners.iter().take(OWNERS).map(owner).collect(),
            left_out_owner_count: int32(owners.len().saturating_sub(OWNERS)),
            block_bytes: int(blocks.block_bytes),
            movable_block_count: int(blocks.movable),
            kernel_block_count: int(blocks.kernel),
            offline_block_count: int(blocks.offline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{
        NodeId,
        contents::{ContentKind, MemoryBlocks},
    };

    #[test]
    fn each_kind_has_a_name_and_owners_have_a_bound() {
        let owner = |number: u64| ContentOwner {
            cgroup: format!("/{number}"),
            memory_bytes: 3000 - number,
            cache_bytes: number,
        };
        let contents = NodeContents {
            node: NodeId(8),
            total_bytes: 1 << 30,
            free_bytes: 1 << 20,
            kinds: ContentKind::ALL.into_iter().zip(1..).collect(),
            owners: (0..2000).map(owner).collect(),
            blocks: MemoryBlocks { block_bytes: 128 << 20, movable: 5, kernel: 3, offline: 1 },
        };
        let message = v1::NodeContents::from(&contents);
        let kinds: Vec<_> =
            message.kinds.iter().map(|each| (each.kind().as_str_name(), each.bytes)).collect();
        assert_eq!(kinds[0], ("CONTENT_KIND_ANONYMOUS", 1));
        assert_eq!(kinds[8], ("CONTENT_KIND_OTHER", 9));
        assert_eq!((message.owners.len(), message.left_out_owner_count), (1024, 976));
        assert_eq!((message.owners[7].memory_bytes, message.owners[7].cache_bytes), (2993, 7));
        assert_eq!((message.node_id, message.movable_block_count), (8, 5));
    }
}

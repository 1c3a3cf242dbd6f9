//! Stripes: the pages of an extent that belong on one node of several.
//!
//! A folio's node follows from its index alone, which is computed as the kernel computes it when it allocates under
//! MPOL_INTERLEAVE (mm/mempolicy.c: `get_vma_policy`, `interleave_nid`; mm/shmem.c: `shmem_get_pgoff_policy`).

use crate::{machine::ids::NodeId, memory::cycle::Cycle, page_size};
use std::sync::Arc;

/// The kernel's way to compute indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// Since 6.7 (commit ddc1a5cbc05d): in full width, and the inode of shared memory counts in full.
    #[default]
    Full,
    /// Up to 6.6: `offset_il_node` takes the index modulo 2^32, and the inode is added to the offset in pages before that is
    /// divided by the pages of a folio (`shmem_pseudo_vma_init`).
    Narrow,
}

/// Where an extent begins, as the kernel counts. From this the index of each of its folios follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Offset of the mapping in its object, in pages (`vm_pgoff`); 0 for shared memory.
    pub first_page: u64,
    /// Bytes from the start of the mapping to the start of the extent; for shared memory, from the start of the object.
    pub skew_bytes: u64,
    /// Inode of shared memory, which the kernel adds so that small objects do not all begin on the same node; 0 for other memory.
    pub inode: u64,
    /// Indexing of this host's kernel.
    pub indexing: Indexing,
}

impl Origin {
    /// The index of a folio of `bytes` bytes that begins `offset` bytes from the start of the extent. A negative offset is that of
    /// a folio of which the extent has only the end.
    pub fn index(&self, offset: i64, bytes: u64) -> u64 {
        let pages = (bytes / page_size()).max(1);
        let folio_bytes = pages.next_power_of_two() * page_size();
        let folio_pages = folio_bytes / page_size();
        let at = self.skew_bytes.saturating_add_signed(offset) / folio_bytes;
        match self.indexing {
            Indexing::Full => {
                (self.first_page / folio_pages).wrapping_add(at).wrapping_add(self.inode)
            }
            Indexing::Narrow => {
                let first = self.first_page.wrapping_add(self.inode) / folio_pages;
                first.wrapping_add(at) & u64::from(u32::MAX)
            }
        }
    }

    /// The origin of the part of the extent that begins `offset` bytes from its start.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { skew_bytes: self.skew_bytes + offset, ..self }
    }
}

/// The pages of an extent that belong on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// The node of each index.
    pub cycle: Arc<Cycle>,
    /// Where the extent begins.
    pub origin: Origin,
    /// The node that the pages of the stripe belong on.
    pub node: NodeId,
}

impl Stripe {
    /// Whether a folio belongs to the stripe; arguments as for [`Origin::index`].
    pub fn takes(&self, offset: i64, bytes: u64) -> bool {
        self.cycle.node(self.origin.index(offset, bytes)) == self.node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmd_size;
    use proptest::prelude::*;

    /// As mm/mempolicy.c has it since 6.7: `get_vma_policy` for a fault at `address`, `order` as in an allocation.
    fn since_6_7(vm_pgoff: u64, vm_start: u64, address: u64, order: u32, bias: u64) -> u64 {
        let mut ilx = bias;
        ilx += vm_pgoff >> order;
        ilx += (address - vm_start) >> (12 + order);
        ilx
    }

    /// As up to 6.6: `interleave_nid` and the truncation in `offset_il_node`.
    fn up_to_6_6(vm_pgoff: u64, vm_start: u64, address: u64, order: u32) -> u64 {
        let mut off = vm_pgoff >> order;
        off += (address - vm_start) >> (12 + order);
        u64::from(off as u32)
    }

    prop_compose! {
        /// A mapping of 47 bits of addresses, and a folio that begins in it: start in pages, folio's address, order.
        fn folio()(start in 1u64..1 << 34, at in 0u64..1 << 12, order in 0u32..=9) -> (u64, u64, u32) {
            let bytes = page_size() << order;
            (start, (start * page_size()).next_multiple_of(bytes) + at * bytes, order)
        }
    }

    proptest! {
        #[test]
        fn private_memory_is_indexed_as_in_the_kernel((start, address, order) in folio(), pgoff in 0u64..1 << 35) {
            let origin = |indexing| Origin { first_page: pgoff, indexing, ..Origin::default() };
            let (vm_start, bytes) = (start * page_size(), page_size() << order);
            let offset = (address - vm_start) as i64;
            prop_assert_eq!(origin(Indexing::Full).index(offset, bytes), since_6_7(pgoff, vm_start, address, order, 0));
            prop_assert_eq!(origin(Indexing::Narrow).index(offset, bytes), up_to_6_6(pgoff, vm_start, address, order));
        }

        /// `shmem_get_pgoff_policy` since 6.7; `shmem_alloc_folio` and `shmem_alloc_hugefolio` before.
        #[test]
        fn shared_memory_is_indexed_as_in_the_kernel(index in 0u64..1 << 32, inode in 0u64..1 << 32, huge: bool) {
            let order = if huge { 9 } else { 0 };
            let (index, bytes) = (index >> order << order, page_size() << order);
            let skew_bytes = index / 2 * page_size();
            let offset = (index * page_size() - skew_bytes) as i64;
            let origin = |indexing| Origin { first_page: 0, skew_bytes, inode, indexing };
            prop_assert_eq!(origin(Indexing::Full).index(offset, bytes), inode + (index >> order));
            let before = u64::from(((index + inode) >> order) as u32);
            prop_assert_eq!(origin(Indexing::Narrow).index(offset, bytes), before);
        }

        /// A cut moves the origin and changes no index.
        #[test]
        fn parts_of_an_extent_keep_their_indexes((start, address, order) in folio(), cut in 0u64..1 << 12) {
            let origin = Origin { first_page: start, ..Origin::default() };
            let (offset, cut) = (address - start * page_size(), cut * page_size());
            let part = origin.at(cut).index(offset as i64 - cut as i64, page_size() << order);
            prop_assert_eq!(part, origin.index(offset as i64, page_size() << order));
        }

        /// Each folio is in one stripe.
        #[test]
        fn stripes_divide_an_extent((start, address, order) in folio(), nodes in 2u32..9, weight in 1u8..=255) {
            let cycle = Arc::new(Cycle::new((0..nodes).map(|node| (NodeId(node), weight))));
            let origin = Origin { first_page: start, ..Origin::default() };
            let takes = |node: &u32| {
                let stripe = Stripe { cycle: cycle.clone(), origin, node: NodeId(*node) };
                stripe.takes((address - start * page_size()) as i64, page_size() << order)
            };
            prop_assert_eq!((0..nodes).filter(takes).count(), 1);
        }
    }

    #[test]
    fn a_huge_page_of_a_mapping_that_begins_within_another_is_one_index_lower() {
        let origin = |start: u64| Origin { first_page: start / page_size(), ..Origin::default() };
        let index = |start: u64, at: u64| origin(start).index((at - start) as i64, pmd_size());
        assert_eq!(index(4 * pmd_size(), 5 * pmd_size()), 5);
        assert_eq!(index(4 * pmd_size() + page_size(), 5 * pmd_size()), 4);
    }

    #[test]
    fn a_folio_that_is_mapped_in_part_counts_as_a_whole() {
        let origin = Origin { skew_bytes: pmd_size(), ..Origin::default() };
        assert_eq!(origin.index(0, 3 * page_size()), origin.index(0, 4 * page_size()));
        assert_eq!(origin.index(-(pmd_size() as i64), pmd_size()), 0);
        assert_eq!(origin.index(i64::MIN, pmd_size()), 0);
    }
}

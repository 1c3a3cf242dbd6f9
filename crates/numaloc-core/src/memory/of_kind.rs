//! Resident memory by what backs it.

use crate::{
    machine::ids::NodeId,
    memory::extent::{Extent, Kind},
};
use std::collections::BTreeMap;

/// Resident memory of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryOfKind {
    /// Kind of memory that backs its pages.
    pub kind: Kind,
    /// Whether its pages come from hugetlb pools.
    pub is_hugetlb: bool,
    /// Bytes by node, each page counted once.
    pub resident: BTreeMap<NodeId, u64>,
    /// The part of them in PMD-sized or larger pages, in bytes.
    pub huge_bytes: u64,
}

/// Adds what is resident of an extent to the entry of its kind. The entries are in the order of kinds, hugetlb memory last in each.
pub(crate) fn add(all: &mut Vec<MemoryOfKind>, extent: &Extent) {
    if extent.residency.nodes.is_empty() {
        return;
    }
    let key = (extent.kind, extent.hugetlb_bytes.is_some());
    let place = all.binary_search_by_key(&key, |of| (of.kind, of.is_hugetlb));
    let place = place.unwrap_or_else(|place| {
        let (kind, is_hugetlb) = key;
        all.insert(
            place,
            MemoryOfKind { kind, is_hugetlb, resident: BTreeMap::new(), huge_bytes: 0 },
        );
        place
    });
    let of = &mut all[place];
    for (&node, resident) in &extent.residency.nodes {
        *of.resident.entry(node).or_default() += resident.total_bytes();
        of.huge_bytes += resident.huge_bytes;
    }
}

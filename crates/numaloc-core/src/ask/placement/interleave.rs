//! Memory in turn on each of several nodes, as the kernel's MPOL_INTERLEAVE allocates it (mm/mempolicy.c, `interleave_nid`).

use crate::{machine::ids::NodeSet, memory::cycle::Cycle};

/// The name of this placement.
pub const NAME: &str = "interleave";

/// One folio on each of these nodes, in the order of their indexes.
pub fn cycle(nodes: &NodeSet) -> Cycle {
    Cycle::new(nodes.iter().map(|node| (node, 1)))
}

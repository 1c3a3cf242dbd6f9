//! NUMA nodes: topology, tiers, free memory, and memory that reclaim spares.

pub mod hmat;
pub(crate) mod node_memory;
pub(crate) mod protected;
pub(crate) mod tiers;
pub mod topology;

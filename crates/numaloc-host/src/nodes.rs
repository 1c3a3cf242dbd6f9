//! NUMA nodes: topology, tiers, speed of their memory, free memory, and memory that reclaim spares.

pub mod hmat;
pub mod measured;
pub(crate) mod node_memory;
pub(crate) mod protected;
pub(crate) mod tiers;
pub mod topology;
pub(crate) mod weights;

//! NUMA nodes: topology, tiers, speed of their memory, free memory, memory that reclaim spares, and the nodes of devices.

mod dax_memory;
pub mod devices;
pub mod hmat;
pub mod measured;
pub(crate) mod node_memory;
pub(crate) mod protected;
pub(crate) mod tiers;
pub mod topology;
pub(crate) mod weights;

//! NUMA nodes: topology, tiers, speed of their memory, free memory, memory that reclaim spares, and the nodes of devices.

mod dax_memory;
pub mod devices;
mod disk;
pub mod hmat;
pub mod measured;
pub(crate) mod nature;
pub(crate) mod node_memory;
pub(crate) mod pmem;
pub(crate) mod protected;
pub(crate) mod storage;
pub(crate) mod tiers;
pub mod topology;
pub(crate) mod weights;

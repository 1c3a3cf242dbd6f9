//! Memory of processes: extents, whose they are, and where they reside.

pub mod cell_memory;
pub mod chunks;
pub mod claim_set;
pub mod cycle;
pub mod extent;
pub mod file_cache;
pub mod fixed;
pub mod grains;
pub mod held;
pub mod locality;
pub mod mempolicy;
pub mod of_kind;
pub mod phase;
pub mod reservation;
pub mod rule;
pub mod stripe;

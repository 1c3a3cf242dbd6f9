//! Looks that move nothing: advice and its effect, the live view, the memory of the host for metrics, pictures, the host's facts.

pub(crate) mod attached;
pub mod contents;
pub mod facts;
pub mod host_memory;
pub mod live;
pub(crate) mod look;
pub(crate) mod looked_files;
pub(crate) mod movers;
pub(crate) mod obstacles;
pub(crate) mod picture;
pub(crate) mod sight;
pub mod speed;
pub mod spread;
pub mod storage_speed;
pub mod traffic;

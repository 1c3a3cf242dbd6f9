//! Room on full target nodes.

pub(crate) mod cache;
pub(crate) mod exchange;
pub(crate) mod moved_cache;
pub(crate) mod reclaim;

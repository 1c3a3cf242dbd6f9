//! Memory in one contiguous part on each of several nodes, as threads that divide an array among themselves use it.

/// The name of this placement.
pub const NAME: &str = "block";

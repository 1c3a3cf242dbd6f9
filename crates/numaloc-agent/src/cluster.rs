//! What the API server of the cluster has, and how it is asked.

pub mod api;
pub mod objects;
pub mod watch;

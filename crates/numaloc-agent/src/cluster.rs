//! Objects of the cluster's API server, and the calls that read and write them.

pub mod api;
pub mod objects;
pub mod watch;

//! What this host allows.

pub(crate) mod capabilities;
pub(crate) mod page_size;
pub mod probe;

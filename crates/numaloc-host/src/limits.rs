//! What this host allows: capabilities, ways to read page maps, the size of pages.

pub(crate) mod capabilities;
pub(crate) mod page_size;
pub mod probe;

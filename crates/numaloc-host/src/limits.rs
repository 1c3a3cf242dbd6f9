//! Limits of this host: capabilities, ways to read page maps, the size of pages, the number of tasks.

pub(crate) mod capabilities;
pub mod probe;
pub(crate) mod tasks;

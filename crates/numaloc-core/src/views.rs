//! Looks at hosts and processes that move nothing.

pub mod advise;
pub mod contents;
pub mod layout;
pub mod live;
pub mod picture;
pub mod rotation;
pub mod speed;

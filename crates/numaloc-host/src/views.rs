//! Looks that move nothing: advice, the live view, pictures, the host's facts.

pub mod facts;
pub mod live;
pub(crate) mod look;
pub(crate) mod movers;
pub(crate) mod picture;

//! Options of a request: which memory moves, how gently, and in which order.

pub mod compact;
pub mod directions;
pub mod glob;
pub mod heat;
pub mod home_rule;
pub mod map_rule;
pub mod mover_group;
pub mod options;
pub mod pace;
pub mod placement;
pub mod relief;
pub mod temperatures;

//! All of a process's memory on its home nodes, whichever is nearest to where it is ([`crate::planner::home`], [`crate::Routes`]).

/// The name of this placement.
pub const NAME: &str = "home";

//! The results of a run: accounts that close, flows between nodes, calls.

pub mod account;
pub mod outcome;

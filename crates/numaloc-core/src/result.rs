//! What a run did: accounts that close, flows between nodes, calls.

pub mod account;
pub mod outcome;

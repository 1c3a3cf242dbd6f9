//! What a request may choose.

pub mod compact;
pub mod heat;
pub mod home_rule;
pub mod options;
pub mod pace;

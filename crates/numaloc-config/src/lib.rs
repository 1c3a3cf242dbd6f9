//! Reads the configuration files of the programs: TOML, into types that derive [`serde::Deserialize`], with all mistakes of a file at
//! once, each with its line and key. Several files can be read as one. [`value`] has the values that all files write in the same way,
//! and [`written`] the readers of what people write elsewhere.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod document;
mod file;
mod merge;
mod resctrl;
#[cfg(feature = "samples")]
pub mod samples;
mod tiers;
pub mod value;
pub mod written;

pub use document::{Document, FileLine, Mistake};
pub use file::{FileError, Source, load};
pub use resctrl::Resctrl;
pub use tiers::Tiers;

//! Carries a plan out: fresh scans, batches of folios, move_pages(2), a second look, an account that closes.
//!
//! The executor chooses no targets: it follows the plan's routes. Addresses never outlive a window.
#![forbid(unsafe_code)]

mod batch;
mod execute;
mod fate;
mod folio;
mod hint;
mod look;
mod rate;
mod report;
mod verdict;
mod work;
mod worker;

pub use execute::{Control, Limits, execute};
pub use numaloc_core::{CallStats, Outcome, ProcessOutcome};

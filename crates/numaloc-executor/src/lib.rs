//! Carries out a plan: scans afresh, builds batches of folios, calls move_pages(2), looks again, and keeps an account that
//! closes.
//!
//! The executor chooses no targets: it follows the plan's routes. It reads addresses just before it uses
//! them: a page's address is kept until its batch is full, and for a retry the page is looked up again.
#![forbid(unsafe_code)]

mod affinity;
mod batch;
mod brake;
mod cache;
mod call;
mod control;
mod cover;
mod deferred;
mod duty;
mod execute;
mod fate;
mod find;
mod folio;
mod guard;
mod hint;
mod key;
mod ledger;
mod limits;
mod look;
mod pacer;
mod pending;
mod placement;
mod rate;
mod report;
mod rest;
mod retry;
mod row;
mod runs;
mod sample;
#[cfg(test)]
mod simulation;
mod spell;
mod splits;
mod stall;
mod verdict;
mod watch;
mod windows;
mod work;
mod worker;

pub use control::Control;
pub use execute::execute;
pub use limits::{Limits, Scheduling};
pub use numaloc_core::{CallStats, Outcome, ProcessOutcome};
pub use rate::SharedRate;

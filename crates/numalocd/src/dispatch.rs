//! The dispatcher: one task that owns jobs, schedules, workloads and events.
//!
//! A change is a list of writes: it is committed to the store, and only then taken over into the book and answered. Changes
//! that wait together share a commit (`group`). What the engine reports and cannot be stored now waits, with its run, until
//! it can.

mod book;
mod changes;
mod command;
mod cpusets;
mod dispatcher;
mod ends;
mod events;
mod fight;
mod group;
mod handle;
mod holds;
mod jobs;
mod leases;
mod limits;
mod lists;
mod names;
mod page;
pub mod queue;
mod refusal;
mod reports;
mod restart;
mod retain;
mod run;
mod schedules;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod ticks;
mod turn;
mod used;
mod workloads;

pub use book::Book;
pub use changes::Begin;
pub use dispatcher::{Dispatcher, Edges, Lookup, Probe, Probed};
pub use handle::{
    Handle, JobCount, Listed, Made, RecordChange, RecordChanges, RecordKind, Replaced, Selected,
    Status,
};
pub use holds::Hold;
pub use refusal::Refusal;
pub use task::{Ears, Pulse, start};

//! The dispatcher: one task that owns jobs, schedules, workloads and events.
//!
//! A change is a list of writes. The store commits it; only then it is taken over into the book and answered. Changes that
//! wait together share a commit (`group`). If the consequences of an engine's report cannot be stored now, the report and
//! its run are kept until they can.

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
mod measured;
mod names;
mod page;
pub mod queue;
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
pub use measured::Measured;
pub use task::{Ears, Pulse, start};

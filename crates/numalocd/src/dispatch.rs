//! The dispatcher: one task that owns jobs, schedules, workloads and events.
//!
//! A change is a list of writes. The store commits it; only then it is taken over into the book and answered. Changes that
//! wait together share a commit (`commits`). If the consequences of an engine's report cannot be stored now, the report and
//! its run are kept until they can.

mod agenda;
mod book;
mod changes;
mod collection;
mod command;
mod commits;
mod cpusets;
mod delete;
mod dispatcher;
mod ends;
mod events;
mod fight;
mod fights;
mod forget;
mod group;
mod handle;
mod holds;
mod jobs;
mod jumps;
mod labels;
mod leases;
mod limits;
mod lists;
mod measured;
mod names;
mod open;
mod owned;
mod page;
mod partners;
pub mod queue;
mod records;
mod recover;
mod reports;
mod rest;
mod retain;
mod run;
mod schedules;
mod selected;
mod status;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod ticks;
mod turn;
mod used;
mod workloads;

pub use changes::{Begin, RecordChange, RecordChanges};
pub use command::{Hold, Made, MadeSchedule, Registering, Replaced};
pub use dispatcher::{Dispatcher, Edges, Lookup, Probe, Probed};
pub use handle::Handle;
pub use lists::Listable;
pub use measured::Measured;
pub use page::Listed;
pub use records::Records;
pub use selected::Selected;
pub use status::{JobCount, Status};
pub use task::{Ears, Pulse, start};

//! Documents as text for people. Pure: a document in, a string out.

mod cells;
mod doctor;
mod events;
mod fields;
mod holds;
mod homes;
mod jobs;
mod locality;
mod members;
mod migration;
mod numactl;
mod plan;
mod schedules;
mod status;
mod table;
#[cfg(test)]
pub mod tests;
mod topology;
mod workloads;

pub use doctor::doctor;
pub use events::{event_header, event_line, events};
pub use holds::holds;
pub use jobs::{job, job_line, job_to_be, jobs};
pub use locality::locality;
pub use migration::migration;
pub use numactl::numactl;
pub use plan::plan;
pub use schedules::{schedule, schedule_line, schedules};
pub use status::status;
pub use topology::topology;
pub use workloads::{removed, renewed, replaced, workload, workload_line, workloads};

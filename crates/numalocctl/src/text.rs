//! Answers as text for people. Pure: a message or a document in, a string out.

mod advise;
mod cells;
mod colour;
mod doctor;
mod dsa;
mod events;
mod fields;
mod holds;
mod homes;
mod jobs;
mod left_out;
mod locality;
mod map;
mod members;
mod migration;
mod numactl;
mod offload;
mod plan;
mod policy;
mod schedules;
mod status;
mod table;
mod target;
#[cfg(test)]
pub mod tests;
mod top;
mod topology;
mod workloads;

pub use advise::{advice, advice_end, finding_lines};
pub use doctor::doctor;
pub use dsa::dsa;
pub use events::{event_header, event_line, events};
pub use holds::holds;
pub use jobs::{job, job_line, job_to_be, jobs};
pub use left_out::{found_members, left_out};
pub use locality::locality;
pub use map::{Canvas, map};
pub use migration::migration;
pub use numactl::numactl;
pub use plan::plan;
pub use schedules::{applied, schedule, schedule_line, schedule_states, schedules};
pub use status::status;
pub use top::{cell, csv, missing, node_cells, question, top};
pub use topology::topology;
pub use workloads::{removed, renewed, replaced, workload, workload_line, workloads};

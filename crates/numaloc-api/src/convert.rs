//! All conversions: requests to values (`spec`, `request`), values to requests (`client`), and values of the core to
//! answers (`topology`, `locality`, `plan`, `outcome`, `record`). `check` holds the bounds of single fields.

mod check;
mod client;
mod locality;
mod names;
mod outcome;
mod plan;
mod record;
mod request;
mod schedule;
mod spec;
mod topology;

pub use locality::LocalityView;
pub use names::{event_number, timestamp};
pub use outcome::left_bytes;
pub use record::{EventView, JobView, ScheduleView, WorkloadView};

#[cfg(test)]
mod tests;

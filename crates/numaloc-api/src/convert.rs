//! All conversions: requests to values (`spec`, `request`), values to requests (`client`), and values of the core to
//! answers (`topology`, `locality`, `plan`, `outcome`, `record`), and those back to values (`stored`, `ended`). `check` holds the bounds of single fields.

mod check;
mod client;
mod ended;
mod locality;
mod member;
mod names;
mod outcome;
mod plan;
mod record;
mod request;
mod schedule;
mod selector;
mod spec;
mod stored;
mod topology;
mod workload;

pub use locality::LocalityView;
pub use names::{event_number, timestamp};
pub use outcome::left_bytes;
pub use spec::{STALL_MAX, STALL_MIN};
pub use stored::{Damaged, Stored};

#[cfg(test)]
mod tests;

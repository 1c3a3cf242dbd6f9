//! Documents as text for people. Pure: a document in, a string out.

mod doctor;
mod locality;
mod migration;
mod numactl;
mod plan;
mod table;
#[cfg(test)]
mod tests;
mod topology;

pub use doctor::doctor;
pub use locality::locality;
pub use migration::migration;
pub use numactl::numactl;
pub use plan::plan;
pub use topology::topology;

//! Marks of our workloads and schedules.

use numaloc_node::Mark;

pub use numaloc_node::AGENT_SOURCE as SOURCE;

/// The id of the workload that shows numaloc-nri that we decide about policies. It stands for no process.
pub const PRESENCE: &str = "agent-decides";
/// The id of a schedule. Its jobs and their events have the label, too.
pub const ID: &str = "numaloc.io/schedule";
/// The source that has decided.
pub const DECIDED_BY: &str = "numaloc.io/source";
/// The records that are ours.
pub const MARK: Mark = Mark { source: SOURCE, key: ID };

//! What marks the workloads and schedules that are ours.

use numaloc_node::Mark;

/// Our source.
pub const SOURCE: &str = "agent";
/// The id of a schedule. Its jobs and their events have the label, too.
pub const ID: &str = "numaloc.io/schedule";
/// Which source has decided.
pub const DECIDED_BY: &str = "numaloc.io/source";
/// The records that are ours.
pub const MARK: Mark = Mark { source: SOURCE, key: ID };

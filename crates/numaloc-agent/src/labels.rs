//! What marks the workloads and schedules that are ours.

use numaloc_node::Mark;

/// Our source.
pub const SOURCE: &str = "agent";
/// The id of a schedule. Its jobs and their events have the label, too.
pub const ID: &str = "numaloc.io/schedule";
/// The name of the container that a schedule is for, and of its pod.
pub const CONTAINER: &str = "numaloc.io/container";
pub const POD: &str = "numaloc.io/pod";
pub const NAMESPACE: &str = "numaloc.io/namespace";
/// Which source has decided.
pub const DECIDED_BY: &str = "numaloc.io/source";
/// The records that are ours.
pub const MARK: Mark = Mark { source: SOURCE, key: ID };

//! Marks of our workloads and schedules.

use numaloc_node::Mark;

pub use numaloc_api::{NRI_SOURCE as SOURCE, TOLD_BY_LABEL as TOLD_BY};

/// The id of the container that a schedule is for. Its jobs have the label, too.
pub const CONTAINER: &str = "numaloc.io/container-id";
/// The records that are ours.
pub const MARK: Mark = Mark { source: SOURCE, key: CONTAINER };

//! What marks the workloads and schedules that are ours.

pub use numaloc_api::{NRI_SOURCE as SOURCE, TOLD_BY_LABEL as TOLD_BY};

/// A schedule of ours has this label, with [`SOURCE`].
pub const MANAGED: &str = "numaloc.io/managed-by";
/// The id of the container that a schedule is for. Its jobs have the label, too.
pub const CONTAINER: &str = "numaloc.io/container-id";
/// What a schedule was made of: the policy and the container's CPUs and nodes. If it differs from what is wanted, the container is
/// to be looked at again.
pub const STATE: &str = "numaloc.io/state";

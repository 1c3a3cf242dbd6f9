//! Registered workloads that may make room for a job.

use crate::{Authority, Member};
use numaloc_executor::RunLimits;

/// A workload that may make room.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The workload, as a member that the engine can look up.
    pub member: Member,
    /// The right of the client that has registered it: a client that calls a workload best effort needs the right to
    /// its memory.
    pub by: Authority,
}

/// Processes that may make room for a job, and the limits for moving their memory.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    /// The registered workloads whose memory may be moved away.
    pub workloads: Vec<Offer>,
    /// Limits for moving their memory.
    pub limits: RunLimits,
}

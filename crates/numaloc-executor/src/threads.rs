//! Where the threads of a run may run.

pub(crate) mod affinity;
pub(crate) mod placement;
pub(crate) mod spare;

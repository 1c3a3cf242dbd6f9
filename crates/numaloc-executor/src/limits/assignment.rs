//! What a run is given.

use crate::limits::{RunLimits, control::Control};
use numaloc_core::{Plan, Topology};
use numaloc_host::{NodeMemoryReader, Roots, Survey};

/// What a run is given. It refers to all of this and owns nothing, so it is copied at no cost.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// Where the host's files are read.
    pub roots: &'a Roots,
    /// The nodes that pages leave and go to.
    pub topology: &'a Topology,
    /// Reads how much memory the nodes have.
    pub memory: &'a NodeMemoryReader,
    /// What is to be moved.
    pub plan: &'a Plan,
    /// What the plan was made from.
    pub survey: &'a Survey,
    /// How hard the run may work.
    pub limits: &'a RunLimits,
    /// By this others end the run, and see how far it is.
    pub control: &'a Control,
}

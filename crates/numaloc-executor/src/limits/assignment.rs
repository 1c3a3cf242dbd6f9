//! The inputs of a run.

use crate::limits::{RunLimits, control::Control};
use numaloc_core::{Plan, Topology};
use numaloc_host::{NodeMemoryReader, Roots, Survey};

/// The inputs of a run. It refers to all of this and owns nothing, so it is copied at no cost.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// Where the host's files are read.
    pub roots: &'a Roots,
    /// The nodes that pages leave and go to.
    pub topology: &'a Topology,
    /// Reads how much memory the nodes have.
    pub memory: &'a NodeMemoryReader,
    /// The plan to carry out.
    pub plan: &'a Plan,
    /// The survey that the plan was made from.
    pub survey: &'a Survey,
    /// The bounds of the run.
    pub limits: &'a RunLimits,
    /// By this others end the run, and see how far it is.
    pub control: &'a Control,
}

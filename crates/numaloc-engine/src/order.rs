//! The order for a run.

use crate::{Aim, Authority, Offers, Trail};
use numaloc_core::{NumaBalancing, Options};
use numaloc_dma::Asked;
use numaloc_executor::{Control, RunLimits};
use std::sync::Arc;

/// A migration to be planned and, once its owner wants that, carried out.
#[derive(Debug)]
pub struct RunOrder {
    /// The target.
    pub aim: Aim,
    /// Memory that the planner may move, and where to.
    pub options: Options,
    /// The bounds of the run: of a job those of its request, the configuration and its class, joined.
    pub limits: RunLimits,
    /// Owners whose memory may be moved.
    pub authority: Authority,
    /// Processes that may make room for it.
    pub offers: Offers,
    /// The handling of the kernel's NUMA balancing.
    pub numa_balancing: NumaBalancing,
    /// Whether a DMA engine copies.
    pub offload: Asked,
    /// Pages that the last run of the same schedule has moved, to see how much of them stayed.
    pub trail: Option<Arc<Trail>>,
    /// The owner reads the run's progress from it, and sets it to end the run after the current batches, or to end
    /// planning.
    pub control: Arc<Control>,
}

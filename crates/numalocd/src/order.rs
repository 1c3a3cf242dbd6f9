//! Messages between the dispatcher and the engine: plain values, known to both.

use crate::refusal::Refusal;
use numaloc_api::value::JobId;
use numaloc_engine::{Ended, Planned, RunOrder};
use tokio::sync::oneshot;

/// A job to be planned and, once the dispatcher requests it, moved.
#[derive(Debug)]
pub struct JobOrder {
    /// The job, which is committed as PLANNING.
    pub job: JobId,
    /// The run to carry out. The dispatcher keeps the run's control, too.
    pub run: RunOrder,
    /// The dispatcher sends here, after [`EngineReport::Planned`], to have the memory moved. If it drops the sender,
    /// nothing is moved and nothing more is reported. It may also send if there is nothing to move: the outcome then
    /// accounts for what stays and why.
    pub go: oneshot::Receiver<()>,
}

/// Reports of the engine on an order: first `Planned`, then, if it was to move, `Ended`.
#[derive(Debug)]
pub enum EngineReport {
    /// The order has been planned, or could not be: [`Refusal::Unavailable`] if it was cancelled meanwhile.
    Planned(JobId, Result<Planned, Refusal>),
    /// The run has ended, or could not begin.
    Ended(JobId, Result<Ended, Refusal>),
}

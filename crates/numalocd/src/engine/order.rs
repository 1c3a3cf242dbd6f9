//! What the dispatcher and the engine tell each other.

use crate::{access::Authority, dispatch::Refusal};
use numaloc_api::value::{JobId, Limits, Outcome, PlanSummary};
use numaloc_core::{Identity, NodeSet, Options};
use numaloc_executor::Control;
use numaloc_host::Target;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::oneshot;

/// A job to be planned and, once the dispatcher says so, moved.
#[derive(Debug)]
pub struct Order {
    /// The job.
    pub job: JobId,
    /// Whose memory.
    pub targets: Vec<Target>,
    /// What goes where.
    pub options: Options,
    /// Bounds, defaults filled in from the configuration where the job has none.
    pub limits: Limits,
    /// Whose memory the job's creator may have moved.
    pub authority: Authority,
    /// Watched by the dispatcher for progress, and set by it to end the run after the batches in hand (also while it plans).
    pub control: Arc<Control>,
    /// Answered by the dispatcher after [`Report::Planned`]: move. Dropped: do not, and report nothing more. It may also be
    /// answered when there is nothing to move: the outcome then accounts for what stays and why.
    pub go: oneshot::Receiver<()>,
}

/// What was found of a target, to tell whether jobs are in each other's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its processes.
    pub processes: BTreeSet<Identity>,
    /// Nodes that memory would be brought to.
    pub nodes: NodeSet,
}

/// A plan has been made.
#[derive(Clone, Debug)]
pub struct Planned {
    /// For clients.
    pub summary: Arc<PlanSummary>,
    /// Who and where.
    pub found: Found,
    /// Bytes that it sets out to move.
    pub planned_bytes: u64,
    /// Share of what may be moved that is local now, in percent.
    pub local_percent: f64,
    /// Why nothing is to be done, for people: no target node, or nothing is remote, the ratio is reached, or all that is
    /// remote has to stay.
    pub nothing: Option<String>,
}

/// What the engine reports of an order: first `Planned`, then, if it was told to move, `Ended`.
#[derive(Debug)]
pub enum Report {
    /// It has been planned, or could not be: [`Refusal::Unavailable`] if it was cancelled meanwhile.
    Planned(JobId, Result<Planned, Refusal>),
    /// It has ended, was cancelled (then bytes are left as cancelled in the account), or could not begin.
    Ended(JobId, Result<Arc<Outcome>, Refusal>),
}

//! What the dispatcher and the engine tell each other.

use super::Aim;
use crate::{access::Authority, dispatch::Refusal};
use numaloc_api::value::{JobId, MemberResult, Outcome, PlanSummary};
use numaloc_core::{Identity, Moved, NodeSet, NumaBalancing, Options};
use numaloc_executor::{Control, Limits};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::oneshot;

/// A job to be planned and, once the dispatcher says so, moved.
#[derive(Debug)]
pub struct Order {
    /// The job.
    pub job: JobId,
    /// Whose memory.
    pub aim: Aim,
    /// What goes where.
    pub options: Options,
    /// Bounds, with those of the configuration and the job's class.
    pub limits: Limits,
    /// Whose memory the job's creator may have moved.
    pub authority: Authority,
    /// What is done about the kernel's own balancing.
    pub numa_balancing: NumaBalancing,
    /// What the last run of the same schedule has moved, to see how much of it stayed.
    pub trail: Option<Arc<Trail>>,
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
    /// The members of the target, those that take no part among them.
    pub members: Vec<MemberResult>,
}

impl Found {
    /// Who and where alone.
    pub fn bare(&self) -> Self {
        let Self { processes, nodes, .. } = self;
        Self { processes: processes.clone(), nodes: nodes.clone(), members: Vec::new() }
    }
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
    /// What users are to be told of it though it goes well.
    pub note: Option<String>,
    /// What has become of the order's trail.
    pub returned: Option<Returned>,
}

/// What a run has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// How much.
    pub moved_bytes: u64,
    /// Some of it.
    pub sample: Vec<Moved>,
}

/// How much of a trail was remote again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// So much, estimated,
    pub bytes: u64,
    /// of so much.
    pub moved_bytes: u64,
    /// Who may have moved it, in words; looked for only if it is much.
    pub by: Vec<String>,
}

impl Returned {
    /// From which share on, in percent, it is much: processes give back and take memory all the time, and what they take is
    /// remote again where home is full. A sample cannot make that much of 10%, nor less of 40%.
    const MUCH: u64 = 25;

    /// Its share in percent.
    pub fn percent(&self) -> u64 {
        self.bytes.saturating_mul(100) / self.moved_bytes.max(1)
    }
    /// Whether the run before has worked in vain.
    pub fn is_much(&self) -> bool {
        self.percent() >= Self::MUCH
    }
}

/// A run has come to its end, or was cancelled.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What became of it; cancelled: then bytes are left as cancelled in the account.
    pub outcome: Arc<Outcome>,
    /// What became of each member of the target.
    pub members: Vec<MemberResult>,
    /// What it has moved; `None`: nothing.
    pub trail: Option<Arc<Trail>>,
}

/// What the engine reports of an order: first `Planned`, then, if it was told to move, `Ended`.
#[derive(Debug)]
pub enum Report {
    /// It has been planned, or could not be: [`Refusal::Unavailable`] if it was cancelled meanwhile.
    Planned(JobId, Result<Planned, Refusal>),
    /// It has ended, or could not begin.
    Ended(JobId, Result<Ended, Refusal>),
}

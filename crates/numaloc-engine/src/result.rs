//! Scan results of a target, its plan, and the end of a run: plain values.

use numaloc_api::value::{JobState, MemberResult, Outcome, PlanSummary};
use numaloc_core::{Identity, Moved, NodeSet, NodeUse};
use std::{collections::BTreeSet, sync::Arc};

/// The scan's result for a target. It shows whether jobs are in each other's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundTarget {
    /// The processes that the run would move.
    pub processes: Arc<BTreeSet<Identity>>,
    /// The files of the target, by the paths that it names.
    pub files: BTreeSet<String>,
    /// Nodes that memory would be brought to.
    pub nodes: NodeSet,
    /// The members of the target, including members that take no part.
    pub members: Vec<MemberResult>,
    /// State of the node that is to be relieved; `None`: none is.
    pub relieved_node: Option<NodeUse>,
}

impl FoundTarget {
    /// Processes, files and nodes, without the members.
    pub fn bare(&self) -> Self {
        let Self { processes, files, nodes, .. } = self;
        let (processes, files, nodes) = (processes.clone(), files.clone(), nodes.clone());
        Self { processes, files, nodes, ..Self::default() }
    }

    /// Whether another one has some of its processes or files.
    pub fn meets(&self, other: &Self) -> bool {
        !self.processes.is_disjoint(&other.processes) || !self.files.is_disjoint(&other.files)
    }
}

/// A plan has been made.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The summary of the plan, which the job shows.
    pub summary: Arc<PlanSummary>,
    /// The processes and files of the plan; other jobs may be in the way.
    pub found: FoundTarget,
    /// Bytes that the plan is to move.
    pub planned_bytes: u64,
    /// The local share of the memory that may be moved, in percent, before the move.
    pub local_percent: f64,
    /// The state in which the job ends without a move, and the reason, for people: no target node, or nothing is
    /// remote, the ratio is reached, or all remote memory stays.
    pub nothing: Option<(JobState, String)>,
    /// A note for users, also if the job goes well.
    pub note: Option<String>,
    /// The part of the order's trail that was remote again.
    pub returned: Option<Returned>,
}

/// The pages that a run has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Bytes that the run has moved.
    pub moved_bytes: u64,
    /// A sample of the moved pages.
    pub sample: Vec<Moved>,
}

/// The part of a trail that was remote again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// Bytes that were remote again, estimated from the sample.
    pub bytes: u64,
    /// Bytes that the earlier run had moved.
    pub moved_bytes: u64,
    /// The process that more than half of them belong to, in words. `None`: there is none, or the run has moved memory of one process alone.
    pub process: Option<String>,
    /// Movers that may have moved it, in words. Looked for only if it is much.
    pub by: Vec<String>,
}

impl Returned {
    /// From this share on, in percent, the work counts as undone. Less is normal: processes free and allocate memory
    /// all the time, and new memory is remote if the home node is full. The error of the sample is too small to take
    /// 10% for this much, or 40% for less.
    const MUCH: u64 = 25;

    /// The share that was remote again, in percent.
    pub fn percent(&self) -> u64 {
        self.bytes.saturating_mul(100) / self.moved_bytes.max(1)
    }
    /// Whether much of the earlier run's work was undone.
    pub fn is_much(&self) -> bool {
        self.percent() >= Self::MUCH
    }
}

/// A run has come to its end, or was cancelled.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The outcome. If the run was cancelled, its account has bytes left as cancelled.
    pub outcome: Arc<Outcome>,
    /// The result of each member of the target.
    pub members: Vec<MemberResult>,
    /// The pages that the run has moved; `None`: none.
    pub trail: Option<Arc<Trail>>,
}

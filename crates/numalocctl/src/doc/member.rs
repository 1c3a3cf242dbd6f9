//! Results of the members of a target.

use super::{AccountDoc, FailedDoc, FlowDoc, LocalityPair, NodeBytes, TargetDoc};
use serde::Serialize;

/// A member of a target.
#[derive(Clone, Debug, Serialize)]
pub struct MemberDoc {
    /// The member, as a target with one member.
    pub member: TargetDoc,
    /// `waiting`, `succeeded`, `partial`, `skipped`, `failed`, `missing` or `refused`.
    pub state: String,
    /// Why it is in this state; null if there is nothing to add.
    pub reason: Option<String>,
    /// Number of its processes.
    pub process_count: u64,
    /// Nodes where its memory belongs.
    pub home_nodes: Vec<u32>,
    /// Bytes that were not at home before, by node.
    pub remote: Vec<NodeBytes>,
    /// Its remote bytes by what happened to them.
    #[serde(flatten)]
    pub account: AccountDoc,
    /// Moved bytes by source and target.
    pub flows: Vec<FlowDoc>,
    /// Locality before; null if nobody has looked.
    pub before: Option<LocalityPair>,
    /// Locality afterwards; null if there was nothing to look at.
    pub after: Option<LocalityPair>,
    /// The first of its processes that failed.
    pub failed_processes: Vec<FailedDoc>,
    /// Number of further processes of it that may not be read.
    pub unreadable_process_count: u64,
}

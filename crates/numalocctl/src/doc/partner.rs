//! Those whose memory made room.

use super::{AccountDoc, FlowDoc, TargetDoc, parts::flows};
use numaloc_api::value::Partner;
use serde::Serialize;

/// What was moved of a workload or process to make room for others on a node.
#[derive(Clone, Debug, Serialize)]
pub struct PartnerDoc {
    /// Its name, as a target with one member.
    pub member: TargetDoc,
    /// Number of its processes.
    pub process_count: u64,
    /// Its bytes on the node where room was made. What was moved has left the node.
    #[serde(flatten)]
    pub account: AccountDoc,
    /// Moved bytes by source and target.
    pub flows: Vec<FlowDoc>,
    /// The first error of the kernel that kept numaloc from moving or seeing its memory; null if there was none.
    pub error: Option<String>,
}

impl From<&Partner> for PartnerDoc {
    fn from(partner: &Partner) -> Self {
        Self {
            member: (&partner.member).into(),
            process_count: partner.processes as u64,
            account: (&partner.account).into(),
            flows: flows(&partner.flows),
            error: partner.error.clone(),
        }
    }
}

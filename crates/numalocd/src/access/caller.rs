//! The caller of a request, and what the caller may do.

use crate::{
    accounts::Client,
    config::{Ceilings, Role},
};
use numaloc_api::value::Workload;
use numaloc_engine::Authority;

/// A client that has been let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Such as `uid:1000`, `cert:` and the name in the certificate, or a SPIFFE ID. Quotas and the ownership of records
    /// use this name.
    pub name: String,
    /// The group that the caller's grant names; `None`: the grant names the caller itself, or the caller has none.
    pub gid: Option<u32>,
    /// Decides which calls the caller may make.
    pub role: Role,
    /// Decides whose memory may be moved on behalf of the caller.
    pub authority: Authority,
    /// The most that the caller may ask for.
    pub ceilings: Ceilings,
}

impl Caller {
    /// Whom its calls count for.
    pub fn client(&self) -> Client {
        Client::new(&self.name, self.gid)
    }

    /// Whether the caller may change a record of `creator`. An admin may change all records, others only their own.
    pub fn may_change(&self, creator: &str) -> bool {
        self.role == Role::Admin || self.name == creator
    }

    /// Whether a target of this caller may include this workload: the caller has registered it, or it is in a cgroup of
    /// the caller's authority. A workload that another client registers under the same label, pod or container takes no
    /// part in the caller's jobs.
    pub fn may_select(&self, workload: &Workload) -> bool {
        self.may_select_in(&workload.spec.cgroup, &workload.creator)
    }

    /// The same of workloads of `creator` in `cgroup`.
    pub fn may_select_in(&self, cgroup: &str, creator: &str) -> bool {
        self.name == creator || self.authority.is_over(cgroup)
    }

    /// Whether [`Self::may_select`] can hold for a workload of `creator`.
    pub fn may_mean(&self, creator: &str) -> bool {
        self.name == creator
            || match &self.authority {
                Authority::All => true,
                Authority::Of { cgroups, .. } => !cgroups.is_empty(),
            }
    }
}

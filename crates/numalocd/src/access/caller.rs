//! The caller of a request, and what the caller may do.

use crate::{
    accounts::Client,
    config::{Ceilings, Role},
};
use numaloc_api::value::Workload;

/// Whose memory may be moved on behalf of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// The memory of every process of the host.
    All,
    /// That of processes of one user, and of processes in some cgroups.
    Of {
        /// Processes whose real, effective and saved user id are this one.
        uid: Option<u32>,
        /// Processes in these cgroups and their children: absolute paths as in /proc/PID/cgroup.
        cgroups: Vec<String>,
        /// The page cache of files of that user, and of these files and what is below these directories: absolute paths.
        files: Vec<String>,
    },
}

impl Authority {
    /// Nobody's memory.
    pub const NONE: Self = Self::Of { uid: None, cgroups: Vec::new(), files: Vec::new() };

    /// Whether `cgroup` is one of the authority's cgroups, or below one of them.
    pub fn is_over(&self, cgroup: &str) -> bool {
        let below = |top: &String| {
            let rest = cgroup.strip_prefix(top.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match self {
            Self::All => true,
            Self::Of { cgroups, .. } => cgroups.iter().any(below),
        }
    }
}

/// A client that has been let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Such as `uid:1000`, `cert:` and the name in the certificate, or a SPIFFE ID. Quotas and the ownership of records use this
    /// name.
    pub name: String,
    /// The group that the caller's grant names; `None`: the grant names the caller itself, or there is no grant.
    pub gid: Option<u32>,
    /// What the caller may do.
    pub role: Role,
    /// Whose memory may be moved on behalf of the caller.
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

    /// Whether a target of this caller may include this workload: the caller has registered it, or it is in a cgroup of the
    /// caller's authority. A workload that somebody else registers under the same label, pod or container takes no part in the
    /// caller's jobs.
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

//! Who calls, and what that one may do.

use super::Ceilings;
use numaloc_api::value::Workload;
use std::fmt;

/// What a caller may do; each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Creates and changes jobs, schedules and workloads for targets within its [`Authority`].
    Operator,
    /// All.
    Admin,
}

impl fmt::Display for Role {
    /// As in the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        })
    }
}

/// Whose memory may be moved on behalf of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Anybody's.
    All,
    /// That of processes of one user, and of processes in some cgroups.
    Of {
        /// Processes whose real, effective and saved user id are this one.
        uid: Option<u32>,
        /// Processes in these cgroups and their children: absolute paths as in /proc/PID/cgroup.
        cgroups: Vec<String>,
    },
}

impl Authority {
    /// Whether `cgroup` is one of the authority's, or below one.
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
    /// Who: `uid:1000`, or `cert:` and the name in its certificate. Quotas and the ownership of records go by it.
    pub name: String,
    /// The group that its grant is to; `None`: the grant is to itself.
    pub gid: Option<u32>,
    /// What it may do.
    pub role: Role,
    /// Whose memory it may have moved.
    pub authority: Authority,
    /// What it may ask for at most.
    pub ceilings: Ceilings,
}

impl Caller {
    /// Whether it may change a record of `creator`: its own, or any as an admin.
    pub fn may_change(&self, creator: &str) -> bool {
        self.role == Role::Admin || self.name == creator
    }

    /// Whether a target of its may mean this workload: one that it has registered, or one in a cgroup that was given to it.
    /// Whoever else registers under the same label, pod or container has no part in its jobs.
    pub fn may_select(&self, workload: &Workload) -> bool {
        self.name == workload.creator || self.authority.is_over(&workload.spec.cgroup)
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

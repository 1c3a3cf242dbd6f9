//! Grants of rights in the configuration: plain values, which `access` applies.

use super::value;
use numaloc_api::value::QosClass;
use numaloc_config::value::{count, profile, rate};
use numaloc_core::Profile;
use serde::Deserialize;
use std::fmt;

/// The id that the kernel reports for users and groups that have no id in the daemon's user namespace (proc(5),
/// /proc/sys/kernel/overflowuid; this is its default). It can stand for any user, so it gets no rights.
pub const NOBODY: u32 = 65_534;

/// A role for those it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The user, group or certificate that gets the role.
    pub to: Grantee,
    pub role: Role,
    /// cgroups whose processes an operator may have moved besides those of its own uid.
    pub cgroups: Vec<String>,
    /// Files, and directories with all below them, whose page cache an operator may have moved besides that of files of
    /// its own uid.
    pub files: Vec<String>,
    /// The most that an operator may ask for.
    pub ceilings: Ceilings,
}

/// Whom a grant is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grantee {
    /// A user at the Unix socket.
    Uid(u32),
    /// Members of a group at the Unix socket.
    Gid(u32),
    /// The common name, or a DNS name, in a client certificate.
    Certificate(String),
    /// The SPIFFE ID in a client certificate, such as `spiffe://example.org/ns/web/sa/agent`.
    Spiffe(String),
}

/// Names that begin like this are for whom a grant names, and for admins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The beginning of reserved names, such as `nri-`.
    pub prefix: String,
    /// The clients that may use such names, besides admins.
    pub to: Grantee,
}

/// The rights of a caller. Each role includes the rights of the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads jobs, schedules, workloads, events and the state of the host.
    Viewer,
    /// Creates and changes jobs, schedules and workloads for targets within its authority.
    Operator,
    /// Does everything, also what ceilings forbid to operators.
    Admin,
}

impl fmt::Display for Role {
    /// The role as the configuration writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        })
    }
}

/// The ceilings of a grant. The default ones keep a job from harming other tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Ceilings {
    /// The fastest profile. The longest stall and the batch size that a request names may not exceed those of this
    /// profile, and nodes are compacted only if it does that.
    #[serde(deserialize_with = "profile")]
    pub profile: Profile,
    /// The best class for jobs and for workloads.
    #[serde(deserialize_with = "value::qos_class")]
    pub qos_class: QosClass,
    /// Whether pages that processes outside of the target map may be moved (MPOL_MF_MOVE_ALL).
    pub include_shared: bool,
    /// Whether pages of files on network file systems and FUSE may be moved: a server that does not answer keeps a call
    /// from returning.
    pub include_network: bool,
    /// Whether memory may be moved against the application's own memory policy.
    pub include_bound: bool,
    /// Whether hugetlb pages may be moved that take longer than one call may take: those of 1 GiB.
    pub include_gigantic: bool,
    /// Whether nodes may be named: nodes that memory is brought to, instead of its home, and nodes that it comes from,
    /// which may be of another memory tier; and whether page cache may be placed, which has no home.
    pub named_nodes: bool,
    /// Whether hugetlb pages may be taken that are made for it (`HugetlbSource::Fresh`): the sizes of the nodes' pools
    /// change permanently.
    pub fresh_hugetlb: bool,
    /// Whether a policy may say how much stays free on a target. It may be nothing.
    pub reserve_bytes: bool,
    /// Most bytes per second of a job, also of a job that names no rate; `None`: only the profile limits the rate.
    #[serde(deserialize_with = "rate")]
    pub rate_bytes_per_second: Option<u64>,
    /// Most threads of a job.
    #[serde(deserialize_with = "count::<1, 256, _, _>")]
    pub workers: usize,
    /// Whether kernel.numa_balancing may be switched off for a time.
    pub pause_numa_balancing: bool,
    /// Whether the kernel's settings of offload may be changed for a time.
    pub offload: bool,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            profile: Profile::Balanced,
            qos_class: QosClass::Ls,
            include_shared: false,
            include_network: false,
            include_bound: false,
            include_gigantic: false,
            named_nodes: false,
            fresh_hugetlb: false,
            reserve_bytes: false,
            rate_bytes_per_second: None,
            workers: 1,
            pause_numa_balancing: false,
            offload: false,
        }
    }
}

impl Ceilings {
    /// The ceilings of admins: they bound nothing.
    pub const NONE: Self = Self {
        profile: Profile::Fast,
        qos_class: QosClass::Lsr,
        include_shared: true,
        include_network: true,
        include_bound: true,
        include_gigantic: true,
        named_nodes: true,
        fresh_hugetlb: true,
        reserve_bytes: true,
        rate_bytes_per_second: None,
        workers: usize::MAX,
        pause_numa_balancing: true,
        offload: true,
    };
}

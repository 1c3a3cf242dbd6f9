//! What the daemon is doing.

use crate::{job_state::JobState, time::Time};
use serde::Serialize;

/// What `status` shows.
#[derive(Clone, Debug, Serialize)]
pub struct StatusDoc {
    /// Where the daemon is.
    pub endpoint: String,
    /// Its version.
    pub version: String,
    /// When it started.
    pub start_time: Option<Time>,
    /// How long ago it started, by this machine's clock.
    pub uptime_seconds: Option<u64>,
    /// How many jobs are in which state.
    pub jobs: Vec<JobCount>,
    /// How many schedules there are.
    pub schedules: u64,
    /// How many workloads are registered.
    pub workloads: u64,
    /// How many watching calls are open.
    pub watches: u64,
    /// Bytes that it has moved since it started.
    pub moved_bytes: u64,
    /// What keeps moves from beginning.
    pub holds: HoldsDoc,
    /// What it cannot do, as text for people.
    pub problems: Vec<String>,
    /// Your name as the daemon sees it.
    pub caller: String,
    /// `viewer`, `operator` or `admin`.
    pub role: String,
    /// The most that you may ask for; null for admins, who may ask for anything, and for viewers.
    pub ceilings: Option<CeilingsDoc>,
}

/// What keeps moves from beginning. This is the output of `drain`, `undrain`, `pause-all` and `resume-all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HoldsDoc {
    /// Since when the daemon is drained; null if it is not.
    pub drain_time: Option<Time>,
    /// Since when all moves are paused; null if they are not.
    pub pause_time: Option<Time>,
}

/// What `backup` shows.
#[derive(Clone, Debug, Serialize)]
pub struct BackupDoc {
    /// Where the copy is.
    pub file: String,
    /// How large it is.
    pub bytes: u64,
}

/// The most that an operator may ask for.
#[derive(Clone, Debug, Serialize)]
pub struct CeilingsDoc {
    /// The fastest profile.
    pub profile: String,
    /// The best class: `lsr`, `ls` or `be`.
    pub qos_class: String,
    /// Whether pages that processes outside the target map may be moved.
    pub include_shared: bool,
    /// Whether memory may be moved against the application's own memory policy.
    pub include_bound: bool,
    /// Whether target nodes may be named.
    pub named_nodes: bool,
    /// Whether hugetlb pages may be made for a migration, which changes the nodes' pools permanently.
    pub fresh_hugetlb: bool,
    /// Whether it may be said how much stays free on a target node.
    pub reserve_bytes: bool,
    /// Most bytes per second of a job; null: no limit.
    pub rate_bytes_per_second: Option<u64>,
    /// Most threads of a job.
    pub workers: u64,
    /// Whether the kernel's automatic NUMA balancing may be paused.
    pub pause_numa_balancing: bool,
    /// Whether offload may be required, and is used by `auto`.
    pub offload: bool,
}

/// How many jobs are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobCount {
    /// The state.
    pub state: JobState,
    /// How many.
    pub count: u64,
}

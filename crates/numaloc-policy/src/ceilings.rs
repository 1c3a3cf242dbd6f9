//! The most that pods may ask for.

use numaloc_core::Profile;
use std::time::Duration;

/// The most that pods may ask for by annotations. Nobody but the operator can write these. The default ones keep a pod from
/// harming its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// The fastest profile. The longest stall and the batch size may not exceed those of this profile.
    pub profile: Profile,
    /// Most bytes per second, also of pods that name no rate; `None`: only the profile limits the rate.
    pub rate_bytes_per_second: Option<u64>,
    /// Most threads of a run.
    pub workers: usize,
    /// The shortest interval of repeating schedules.
    pub min_interval: Duration,
    /// Whether pages that processes outside the container map may be moved.
    pub include_shared: bool,
    /// Whether memory may be moved against the application's own memory policy.
    pub include_bound: bool,
    /// Whether memory may be brought to other nodes than its home.
    pub named_nodes: bool,
    /// Whether the sizes of the nodes' hugetlb pools may be changed (`hugetlb` `fresh`).
    pub fresh_hugetlb: bool,
    /// Whether kernel.numa_balancing may be switched off for a time.
    pub pause_numa_balancing: bool,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            profile: Profile::Balanced,
            rate_bytes_per_second: None,
            workers: 1,
            min_interval: Duration::from_secs(60),
            include_shared: false,
            include_bound: false,
            named_nodes: false,
            fresh_hugetlb: false,
            pause_numa_balancing: false,
        }
    }
}

//! Ceilings: the most that an operator may ask for. They bound what others on the host would feel, even if an operator moves only
//! memory that it may have moved.

use crate::refusal::Refusal;
use numaloc_api::value::{Limits, MigrationSpec, QosClass};
use numaloc_core::{NumaBalancing, Pacing, Profile};

/// The ceilings of a grant. The default ones keep a job from harming other tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// The fastest profile. The longest stall and the batch size that a request names may not exceed those of this profile.
    pub profile: Profile,
    /// The best class for jobs and for workloads.
    pub qos_class: QosClass,
    /// Whether pages that processes outside of the target map may be moved (MPOL_MF_MOVE_ALL).
    pub include_shared: bool,
    /// Whether memory may be brought to other nodes than its home.
    pub named_nodes: bool,
    /// Most bytes per second of a job, also of a job that names no rate; `None`: only the profile limits the rate.
    pub rate_bytes_per_second: Option<u64>,
    /// Most threads of a job.
    pub workers: usize,
    /// Whether kernel.numa_balancing may be switched off for a time.
    pub pause_numa_balancing: bool,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            profile: Profile::Balanced,
            qos_class: QosClass::Ls,
            include_shared: false,
            named_nodes: false,
            rate_bytes_per_second: None,
            workers: 1,
            pause_numa_balancing: false,
        }
    }
}

impl Ceilings {
    /// The ceilings of admins.
    pub const NONE: Self = Self {
        profile: Profile::Fast,
        qos_class: QosClass::Lsr,
        include_shared: true,
        named_nodes: true,
        rate_bytes_per_second: None,
        workers: usize::MAX,
        pause_numa_balancing: true,
    };

    /// Checks a request for a migration against the ceilings.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`], with the first ceiling that the request exceeds.
    pub fn check(&self, spec: &MigrationSpec) -> Result<(), Refusal> {
        let MigrationSpec { policy, limits, .. } = spec;
        let options = &policy.options;
        let over = |what: bool, ceiling, most: String| match what {
            true => Err(Refusal::Ceiling { ceiling, most }),
            false => Ok(()),
        };
        policy.qos_class.map_or(Ok(()), |class| self.check_class(class))?;
        over(self.is_faster(&options.pacing, limits), "profile", self.profile.name().to_owned())?;
        let no = || "no".to_owned();
        over(options.include_shared && !self.include_shared, "include_shared", no())?;
        over(options.to.is_some() && !self.named_nodes, "named_nodes", no())?;
        let pauses = policy.numa_balancing == NumaBalancing::Pause;
        over(pauses && !self.pause_numa_balancing, "pause_numa_balancing", no())?;
        let workers = limits.workers.is_some_and(|workers| workers > self.workers);
        over(workers, "workers", self.workers.to_string())?;
        let most = self.rate_bytes_per_second.unwrap_or(u64::MAX);
        let rate = limits.rate_bytes_per_second.is_some_and(|rate| rate > most);
        over(rate, "rate_bytes_per_second", most.to_string())
    }

    /// Checks the class of a job or workload.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`].
    pub fn check_class(&self, class: QosClass) -> Result<(), Refusal> {
        // Classes are ordered from the best to the worst.
        if class >= self.qos_class {
            return Ok(());
        }
        let most = self.qos_class.name().to_ascii_lowercase();
        Err(Refusal::Ceiling { ceiling: "qos_class", most })
    }

    /// `class`, or the best class within the ceiling if `class` is better than that.
    pub fn bound_class(&self, class: QosClass) -> QosClass {
        class.max(self.qos_class)
    }

    /// The limits for a migration: its own, or those of the configuration where it names none. None of them exceeds the ceilings.
    pub fn bound(&self, spec: &MigrationSpec, default: &Limits) -> Limits {
        let MigrationSpec { policy, limits, .. } = spec;
        let rate = limits.rate_bytes_per_second.or(default.rate_bytes_per_second);
        let own = policy.options.pacing.pace().workers;
        let workers = limits.workers.or(default.workers).or((own > self.workers).then_some(own));
        Limits {
            batch_bytes: limits.batch_bytes.or(default.batch_bytes),
            workers: workers.map(|workers| workers.min(self.workers)),
            timeout: limits.timeout.or(default.timeout),
            rate_bytes_per_second: [rate, self.rate_bytes_per_second].into_iter().flatten().min(),
        }
    }

    /// Whether the request asks for a faster pace than that of the fastest allowed profile.
    fn is_faster(&self, pacing: &Pacing, limits: &Limits) -> bool {
        if self.profile == Profile::Fast {
            return false;
        }
        let most = Pacing { profile: self.profile, ..Pacing::default() }.pace();
        // `node_cpu_percent_max` needs no check: every profile allows all of a node's CPUs, so a request can only lower the
        // bound.
        pacing.profile > self.profile
            || pacing.max_stall.is_some_and(|stall| stall > most.max_stall)
            || limits.batch_bytes.is_some_and(|bytes| bytes > most.batch_bytes)
    }
}

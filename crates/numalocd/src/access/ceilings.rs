//! What an operator may ask for at most, whatever it may have moved: what others on the host would feel.

use crate::dispatch::Refusal;
use numaloc_api::value::{Limits, MigrationSpec, QosClass};
use numaloc_core::{NumaBalancing, Pacing, Profile};

/// The ceilings of a grant. By default they are such that no other tenant is harmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// The fastest profile. Its stall and batch bound those that are asked for, too.
    pub profile: Profile,
    /// The best class, of jobs and of workloads.
    pub qos_class: QosClass,
    /// Whether pages that processes outside of the target map may be moved (MPOL_MF_MOVE_ALL).
    pub include_shared: bool,
    /// Whether memory may be brought to other nodes than its home.
    pub named_nodes: bool,
    /// Most bytes per second of a job, also of one that asks for no rate; `None`: as many as its profile makes.
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
    /// Those of admins.
    pub const NONE: Self = Self {
        profile: Profile::Fast,
        qos_class: QosClass::Lsr,
        include_shared: true,
        named_nodes: true,
        rate_bytes_per_second: None,
        workers: usize::MAX,
        pause_numa_balancing: true,
    };

    /// Checks what is asked of a migration.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`], with the first that it exceeds.
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
        // The best one comes first.
        if class >= self.qos_class {
            return Ok(());
        }
        let most = self.qos_class.name().to_ascii_lowercase();
        Err(Refusal::Ceiling { ceiling: "qos_class", most })
    }

    /// `class`, or the best one that may be asked for.
    pub fn bound_class(&self, class: QosClass) -> QosClass {
        class.max(self.qos_class)
    }

    /// The limits of a migration, those of the configuration where it has none, and neither beyond the ceilings.
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

    /// Whether a pace is asked for that the fastest profile does not have.
    fn is_faster(&self, pacing: &Pacing, limits: &Limits) -> bool {
        if self.profile == Profile::Fast {
            return false;
        }
        let most = Pacing { profile: self.profile, ..Pacing::default() }.pace();
        // A bound for a node's CPUs can only be below that of a profile, which is all of them.
        pacing.profile > self.profile
            || pacing.max_stall.is_some_and(|stall| stall > most.max_stall)
            || limits.batch_bytes.is_some_and(|bytes| bytes > most.batch_bytes)
    }
}

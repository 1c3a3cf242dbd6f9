//! Ceilings: the most that an operator may ask for. They bound what others on the host would feel, even if an operator
//! moves only memory that it may have moved.

use crate::{config::Ceilings, refusal::Refusal};
use numaloc_api::{
    Excess,
    value::{Limits, MigrationSpec, QosClass},
};

impl Ceilings {
    /// Checks a request for a migration against the ceilings.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`], with the first ceiling that the request exceeds.
    pub fn check(&self, spec: &MigrationSpec) -> Result<(), Refusal> {
        let MigrationSpec { policy, limits, target } = spec;
        let excesses = self.shared().excesses(policy, limits, !target.files.is_empty());
        excesses.first().map_or(Ok(()), |&excess| Err(self.exceeded(excess)))
    }

    /// In the form that policies of pods are checked against, too.
    fn shared(&self) -> numaloc_api::Ceilings {
        let Self {
            profile,
            qos_class,
            include_shared,
            include_network,
            include_bound,
            include_gigantic,
            named_nodes,
            fresh_hugetlb,
            reserve_bytes,
            rate_bytes_per_second,
            workers,
            pause_numa_balancing,
            offload,
        } = *self;
        numaloc_api::Ceilings {
            profile,
            qos_class,
            include_shared,
            include_network,
            include_bound,
            include_gigantic,
            named_nodes,
            fresh_hugetlb,
            reserve_bytes,
            rate_bytes_per_second,
            workers,
            pause_numa_balancing,
            offload,
            // Room is made from memory that the client may have moved.
            move_cache: true,
            exchange: true,
            // Jobs that take long leave their places to others after a while (`dispatch/queue.rs`, `SLICE`).
            timeout: None,
        }
    }

    fn exceeded(&self, excess: Excess) -> Refusal {
        let most = match excess {
            Excess::QosClass => self.qos_class.name().to_ascii_lowercase(),
            Excess::Profile | Excess::MaxStall | Excess::BatchBytes | Excess::Compact => {
                self.profile.name().to_owned()
            }
            Excess::Workers => self.workers.to_string(),
            Excess::Rate => self.rate_bytes_per_second.unwrap_or(u64::MAX).to_string(),
            Excess::NodesTo
            | Excess::NodesFrom
            | Excess::Cache
            | Excess::IncludeShared
            | Excess::IncludeNetwork
            | Excess::IncludeBound
            | Excess::IncludeGigantic
            | Excess::ReserveBytes
            | Excess::FreshHugetlb
            | Excess::PauseNumaBalancing
            | Excess::Offload
            // Without bounds here.
            | Excess::MoveCache
            | Excess::Exchange
            | Excess::Timeout => "no".to_owned(),
        };
        Refusal::Ceiling { ceiling: excess.ceiling(), most }
    }

    /// Checks the class of a job or workload.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`].
    pub fn check_class(&self, class: QosClass) -> Result<(), Refusal> {
        // Classes are ordered from the best to the worst.
        if class >= self.qos_class { Ok(()) } else { Err(self.exceeded(Excess::QosClass)) }
    }

    /// `class`, or the best class within the ceiling if `class` is better than that.
    pub fn bound_class(&self, class: QosClass) -> QosClass {
        class.max(self.qos_class)
    }

    /// The limits for a migration: its own, else those of the configuration. None of them exceeds the ceilings.
    pub fn bound(&self, spec: &MigrationSpec, default: &Limits) -> Limits {
        let MigrationSpec { policy, limits, .. } = spec;
        let rate = limits.rate_bytes_per_second.or(default.rate_bytes_per_second);
        let asked = limits.workers.or(default.workers).map(|workers| workers.min(self.workers));
        let workers = asked.or(policy.options.pacing.pace().workers_within(self.workers));
        Limits {
            batch_bytes: limits.batch_bytes.or(default.batch_bytes),
            workers,
            timeout: limits.timeout.or(default.timeout),
            rate_bytes_per_second: [rate, self.rate_bytes_per_second].into_iter().flatten().min(),
            hourly_budget_bytes: limits.hourly_budget_bytes,
        }
    }
}

//! Ceilings: the most that an operator may ask for. They bound what others on the host would feel, even if an operator moves only
//! memory that it may have moved.

use crate::{config::Ceilings, refusal::Refusal};
use numaloc_api::value::{Limits, MigrationSpec, QosClass};
use numaloc_core::{Compact, HugetlbSource, NumaBalancing, Offload, Options, Pacing, Profile};

impl Ceilings {
    /// Checks a request for a migration against the ceilings.
    ///
    /// # Errors
    /// [`Refusal::Ceiling`], with the first ceiling that the request exceeds.
    pub fn check(&self, spec: &MigrationSpec) -> Result<(), Refusal> {
        let MigrationSpec { policy, limits, target, .. } = spec;
        // Each option is named: a new one does not compile before a ceiling has answered it, or it harms nobody.
        let Options {
            include_shared,
            include_network,
            include_bound,
            include_gigantic,
            from,
            hugetlb,
            pacing,
            compact,
            reserve_bytes,
            // Where memory goes ([`Options::named_nodes`]).
            to: _,
            placement: _,
            maps: _,
            // Less is moved.
            exclude_file: _,
            target_ratio: _,
            pool_reserve_percent: _,
            // Its own memory in another order, or to nodes that are home by another rule.
            home: _,
            near_distance: _,
            order: _,
            // Room is made of what the client may have moved.
            make_room: _,
        } = &policy.options;
        let over = |what: bool, ceiling, most: String| match what {
            true => Err(Refusal::Ceiling { ceiling, most }),
            false => Ok(()),
        };
        policy.qos_class.map_or(Ok(()), |class| self.check_class(class))?;
        // To compact a node costs others there more than the fastest allowed profile does by itself.
        let compacts = *compact == Compact::Always && !Compact::Auto.applies(self.profile);
        let is_faster = compacts || self.is_faster(pacing, limits);
        over(is_faster, "profile", self.profile.name().to_owned())?;
        let no = || "no".to_owned();
        over(*include_shared && !self.include_shared, "include_shared", no())?;
        over(*include_network && !self.include_network, "include_network", no())?;
        over(*include_bound && !self.include_bound, "include_bound", no())?;
        over(*include_gigantic && !self.include_gigantic, "include_gigantic", no())?;
        // Page cache has no home: it goes where the request says.
        let names =
            policy.options.named_nodes().is_some() || from.is_some() || !target.files.is_empty();
        over(names && !self.named_nodes, "named_nodes", no())?;
        let is_fresh = *hugetlb == HugetlbSource::Fresh;
        over(is_fresh && !self.fresh_hugetlb, "fresh_hugetlb", no())?;
        over(reserve_bytes.is_some() && !self.reserve_bytes, "reserve_bytes", no())?;
        let pauses = policy.numa_balancing == NumaBalancing::Pause;
        over(pauses && !self.pause_numa_balancing, "pause_numa_balancing", no())?;
        // AUTO goes without it where it is not allowed.
        let requires = policy.offload == Offload::Require;
        over(requires && !self.offload, "offload", no())?;
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
        let asked = limits.workers.or(default.workers).map(|workers| workers.min(self.workers));
        let workers = asked.or(policy.options.pacing.pace().workers_within(self.workers));
        Limits {
            batch_bytes: limits.batch_bytes.or(default.batch_bytes),
            workers,
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

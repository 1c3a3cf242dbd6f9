//! Requests of a migration that could harm others on the host, against the ceilings that an operator sets. Both the
//! refusing side (the daemon, by its grants) and the reducing side (policies of pods) ask the one function that is
//! here, which takes every field of a request apart: a field that is new does not compile before it has an answer.

#[cfg(test)]
mod tests;

use crate::value::{Limits, Policy, QosClass};
use numaloc_core::{
    Compact, HugetlbSource, MakeRoom, NumaBalancing, Offload, Options, Pacing, Profile,
};
use std::time::Duration;

/// The most that requests may ask for. Configurations have their own forms of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// The best class that may be asked for.
    pub qos_class: QosClass,
    /// The fastest profile. The longest stall and the batch size may not exceed those of this profile.
    pub profile: Profile,
    /// Whether pages that processes outside of the target map may be moved.
    pub include_shared: bool,
    /// Whether pages of files on network file systems and FUSE may be moved.
    pub include_network: bool,
    /// Whether memory may be moved against the application's own memory policy.
    pub include_bound: bool,
    /// Whether hugetlb pages may be moved that take longer than one call may take.
    pub include_gigantic: bool,
    /// Whether nodes may be named, and page cache of files placed.
    pub named_nodes: bool,
    /// Whether the request may say how much stays free on a target.
    pub reserve_bytes: bool,
    /// Whether the sizes of the nodes' hugetlb pools may be changed.
    pub fresh_hugetlb: bool,
    /// Whether page cache may go to other nodes for room.
    pub move_cache: bool,
    /// Whether memory of best-effort work may go to other nodes for room.
    pub exchange: bool,
    /// Whether kernel.numa_balancing may be switched off for a time.
    pub pause_numa_balancing: bool,
    /// Whether offload may be required, which changes settings of the host.
    pub offload: bool,
    /// Largest number of worker threads.
    pub workers: usize,
    /// Most bytes per second; `None`: only the profile limits the rate.
    pub rate_bytes_per_second: Option<u64>,
    /// The longest time that a run moves; `None`: any.
    pub timeout: Option<Duration>,
}

/// A request for more than a ceiling allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excess {
    /// It names the nodes that memory goes to.
    NodesTo,
    /// It names the nodes that memory comes from.
    NodesFrom,
    /// It places page cache, which has no home and goes where the request says.
    Cache,
    /// Pages that processes outside of the target map are moved.
    IncludeShared,
    /// Pages of files on network file systems and FUSE are moved.
    IncludeNetwork,
    /// Memory is moved against the application's own policy.
    IncludeBound,
    /// Hugetlb pages are moved that take longer than one call may take.
    IncludeGigantic,
    /// It says how much stays free on a target.
    ReserveBytes,
    /// A node is compacted although the fastest allowed profile does not do that: others there pay more for it than for the profile.
    Compact,
    /// Pools of hugetlb pages change their size.
    FreshHugetlb,
    /// Page cache goes to other nodes for room.
    MoveCache,
    /// Memory of best-effort work goes to other nodes for room.
    Exchange,
    /// kernel.numa_balancing is switched off for a time.
    PauseNumaBalancing,
    /// A DMA engine is required.
    Offload,
    /// The class is better than the best allowed one.
    QosClass,
    /// The profile is faster than the fastest allowed one.
    Profile,
    /// A longer call than that of the fastest allowed profile.
    MaxStall,
    /// More bytes in a call than with the fastest allowed profile.
    BatchBytes,
    /// The number of worker threads is larger than allowed.
    Workers,
    /// The rate in bytes per second is higher than allowed, or unlimited.
    Rate,
    /// The timeout is longer than allowed, or not set.
    Timeout,
}

impl Excess {
    /// The key of the ceiling in configurations.
    pub fn ceiling(self) -> &'static str {
        match self {
            Self::QosClass => "qos_class",
            Self::NodesTo | Self::NodesFrom | Self::Cache => "named_nodes",
            Self::IncludeShared => "include_shared",
            Self::IncludeNetwork => "include_network",
            Self::IncludeBound => "include_bound",
            Self::IncludeGigantic => "include_gigantic",
            Self::ReserveBytes => "reserve_bytes",
            Self::FreshHugetlb => "fresh_hugetlb",
            Self::MoveCache => "move_cache",
            Self::Exchange => "exchange",
            Self::PauseNumaBalancing => "pause_numa_balancing",
            Self::Offload => "offload",
            Self::Compact | Self::Profile | Self::MaxStall | Self::BatchBytes => "profile",
            Self::Workers => "workers",
            Self::Rate => "rate_bytes_per_second",
            Self::Timeout => "timeout",
        }
    }
}

impl Ceilings {
    /// The ceilings that a request exceeds, in the order of [`Excess`]. `files`: whether its target is page cache of
    /// files.
    pub fn excesses(&self, policy: &Policy, limits: &Limits, files: bool) -> Vec<Excess> {
        let Policy {
            options,
            qos_class,
            numa_balancing,
            offload,
            // Affects the request's own run only.
            on_interrupt: _,
            // Affects reports of its own schedule only.
            emit: _,
            // It divides the owner's own share.
            tenant: _,
        } = policy;
        let over = [
            // Classes are ordered from the best to the worst.
            (Excess::QosClass, qos_class.is_some_and(|class| class < self.qos_class)),
            (Excess::Cache, files && !self.named_nodes),
            (
                Excess::PauseNumaBalancing,
                *numa_balancing == NumaBalancing::Pause && !self.pause_numa_balancing,
            ),
            // AUTO goes without it where it is not allowed.
            (Excess::Offload, *offload == Offload::Require && !self.offload),
        ];
        let of_limits = self.over_limits(&options.pacing, limits);
        let over = over.into_iter().chain(self.over_options(options)).chain(of_limits);
        let mut excesses: Vec<_> =
            over.filter(|(_, is_over)| *is_over).map(|(excess, _)| excess).collect();
        excesses.sort_unstable();
        excesses
    }

    fn over_options(&self, options: &Options) -> [(Excess, bool); 11] {
        let Options {
            include_shared,
            include_network,
            include_bound,
            include_gigantic,
            from,
            hugetlb,
            make_room,
            compact,
            reserve_bytes,
            // See [`Self::over_limits`].
            pacing: _,
            // Where memory goes ([`Options::named_nodes`]).
            to: _,
            placement: _,
            maps: _,
            // Less is moved.
            exclude_file: _,
            target_ratio: _,
            pool_reserve_percent: _,
            node_bandwidth_max_bytes_per_second: _,
            saturated: _,
            // Its own memory in another order, or to nodes that are home by another rule.
            home: _,
            near_distance: _,
            order: _,
            relief,
        } = options;
        // A placement by use brings memory to slow nodes, named or not, and takes the one DAMON of the host.
        let by_use = options.placement.by_use().is_some();
        let names_nodes = by_use || relief.is_some() || options.named_nodes().is_some();
        let compacts = *compact == Compact::Always && !Compact::Auto.applies(self.profile);
        [
            (Excess::NodesTo, names_nodes && !self.named_nodes),
            (Excess::NodesFrom, from.is_some() && !self.named_nodes),
            (Excess::IncludeShared, *include_shared && !self.include_shared),
            (Excess::IncludeNetwork, *include_network && !self.include_network),
            (Excess::IncludeBound, *include_bound && !self.include_bound),
            (Excess::IncludeGigantic, *include_gigantic && !self.include_gigantic),
            (Excess::ReserveBytes, reserve_bytes.is_some() && !self.reserve_bytes),
            (Excess::Compact, compacts),
            (Excess::FreshHugetlb, *hugetlb == HugetlbSource::Fresh && !self.fresh_hugetlb),
            (Excess::MoveCache, *make_room == MakeRoom::MoveCache && !self.move_cache),
            (Excess::Exchange, *make_room == MakeRoom::Exchange && !self.exchange),
        ]
    }

    fn over_limits(&self, pacing: &Pacing, limits: &Limits) -> [(Excess, bool); 6] {
        let Pacing {
            profile,
            max_stall,
            workers,
            // Every profile allows all of a node's CPUs: a request can only lower the bound.
            node_cpu_percent_max: _,
        } = pacing;
        let Limits {
            batch_bytes,
            workers: threads,
            timeout,
            rate_bytes_per_second,
            // It only lowers what a request does.
            hourly_budget_bytes: _,
        } = limits;
        let most = self.pace();
        // The fastest profile bounds neither: a request may ask for more than it has by itself.
        let is_bounded = self.profile < Profile::Fast;
        let is_over = |asked: &Option<usize>| asked.is_some_and(|asked| asked > self.workers);
        let most_rate = self.rate_bytes_per_second.unwrap_or(u64::MAX);
        let most_time = self.timeout.unwrap_or(Duration::MAX);
        [
            (Excess::Profile, *profile > self.profile),
            (Excess::MaxStall, is_bounded && max_stall.is_some_and(|it| it > most.max_stall)),
            (Excess::BatchBytes, is_bounded && batch_bytes.is_some_and(|it| it > most.batch_bytes)),
            (Excess::Workers, is_over(workers) || is_over(threads)),
            (Excess::Rate, rate_bytes_per_second.is_some_and(|rate| rate > most_rate)),
            (Excess::Timeout, timeout.is_some_and(|time| time > most_time)),
        ]
    }

    /// The pace of the fastest allowed profile.
    pub fn pace(&self) -> numaloc_core::Pace {
        Pacing { profile: self.profile, ..Pacing::default() }.pace()
    }
}

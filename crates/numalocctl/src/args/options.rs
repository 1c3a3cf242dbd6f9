//! The memory to move, and its destination.

use super::{
    nodes::{Nodes, parse_sources, parse_targets},
    pace::{PaceArgs, by_name},
    place::PlaceArgs,
};
use crate::{
    exit::Failure,
    units::{parse_percent, parse_rate, parse_size},
};
use clap::Args;
use numaloc_api::value::Policy;
use numaloc_core::{
    Compact, HomeRule, HugetlbSource, MakeRoom, NEAR_BOUNDS, NodeSet, Options, Order, Placement,
    Relief,
};
use numaloc_host::Device;

/// Options of a plan. An option that is not given has its default; in a change it leaves the value as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "What to move")]
pub struct OptionArgs {
    /// Also move pages that processes outside the target map (needs CAP_SYS_NICE).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub include_shared: Option<bool>,
    /// Leave pages of files where they are.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub exclude_file: Option<bool>,
    /// Also move pages of files on network file systems and FUSE: a call may wait indefinitely for their server.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub include_network: Option<bool>,
    /// Move pages even against the application's own memory policy.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub include_bound: Option<bool>,
    /// Also move hugetlb pages that are so large that one alone takes longer than one call may.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub include_gigantic: Option<bool>,
    /// Where hugetlb pages on the target come from: its pool, or fresh from free memory if the pool has none, which changes
    /// the sizes of the nodes' pools permanently [default: pool]
    #[arg(long, value_name = "SOURCE", value_parser = by_name(HugetlbSource::ALL, HugetlbSource::name))]
    pub hugetlb: Option<HugetlbSource>,
    /// How to make room on a full target node: nothing, drop page cache that was not used recently, or,
    /// after that, exchange with memory of best-effort work. move-cache drops nothing: page cache of files in use goes to another
    /// node that has room, if you are root or own the files [default: cache]
    #[arg(long, value_name = "WAY", value_parser = by_name(MakeRoom::ALL, MakeRoom::name))]
    pub make_room: Option<MakeRoom>,
    /// When to compact the memory of a target node that has no free blocks for huge pages: unless the profile is gentle, never,
    /// or with each profile [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = by_name(Compact::ALL, Compact::name))]
    pub compact: Option<Compact>,
    /// Stop when this percentage of the movable memory is local [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_hyphen_values = true)]
    pub target_ratio: Option<u8>,
    /// Bring pages to these nodes instead of the CPUs' nodes: 0-1,8, all, !0 for all but 0, or the nodes of a device of this host:
    /// device:0000:17:00.0 (PCI), device:/dev/nvidia0, iface:eth0, block:nvme0n1, or path:/mnt/data for the disk of a path
    /// [default: local]
    #[arg(long, value_name = "NODES", value_parser = parse_targets, allow_hyphen_values = true)]
    pub to: Option<Nodes>,
    /// What decides the home of a process: the CPUs of all threads (cpus), or of the busy ones: busy ignores threads that together
    /// used at most 5% of the CPU time, first the threads that widen the home most; or the GPUs, VFIO and InfiniBand devices that
    /// it has open (devices), and its CPUs if it has none; or the CPUs, with nodes near theirs (near) [default: cpus]
    #[arg(long, value_name = "RULE", value_parser = by_name(HomeRule::ALL, HomeRule::name))]
    pub home: Option<HomeRule>,
    /// The distance from home up to which other nodes are near to it, as `numactl -H` shows distances: memory there is remote and counted
    /// apart, and with --home near it is local [default: 12]
    #[arg(long, value_name = "DISTANCE", value_parser = clap::value_parser!(u64).range(*NEAR_BOUNDS.start()..=*NEAR_BOUNDS.end()))]
    pub near_distance: Option<u64>,
    /// Move only pages on these nodes, written as for --to [default: all but memory-only nodes of another tier]
    #[arg(long, value_name = "NODES", value_parser = parse_sources, allow_hyphen_values = true)]
    pub from: Option<Nodes>,
    /// Keep this much free on each target above its high watermark, such as 1G [default: 1% of the node, at least 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub reserve: Option<u64>,
    /// Keep this share of each target's pool of huge pages free and unreserved, such as 10%, for processes that map them without a
    /// reservation; without effect with --hugetlb fresh [default: 0%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_hyphen_values = true)]
    pub pool_reserve: Option<u8>,
    /// Leave memory where it is whose target nodes are all used more than this, in bytes a second of their memory, such as 80G/s; it is measured
    /// for a second before, where resctrl counts memory bandwidth [default: no bound]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, allow_hyphen_values = true)]
    pub node_bandwidth_max: Option<u64>,
    /// What to move first: probed is the most used memory, if the kernel knows it at no cost, else by address [default:
    /// probed]
    #[arg(long, value_name = "ORDER", value_parser = by_name(Order::ALL, Order::name))]
    pub order: Option<Order>,
    /// Only as much as relieves a node. Commands set it.
    #[arg(skip)]
    pub relief: Option<Relief>,
    #[command(flatten)]
    pub place: PlaceArgs,
    #[command(flatten)]
    pub pace: PaceArgs,
}

impl OptionArgs {
    /// Whether no option is given.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
    /// Whether the options can only be read when the machine's nodes are known.
    pub fn needs_topology(&self) -> bool {
        let needs = |nodes: &Nodes| matches!(nodes, Nodes::All | Nodes::Except(_));
        self.to.iter().chain(&self.from).chain(&self.place.nodes).any(needs)
    }

    /// The first device of this host by which nodes are named.
    pub fn device(&self) -> Option<&Device> {
        let mut nodes = self.to.iter().chain(&self.from).chain(&self.place.nodes);
        nodes.find_map(|nodes| match nodes {
            Nodes::Of(device) => Some(device),
            _ => None,
        })
    }

    /// `policy` changed by the options that are given, for the daemon.
    ///
    /// # Errors
    /// No node is left to move to.
    pub fn change(&self, policy: Policy, with_memory: &NodeSet) -> Result<Policy, Failure> {
        Ok(Policy {
            options: self.change_options(policy.options, with_memory)?,
            numa_balancing: self.pace.numa_balancing.unwrap_or(policy.numa_balancing),
            offload: self.pace.offload.unwrap_or(policy.offload),
            ..policy
        })
    }

    fn change_options(&self, options: Options, with_memory: &NodeSet) -> Result<Options, Failure> {
        let given = |nodes: &Option<Nodes>, name, before| match nodes {
            None => Ok(before),
            Some(nodes) => nodes.among(with_memory, name),
        };
        let (to, from) =
            (given(&self.to, "--to", options.to)?, given(&self.from, "--from", options.from)?);
        let placement = self.place.change(options.placement, with_memory)?;
        // Options exclude each other: the one that is given replaces the others.
        let rules = self.place.rules()?;
        let is_mapped = !rules.is_empty();
        let to = if self.place.is_wide() || is_mapped { None } else { to };
        let placement = if self.to.is_some() || is_mapped { Placement::Home } else { placement };
        let maps =
            match self.to.is_some() || self.place.place.is_some() || self.place.tiers.is_some() {
                _ if is_mapped => rules.to_vec(),
                true => Vec::new(),
                false => options.maps,
            };
        Ok(Options {
            include_shared: self.include_shared.unwrap_or(options.include_shared),
            exclude_file: self.exclude_file.unwrap_or(options.exclude_file),
            include_network: self.include_network.unwrap_or(options.include_network),
            include_bound: self.include_bound.unwrap_or(options.include_bound),
            include_gigantic: self.include_gigantic.unwrap_or(options.include_gigantic),
            hugetlb: self.hugetlb.unwrap_or(options.hugetlb),
            make_room: self.make_room.unwrap_or(options.make_room),
            compact: self.compact.unwrap_or(options.compact),
            target_ratio: self.target_ratio.unwrap_or(options.target_ratio),
            to,
            placement,
            maps,
            from,
            home: self.home.unwrap_or(options.home),
            near_distance: self.near_distance.unwrap_or(options.near_distance),
            reserve_bytes: self.reserve.or(options.reserve_bytes),
            pool_reserve_percent: self.pool_reserve.unwrap_or(options.pool_reserve_percent),
            node_bandwidth_max_bytes_per_second: self
                .node_bandwidth_max
                .or(options.node_bandwidth_max_bytes_per_second),
            saturated: options.saturated,
            order: self.order.unwrap_or(options.order),
            pacing: self.pace.change(options.pacing),
            relief: self.relief.clone().or(options.relief),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn to(text: &str) -> Option<String> {
        let args = OptionArgs { to: Some(parse_targets(text).ok()?), ..OptionArgs::default() };
        let nodes = fixture::topology().with_memory();
        let options = args.change(Policy::default(), &nodes).ok()?.options;
        options.to.map(|nodes| nodes.to_string())
    }

    #[test]
    fn nodes_are_read_as_numactl_does() {
        assert_eq!(to("0,2").as_deref(), Some("0,2"));
        assert_eq!(to("all").as_deref(), Some("0,2,8"));
        assert_eq!(to("!0").as_deref(), Some("2,8"));
        for text in ["", "x", "!", "-1", "!0-8", "0-", "!all"] {
            assert_eq!(to(text), None, "{text:?} was taken");
        }
        assert_eq!(parse_targets("local"), Ok(Nodes::Default));
        assert_eq!(parse_sources("default"), Ok(Nodes::Default));
        let from = OptionArgs { from: parse_sources("!0").ok(), ..OptionArgs::default() };
        assert!(from.needs_topology());
        let nodes = fixture::topology().with_memory();
        let options = from.change(Policy::default(), &nodes).unwrap().options;
        assert_eq!((options.from, options.to), (Some("2,8".parse().unwrap()), None));
    }
}

//! The options of a migration: a new one has its lines here, for JSON and for people.

use super::parts::ids;
use crate::units::{list, size};
use numaloc_core::Options;
use serde::Serialize;
use std::time::Duration;

/// The options that apply.
#[derive(Clone, Debug, Serialize)]
pub struct OptionsDoc {
    /// Whether pages that processes outside the target map are moved.
    pub include_shared: bool,
    /// Whether pages of files stay.
    pub exclude_file: bool,
    /// Whether pages move against the application's own policy.
    pub include_bound: bool,
    /// Whether pages move that alone take longer than one call may.
    pub include_gigantic: bool,
    /// Where hugetlb pages on the target come from: `pool` or `fresh`.
    pub hugetlb: &'static str,
    /// `none`, `cache` or `exchange`: what may be done to make room on a target.
    pub make_room: &'static str,
    /// `auto`, `never` or `always`: when a target's memory is compacted for huge pages.
    pub compact: &'static str,
    /// The local share at which the move stops.
    pub target_ratio_percent: u8,
    /// The nodes that were named as targets; null: the home of each process.
    pub to_nodes: Option<Vec<u32>>,
    /// `cpus` or `busy`: whose CPUs make the home of a process.
    pub home: &'static str,
    /// Nodes that pages may leave; null: all but memory-only ones of another tier.
    pub from_nodes: Option<Vec<u32>>,
    /// Bytes to stay free on a target; null: 1% of the node, at least 64 MiB.
    pub reserve_bytes: Option<u64>,
    /// What is moved first: `probed`, `address`, `damon` or `referenced`.
    pub order: &'static str,
    /// `gentle`, `balanced` or `fast`.
    pub profile: &'static str,
    /// The longest that a call may take; null: as the profile says.
    pub max_stall_seconds: Option<f64>,
    /// How busy others may keep the CPUs of a target node; null: as the profile says.
    pub node_cpu_percent_max: Option<u8>,
}

impl From<&Options> for OptionsDoc {
    fn from(options: &Options) -> Self {
        Self {
            include_shared: options.include_shared,
            exclude_file: options.exclude_file,
            include_bound: options.include_bound,
            include_gigantic: options.include_gigantic,
            hugetlb: options.hugetlb.name(),
            make_room: options.make_room.name(),
            compact: options.compact.name(),
            target_ratio_percent: options.target_ratio,
            to_nodes: options.to.as_ref().map(ids),
            home: options.home.name(),
            from_nodes: options.from.as_ref().map(ids),
            reserve_bytes: options.reserve_bytes,
            order: options.order.name(),
            profile: options.pacing.profile.name(),
            max_stall_seconds: options.pacing.max_stall.map(|stall| stall.as_secs_f64()),
            node_cpu_percent_max: options.pacing.node_cpu_percent_max,
        }
    }
}

impl OptionsDoc {
    /// Those that are not at their defaults, as text for people. The target nodes are not among them.
    pub fn asked(&self) -> Vec<String> {
        let set = [
            (self.include_shared, "include shared"),
            (self.exclude_file, "exclude file"),
            (self.include_bound, "include bound"),
            (self.include_gigantic, "include gigantic"),
        ];
        let set = set.into_iter().filter(|(set, _)| *set).map(|(_, name)| Some(name.to_owned()));
        let ratio = self.target_ratio_percent;
        let valued = [
            (self.home != "cpus").then(|| format!("home {}", self.home)),
            (ratio < 100).then(|| format!("target ratio {ratio} %")),
            self.from_nodes
                .as_ref()
                .map(|nodes| format!("from nodes {}", list(nodes.iter().copied()))),
            self.reserve_bytes.map(|bytes| format!("reserve {}", size(bytes))),
            (self.make_room != "cache").then(|| format!("make room {}", self.make_room)),
            (self.compact != "auto").then(|| format!("compact {}", self.compact)),
            (self.hugetlb != "pool").then(|| format!("hugetlb {}", self.hugetlb)),
            (self.order != "probed").then(|| format!("order {}", self.order)),
            (self.profile != "balanced").then(|| format!("profile {}", self.profile)),
            self.max_stall_seconds
                .map(|stall| format!("calls of at most {:?}", Duration::from_secs_f64(stall))),
            self.node_cpu_percent_max.map(|percent| format!("node CPUs at most {percent} % busy")),
        ];
        set.chain(valued).flatten().collect()
    }
}

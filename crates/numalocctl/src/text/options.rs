//! The options of a migration as text for people.

use super::table::list;
use crate::{doc::OptionsDoc, units::size};
use std::time::Duration;

/// The options that are not at their defaults.
pub fn asked(options: &OptionsDoc) -> Vec<String> {
    let set = [
        (options.include_shared, "include shared"),
        (options.exclude_file, "exclude file"),
        (options.include_bound, "include bound"),
        (options.include_gigantic, "include gigantic"),
    ];
    let set = set.into_iter().filter(|(set, _)| *set).map(|(_, name)| Some(name.to_owned()));
    let ratio = options.target_ratio_percent;
    let valued = [
        (options.home != "cpus").then(|| format!("home {}", options.home)),
        (ratio < 100).then(|| format!("target ratio {ratio} %")),
        options
            .from_nodes
            .as_ref()
            .map(|nodes| format!("from nodes {}", list(nodes.iter().copied()))),
        options.reserve_bytes.map(|bytes| format!("reserve {}", size(bytes))),
        (options.make_room != "cache").then(|| format!("make room {}", options.make_room)),
        (options.compact != "auto").then(|| format!("compact {}", options.compact)),
        (options.hugetlb != "pool").then(|| format!("hugetlb {}", options.hugetlb)),
        (options.order != "probed").then(|| format!("order {}", options.order)),
        (options.profile != "balanced").then(|| format!("profile {}", options.profile)),
        options
            .max_stall_seconds
            .map(|stall| format!("calls of at most {:?}", Duration::from_secs_f64(stall))),
        options.node_cpu_percent_max.map(|percent| format!("node CPUs at most {percent} % busy")),
    ];
    set.chain(valued).flatten().collect()
}

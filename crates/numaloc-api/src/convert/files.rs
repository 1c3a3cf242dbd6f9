//! Fields that a request may set beside files, whose page cache is meant instead of the memory of processes.

use super::{locality::node_bytes, names::int};
use crate::{
    Problem, Violations, v1,
    value::{CachedFile, CachedFiles, MigrationSpec, Policy, Target},
};
use numaloc_core::{NodeId, Options, Placement};
use std::collections::BTreeMap;

/// Most files of an answer, and most that were left out.
const FILES_MAX: usize = 10_000;
const LEFT_OUT_MAX: usize = 1_000;

impl From<&CachedFiles> for v1::CachedFiles {
    fn from(CachedFiles { files, count, left_out }: &CachedFiles) -> Self {
        let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (&node, bytes) in files.iter().flat_map(|file| &file.nodes) {
            *nodes.entry(node).or_default() += bytes;
        }
        let left_out_file = |(path, reason): &(String, String)| v1::LeftOutFile {
            path: path.clone(),
            reason: reason.clone(),
        };
        Self {
            files: files.iter().take(FILES_MAX).map(Into::into).collect(),
            file_count: int(*count),
            cached_count: int(files.len() as u64),
            nodes: node_bytes(&nodes),
            left_out: left_out.iter().take(LEFT_OUT_MAX).map(left_out_file).collect(),
        }
    }
}

impl From<&CachedFile> for v1::CachedFile {
    fn from(file: &CachedFile) -> Self {
        Self {
            path: file.path.clone(),
            length_bytes: int(file.bytes),
            nodes: node_bytes(&file.nodes),
            mapped_bytes: file.mapped_bytes.map(int),
            move_bytes: file.move_bytes.map(int),
            mount_policy: file.mount_policy.clone().unwrap_or_default(),
        }
    }
}

/// Refuses files where only processes are looked at.
pub fn none(field: &str, target: &Target, bad: &mut Violations) {
    if !target.files.is_empty() {
        bad.push(format!("{field}.files"), Problem::NotEmpty);
    }
}

impl MigrationSpec {
    /// Refuses what has no meaning for files, if the target names some. A file has no home, so the policy has to say where its cache
    /// belongs.
    pub(crate) fn check_files(&self, field: &str, bad: &mut Violations) {
        let Self { target, policy, limits } = self;
        if target.files.is_empty() || !bad.are_of_request() {
            return;
        }
        let files = || Problem::Excludes { other: "target.files" };
        if *target != (Target { files: target.files.clone(), ..Target::default() }) {
            bad.push(format!("{field}.target"), Problem::Malformed { expected: "files alone" });
        }
        let Policy { options, numa_balancing, offload, .. } = policy;
        let plain = Options::default();
        let given = [
            ("balance", matches!(options.placement, Placement::Balance(_))),
            ("tiers", options.placement.by_use().is_some()),
            ("include_shared", options.include_shared),
            ("exclude_file", options.exclude_file),
            ("include_network", options.include_network),
            ("include_bound", options.include_bound),
            ("include_gigantic", options.include_gigantic),
            ("target_ratio_percent", options.target_ratio != plain.target_ratio),
            ("node_cpu_percent_max", options.pacing.node_cpu_percent_max.is_some()),
            (
                "node_bandwidth_max_bytes_per_second",
                options.node_bandwidth_max_bytes_per_second.is_some(),
            ),
            ("numa_balancing", *numa_balancing != Default::default()),
            ("order", options.order != plain.order),
            ("hugetlb_source", options.hugetlb != plain.hugetlb),
            ("pool_reserve_percent", options.pool_reserve_percent > 0),
            ("from_node_ids", options.from.is_some()),
            ("relief", options.relief.is_some()),
            ("home_rule", options.home != plain.home),
            ("near_distance", options.near_distance != plain.near_distance),
            ("make_room", options.make_room != plain.make_room),
            ("compact", options.compact != plain.compact),
            ("offload", *offload != Default::default()),
            ("maps", !options.maps.is_empty()),
        ];
        for (name, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            bad.push(format!("{field}.policy.{name}"), files());
        }
        if limits.workers.is_some() {
            bad.push(format!("{field}.limits.workers"), files());
        }
        if options.maps.is_empty() && options.to.is_none() && !options.is_wide() {
            bad.push(format!("{field}.policy.nodes"), Problem::Missing);
        }
    }
}

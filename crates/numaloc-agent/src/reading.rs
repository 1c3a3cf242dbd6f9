//! The memory of the node by numalocd's metrics. Pure.

use crate::facts::{Container, Facts};
use std::collections::BTreeMap;

/// The name under which numalocd sums up the containers that have no series of their own.
pub const OTHERS: &str = "other";
/// Families whose series are named by users of the host. The agent does not pass them on.
const NAMED: [&str; 4] = [
    "numaloc_host_unit_memory",
    HOST_CONTAINERS,
    "numaloc_host_program_memory",
    "numaloc_workload_local_ratio",
];
const HOST_CONTAINERS: &str = "numaloc_host_container_memory";

/// The values of numalocd's metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Version of numalocd; empty if it does not name it.
    pub version: String,
    /// The memory of all processes by the NUMA node that it is on.
    pub nodes: BTreeMap<u32, Places>,
    /// The memory of pinned containers by their full ids: of those with the most remote memory, and of [`OTHERS`].
    pub containers: BTreeMap<String, Places>,
    /// The text without the families that name what users of the host choose, and without its last line.
    pub rest: String,
}

/// Memory by its place, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Memory of pinned processes, on the nodes of their CPUs.
    pub local: u64,
    /// Memory of pinned processes, on other nodes.
    pub remote: u64,
    /// Memory of pinned processes, on nodes of lower tiers.
    pub demoted: u64,
    /// Memory of processes that may run on all nodes.
    pub unpinned: u64,
}

impl Places {
    /// Adds the memory at a place. A place of a newer numalocd is left out.
    fn add(&mut self, place: Option<&str>, bytes: u64) {
        let sum = match place {
            Some("local") => &mut self.local,
            Some("remote") => &mut self.remote,
            Some("demoted") => &mut self.demoted,
            Some("unpinned") => &mut self.unpinned,
            _ => return,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// The demoted bytes as a metric shows them: only where there are any.
    pub fn shown_demoted(&self) -> Option<(&'static str, &u64)> {
        (self.demoted > 0).then_some(("demoted", &self.demoted))
    }

    pub fn and(self, other: Self) -> Self {
        Self {
            local: self.local.saturating_add(other.local),
            remote: self.remote.saturating_add(other.remote),
            demoted: self.demoted.saturating_add(other.demoted),
            unpinned: self.unpinned.saturating_add(other.unpinned),
        }
    }
}

impl Reading {
    /// Parses numalocd's metrics. Lines that cannot be parsed are skipped.
    pub fn of(text: &str) -> Self {
        let mut reading = Self::default();
        for (labels, _) in samples(text, "numaloc_build_info") {
            reading.version = labels.get("version").copied().unwrap_or_default().to_owned();
        }
        for (labels, bytes) in samples(text, "numaloc_host_memory_bytes") {
            let Some(id) = labels.get("node").and_then(|node| node.parse().ok()) else { continue };
            reading.nodes.entry(id).or_default().add(labels.get("place").copied(), bytes);
        }
        for (labels, bytes) in samples(text, "numaloc_host_container_memory_bytes") {
            let Some(&id) = labels.get("container") else { continue };
            let places = reading.containers.entry(id.to_owned()).or_default();
            places.add(labels.get("place").copied(), bytes);
        }
        let kept =
            text.lines().filter(|line| *line != "# EOF" && !line.is_empty() && !is_named(line));
        reading.rest = kept.flat_map(|line| [line, "\n"]).collect();
        reading
    }

    /// The local and remote bytes of pinned processes; `None` before numalocd's first look at the host, which a reading
    /// asks for, and on hosts with one NUMA node.
    pub fn pinned(&self) -> Option<(u64, u64)> {
        let all = self.nodes.values().copied().reduce(Places::and)?;
        Some((all.local, all.remote))
    }

    /// The memory of the containers of these pods, as far as they have series of their own: those with the most remote
    /// memory first.
    pub fn of_pods<'p>(
        &self,
        pods: impl IntoIterator<Item = &'p Facts>,
    ) -> Vec<(&'p Facts, &'p Container, Places)> {
        let containers = |facts: &'p Facts| facts.containers.iter().map(move |of| (facts, of));
        let all = pods.into_iter().flat_map(containers);
        let mut found: Vec<_> = all
            .filter_map(|(facts, of)| Some((facts, of, *self.containers.get(of.id.as_deref()?)?)))
            .collect();
        // Stable: equal entries stay in the order of their pods.
        found.sort_by_key(|(.., places)| std::cmp::Reverse((places.remote, places.local)));
        found
    }
}

/// Whether a line is of a family in [`NAMED`].
fn is_named(line: &str) -> bool {
    let name = line.strip_prefix("# ").and_then(|line| line.split(' ').nth(1)).unwrap_or(line);
    NAMED.iter().any(|family| name.starts_with(family))
}

/// The samples of a metric in OpenMetrics text whose labels have no quotes in their values, as ids, numbers and
/// versions have none.
fn samples<'t>(
    text: &'t str,
    name: &'t str,
) -> impl Iterator<Item = (BTreeMap<&'t str, &'t str>, u64)> {
    text.lines().filter_map(move |line| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?;
        let pairs = labels.split(',').filter_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            Some((key, value.strip_prefix('"')?.strip_suffix('"')?))
        });
        let value: f64 = value.split(' ').next()?.parse().ok()?;
        // Bytes are whole, and no host has 2^53 of them.
        Some((pairs.collect(), value as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
# HELP numaloc_build Version
# TYPE numaloc_build info
numaloc_build_info{version=\"0.1.0\"} 1
# TYPE numaloc_host_memory_bytes gauge
numaloc_host_memory_bytes{node=\"0\",place=\"local\"} 300
numaloc_host_memory_bytes{node=\"0\",place=\"unpinned\"} 7
numaloc_host_memory_bytes{node=\"2\",place=\"remote\"} 100
# HELP numaloc_host_unit_memory_bytes By unit
numaloc_host_unit_memory_bytes{unit=\"a \\\" b\",place=\"remote\"} 9
# TYPE numaloc_host_container_memory_bytes gauge
# UNIT numaloc_host_container_memory_bytes bytes
numaloc_host_container_memory_bytes{container=\"c1\",place=\"local\"} 60
numaloc_host_container_memory_bytes{container=\"c1\",place=\"remote\"} 40
numaloc_host_program_memory_bytes{program=\"numaloc_x\",place=\"remote\"} 9
numaloc_workload_local_ratio{workload=\"agent-1-web\"} 0.5
numaloc_contested_schedules 0
# EOF
";

    #[test]
    fn figures_are_read_and_names_are_left_out() {
        let reading = Reading::of(TEXT);
        assert_eq!(reading.version, "0.1.0");
        let places =
            |local, remote, unpinned| Places { local, remote, unpinned, ..Places::default() };
        assert_eq!(reading.nodes, [(0, places(300, 0, 7)), (2, places(0, 100, 0))].into());
        assert_eq!(reading.pinned(), Some((300, 100)));
        assert_eq!(Reading::of("numaloc_host_memory_bytes 7\n").pinned(), None);
        assert_eq!(reading.containers, [("c1".to_owned(), places(60, 40, 0))].into());
        let kept: Vec<_> = reading.rest.lines().collect();
        assert_eq!(
            kept,
            [
                "# HELP numaloc_build Version",
                "# TYPE numaloc_build info",
                "numaloc_build_info{version=\"0.1.0\"} 1",
                "# TYPE numaloc_host_memory_bytes gauge",
                "numaloc_host_memory_bytes{node=\"0\",place=\"local\"} 300",
                "numaloc_host_memory_bytes{node=\"0\",place=\"unpinned\"} 7",
                "numaloc_host_memory_bytes{node=\"2\",place=\"remote\"} 100",
                "numaloc_contested_schedules 0",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read(
            text in r#"(numaloc_host_memory_bytes|\{|node="0"|,|place="local"|\}| |1e300|-1|NaN|# EOF|# |\n|\PC){0,40}"#,
        ) {
            prop_assert!(Reading::of(&text).rest.lines().all(|line| line != "# EOF"));
        }
    }
}

//! Bytes of other nodes' memory that the CPUs of this host read and write: the kernel's memory bandwidth monitoring
//! (Documentation/filesystems/resctrl.rst, `mbm_local_bytes` and `mbm_total_bytes`), which Intel and AMD processors have.
//!
//! A control group counts what its own tasks and those of its monitoring groups do, so all control groups together are the host.
//! With sub-NUMA clusters the files of a domain are the sum of those of its parts (`mon_sub_L3_*` in it).
//!
//! Counters may say Unavailable, Unassigned or Error, begin again and vanish with their group. What they count then is not known, and
//! nothing is assumed in its place.

use crate::{Roots, files::read};
use numaloc_core::{
    CpuSet, HostTraffic, NodeId, NodeSet, NodeTraffic, Topology, Traffic, TrafficDomain,
    mover_group::RESERVED, number,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Time between the two readings of a measurement.
pub const SPAN: Duration = Duration::from_secs(1);
const SECOND_NS: u128 = 1_000_000_000;
/// How often a measurement asks whether it is to end.
const TURN: Duration = Duration::from_millis(50);

/// Counters of groups since an arbitrary time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    /// By the directory of the group, and by domain; `None`: it cannot be read.
    counters: BTreeMap<(PathBuf, TrafficDomain), Option<Counter>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    local_bytes: u64,
    total_bytes: u64,
}

/// The counters of a group on one L3 cache, in bytes since an arbitrary time. They begin again where the kernel gives
/// the hardware's counter to another group meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupTraffic {
    /// Name of the control group; empty for the root group.
    pub control: String,
    /// Name of the monitoring group in it, which for pods is often their uid; `None`: the whole control group.
    pub monitoring: Option<String>,
    /// Number of the L3 cache, which may be sparse.
    pub domain: u32,
    /// Traffic with memory of the nodes of this cache.
    pub local_bytes: u64,
    /// Traffic with all other memory.
    pub remote_bytes: u64,
}

/// Reads the counters of all control groups; empty if resctrl is not mounted, or counts no bandwidth.
pub fn read(roots: &Roots) -> TrafficCounters {
    TrafficCounters::of(controls(roots).into_values())
}

impl TrafficCounters {
    /// Reads those of groups, by their directories. With sub-NUMA clusters a cache is read by its parts.
    pub fn of(groups: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut counters = BTreeMap::new();
        for group in groups {
            for (cache, path) in caches_of(&group) {
                let part = |name: &str| name.strip_prefix("mon_sub_L3_")?.parse::<u32>().ok();
                let parts = read::entries(&path, part);
                let mut count = |domain, path: &Path| {
                    counters.insert((group.clone(), domain), counter(path));
                };
                if parts.is_empty() {
                    count(TrafficDomain::Cache(cache), &path);
                }
                for (node, path) in parts {
                    count(TrafficDomain::Part(cache, NodeId(node)), &path);
                }
            }
        }
        Self { counters }
    }

    /// Whether no counter is readable.
    pub fn is_empty(&self) -> bool {
        self.counters.values().all(Option::is_none)
    }

    /// The traffic between this reading and one that is `span` later. Without counters that began again, and without groups that are in
    /// one of both readings only.
    pub fn until(&self, later: &Self, span: Duration) -> HostTraffic {
        let mut traffic = HostTraffic::default();
        let nanoseconds = span.as_nanos();
        if nanoseconds == 0 {
            return traffic;
        }
        let keys: BTreeSet<_> = self.counters.keys().chain(later.counters.keys()).collect();
        let value = |of: &Self, key| of.counters.get(key).copied().flatten();
        for key in keys {
            let since = value(self, key).zip(value(later, key)).and_then(|(before, after)| {
                let total = after.total_bytes.checked_sub(before.total_bytes)?;
                let local = after.local_bytes.checked_sub(before.local_bytes)?;
                // The two files are read one after the other.
                Some((local, total.saturating_sub(local)))
            });
            let Some((local, remote)) = since else {
                traffic.partial.insert(key.1);
                continue;
            };
            let rate = |bytes| number::amount(u128::from(bytes) * SECOND_NS / nanoseconds);
            traffic.domains.entry(key.1).or_default().add(Traffic {
                local_bytes_per_second: rate(local),
                remote_bytes_per_second: rate(remote),
            });
        }
        traffic
    }
}

/// The nodes of the CPUs of each L3 cache, by its number
/// (Documentation/ABI/testing/sysfs-devices-system-cpu, `cache/index3/id`).
pub fn caches(roots: &Roots, topology: &Topology) -> BTreeMap<u32, NodeSet> {
    let mut caches: BTreeMap<u32, NodeSet> = BTreeMap::new();
    for node in topology.nodes() {
        let mut seen = CpuSet::new();
        for cpu in node.cpus.iter() {
            if seen.contains(cpu) {
                continue;
            }
            let cache = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/cache/index3"));
            let is_third = read::number::<u32>(&cache.join("level")) == Some(3);
            if let Some(id) = read::number::<u32>(&cache.join("id")).filter(|_| is_third) {
                caches.entry(id).or_default().insert(node.id);
            }
            let shared = read::number(&cache.join("shared_cpu_list")).unwrap_or_default();
            seen = seen.or(&shared);
        }
    }
    caches
}

/// Measures how much the memory of each node is used, over [`SPAN`]; without nodes of which nothing says it. `stop` ends it early, with
/// no result.
pub fn measure_nodes(
    roots: &Roots,
    topology: &Topology,
    stop: &dyn Fn() -> bool,
) -> BTreeMap<NodeId, NodeTraffic> {
    let (begin, before) = (Instant::now(), read(roots));
    if before.is_empty() {
        return BTreeMap::new();
    }
    while begin.elapsed() < SPAN {
        if stop() {
            return BTreeMap::new();
        }
        thread::sleep(TURN.min(SPAN.saturating_sub(begin.elapsed())));
    }
    // Both times are from before a reading, which takes a while on large machines.
    let span = begin.elapsed();
    let traffic = before.until(&read(roots), span);
    traffic.by_node(&caches(roots, topology), topology)
}

/// Whether something says how much a node is used ([`HostTraffic::by_node`]).
pub fn is_counted(roots: &Roots, topology: &Topology, node: NodeId) -> bool {
    let counters = read(roots);
    let known = counters.until(&counters, SPAN);
    known.by_node(&caches(roots, topology), topology).contains_key(&node)
}

/// The counters of at most `most` groups, the control groups first; in order of their names. Counters that say
/// Unavailable, Unassigned or Error are left out, and groups that end meanwhile.
pub fn by_group(roots: &Roots, most: usize) -> Vec<GroupTraffic> {
    let controls = controls(roots);
    let mut groups: Vec<(String, Option<String>, PathBuf)> =
        controls.iter().map(|(name, path)| (name.clone(), None, path.clone())).collect();
    for (name, path) in &controls {
        groups
            .extend(monitored(path).into_iter().map(|(own, path)| (name.clone(), Some(own), path)));
    }
    groups.truncate(most);
    let of = |(control, monitoring, path): (String, Option<String>, PathBuf)| {
        let domains = caches_of(&path).into_iter();
        let one = move |(domain, path): (u32, PathBuf)| {
            let Counter { local_bytes, total_bytes } = counter(&path)?;
            let (control, monitoring) = (control.clone(), monitoring.clone());
            // The two files are read one after the other.
            let remote_bytes = total_bytes.saturating_sub(local_bytes);
            Some(GroupTraffic { control, monitoring, domain, local_bytes, remote_bytes })
        };
        domains.filter_map(one).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(of).collect()
}

/// The directories of the control groups by their names; the root group has none.
fn controls(roots: &Roots) -> BTreeMap<String, PathBuf> {
    let root = roots.resctrl();
    let group = |name: &str| (!RESERVED.contains(&name)).then(|| name.to_owned());
    let mut controls = read::entries(&root, group);
    controls.insert(String::new(), root);
    controls
}

/// The directories of the caches of a group, by the kernel's numbers.
fn caches_of(group: &Path) -> BTreeMap<u32, PathBuf> {
    read::entries(&group.join("mon_data"), |name| name.strip_prefix("mon_L3_")?.parse().ok())
}

fn counter(domain: &Path) -> Option<Counter> {
    let value = |name: &str| read::number::<u64>(&domain.join(name));
    let (local_bytes, total_bytes) = (value("mbm_local_bytes")?, value("mbm_total_bytes")?);
    Some(Counter { local_bytes, total_bytes })
}

/// The directories of the monitoring groups of all control groups, by their names.
pub(crate) fn monitoring_groups(roots: &Roots) -> BTreeMap<String, Vec<PathBuf>> {
    let mut groups: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for control in controls(roots).into_values() {
        for (name, path) in monitored(&control) {
            groups.entry(name).or_default().push(path);
        }
    }
    groups
}

/// The directories of the monitoring groups of a control group, by their names.
fn monitored(control: &Path) -> BTreeMap<String, PathBuf> {
    read::entries(&control.join("mon_groups"), |name| Some(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, two_nodes};
    use TrafficDomain::Cache;

    const SECOND: Duration = Duration::from_secs(1);

    fn shown(traffic: &HostTraffic) -> Vec<(TrafficDomain, u64, u64)> {
        let one = |(domain, it): (&TrafficDomain, &Traffic)| {
            (*domain, it.local_bytes_per_second, it.remote_bytes_per_second)
        };
        traffic.domains.iter().map(one).collect()
    }

    fn count(fake: &Fake, domain: &str, local: &str, total: &str) {
        fake.write(&format!("sys/fs/resctrl/{domain}/mbm_local_bytes"), local);
        fake.write(&format!("sys/fs/resctrl/{domain}/mbm_total_bytes"), total);
        fake.write(&format!("sys/fs/resctrl/{domain}/llc_occupancy"), "7\n");
    }

    #[test]
    fn control_groups_are_summed_up_and_monitoring_groups_are_in_them() {
        let fake = Fake::new();
        assert!(read(&fake.roots()).is_empty());
        count(&fake, "mon_data/mon_L3_00", "100\n", "150\n");
        count(&fake, "mon_data/mon_L3_01", "Unavailable\n", "10\n");
        count(&fake, "mon_groups/pod/mon_data/mon_L3_00", "1\n", "1000\n");
        count(&fake, "batch/mon_data/mon_L3_00", "0\n", "5\n");
        fake.write("sys/fs/resctrl/info/L3_MON/mon_features", "mbm_total_bytes\n");
        let before = read(&fake.roots());
        count(&fake, "mon_data/mon_L3_00", "200\n", "1150\n");
        count(&fake, "mon_data/mon_L3_01", "5\n", "10\n");
        count(&fake, "batch/mon_data/mon_L3_00", "3\n", "28\n");
        count(&fake, "new/mon_data/mon_L3_00", "0\n", "1000000\n");
        let traffic = before.until(&read(&fake.roots()), SECOND);
        assert_eq!(shown(&traffic), [(Cache(0), 103, 900 + 20)]);
        assert_eq!(
            traffic.partial,
            [Cache(0), Cache(1)].into(),
            "a new group, and one that did not count"
        );
        assert_eq!(traffic.sum().map(|sum| sum.remote_bytes_per_second), Some(920));
        let twice = before.until(&read(&fake.roots()), 2 * SECOND);
        assert_eq!(shown(&twice), [(Cache(0), 51, 460)]);
        assert_eq!(before.until(&read(&fake.roots()), Duration::ZERO), HostTraffic::default());
    }

    #[test]
    fn each_group_has_its_counters_by_cache() {
        let fake = Fake::new();
        assert!(by_group(&fake.roots(), 100).is_empty(), "resctrl is not mounted");
        count(&fake, "mon_data/mon_L3_00", "100\n", "150\n");
        count(&fake, "mon_data/mon_L3_00/mon_sub_L3_01", "1\n", "2\n");
        count(&fake, "mon_data/mon_L3_17", "Unassigned\n", "10\n");
        count(&fake, "mon_groups/pod-7/mon_data/mon_L3_17", "40\n", "39\n");
        count(&fake, "batch/mon_data/mon_L3_17", "0\n", "5\n");
        count(&fake, "batch/mon_groups/job/mon_data/mon_L3_00", "Error\n", "5\n");
        fake.write("sys/fs/resctrl/info/L3_MON/mon_features", "mbm_total_bytes\n");
        let shown: Vec<_> = by_group(&fake.roots(), 100)
            .into_iter()
            .map(|it| (it.control, it.monitoring, it.domain, it.local_bytes, it.remote_bytes))
            .collect();
        let expected = [
            (String::new(), None, 0, 100, 50),
            ("batch".to_owned(), None, 17, 0, 5),
            (String::new(), Some("pod-7".to_owned()), 17, 40, 0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(by_group(&fake.roots(), 1).len(), 1, "the root group alone");
    }

    #[test]
    fn what_was_reset_or_is_gone_does_not_count() {
        let fake = Fake::new();
        count(&fake, "mon_data/mon_L3_00", "100", "150");
        let before = read(&fake.roots());
        let partial = [Cache(0)].into();
        for (local, total) in [("0", "7"), ("Error", "7"), ("170", "149")] {
            count(&fake, "mon_data/mon_L3_00", local, total);
            let traffic = before.until(&read(&fake.roots()), SECOND);
            assert_eq!((traffic.sum(), &traffic.partial), (None, &partial), "{local} {total}");
        }
        std::fs::remove_dir_all(fake.path("sys/fs/resctrl/mon_data")).expect("a directory");
        assert_eq!(before.until(&read(&fake.roots()), SECOND).sum(), None);
        assert_eq!(before.until(&before, SECOND).sum(), Some(Traffic::default()));
    }

    /// The L3 cache of some CPUs.
    fn cache(fake: &Fake, cpus: &[u32], id: u32, shared: &str) {
        for cpu in cpus {
            let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
            fake.write(&format!("{cache}/level"), "3\n");
            fake.write(&format!("{cache}/id"), &format!("{id}\n"));
            fake.write(&format!("{cache}/shared_cpu_list"), shared);
        }
    }

    #[test]
    fn caches_belong_to_the_nodes_of_their_cpus() {
        let (fake, topology) = (Fake::new(), two_nodes::topology(1 << 30));
        assert!(caches(&fake.roots(), &topology).is_empty(), "the kernel shows none");
        cache(&fake, &[0, 1], 0, "0-1\n");
        cache(&fake, &[2, 3, 4], 7, "2-4\n");
        cache(&fake, &[5, 6, 7], 9, "5-7\n");
        // Not an L3 cache.
        fake.write("sys/devices/system/cpu/cpu5/cache/index3/level", "2\n");
        let nodes: Vec<(u32, String)> = caches(&fake.roots(), &topology)
            .into_iter()
            .map(|(cache, nodes)| (cache, nodes.to_string()))
            .collect();
        assert_eq!(nodes, [(0, "0".to_owned()), (7, "0-1".to_owned())]);
    }

    #[test]
    fn parts_of_a_cache_are_read_in_its_place() {
        let (fake, topology) = (Fake::new(), two_nodes::topology(1 << 30));
        cache(&fake, &[0, 1, 2, 3, 4, 5, 6, 7], 0, "0-7\n");
        let parts = |local: [&str; 2]| {
            count(&fake, "mon_data/mon_L3_00", "1", "9999");
            for (node, local) in (0..).zip(local) {
                count(&fake, &format!("mon_data/mon_L3_00/mon_sub_L3_{node:02}"), local, "9000");
            }
            read(&fake.roots())
        };
        let traffic = parts(["10", "20"]).until(&parts(["70", "60"]), SECOND);
        let nodes = [0, 1].map(|node| TrafficDomain::Part(0, NodeId(node)));
        assert_eq!(shown(&traffic), [(nodes[0], 60, 0), (nodes[1], 40, 0)]);
        let by_node = traffic.by_node(&caches(&fake.roots(), &topology), &topology);
        let whole = |bytes_per_second| NodeTraffic { bytes_per_second, is_whole: true };
        assert_eq!(by_node, [(NodeId(0), whole(60)), (NodeId(1), whole(40))].into());
    }

    #[test]
    fn a_node_is_counted_where_a_cache_of_it_alone_has_a_counter() {
        let (fake, topology) = (Fake::new(), two_nodes::topology(1 << 30));
        let counted =
            |fake: &Fake| [0, 1].map(|node| is_counted(&fake.roots(), &topology, NodeId(node)));
        cache(&fake, &[0, 1, 2, 3], 0, "0-3\n");
        cache(&fake, &[4, 5, 6, 7], 1, "4-7\n");
        assert_eq!(counted(&fake), [false, false], "resctrl is not mounted");
        count(&fake, "mon_data/mon_L3_00", "Unavailable", "9999");
        count(&fake, "mon_data/mon_L3_01", "1", "9999");
        assert_eq!(counted(&fake), [false, true]);
    }

    #[test]
    fn nothing_is_measured_without_counters_or_after_the_end() {
        let (fake, topology) = (Fake::new(), two_nodes::topology(1 << 30));
        let never = || -> bool { panic!("it does not wait") };
        assert!(measure_nodes(&fake.roots(), &topology, &never).is_empty());
        count(&fake, "mon_data/mon_L3_00", "100", "150");
        assert!(measure_nodes(&fake.roots(), &topology, &|| true).is_empty());
    }

    #[test]
    fn monitoring_groups_are_found_in_all_control_groups() {
        let fake = Fake::new();
        assert!(monitoring_groups(&fake.roots()).is_empty());
        for group in ["mon_groups/a", "BE/mon_groups/a", "BE/mon_groups/b"] {
            count(&fake, &format!("{group}/mon_data/mon_L3_00"), "1", "2");
        }
        let found = monitoring_groups(&fake.roots());
        let counts: Vec<_> =
            found.iter().map(|(name, paths)| (name.as_str(), paths.len())).collect();
        assert_eq!(counts, [("a", 2), ("b", 1)]);
    }
}

//! Memory traffic: of the host and its nodes at each look, and of cgroups that have a monitoring group of their own.

use crate::{
    Roots,
    files::read,
    views::traffic::{self, TrafficCounters},
};
use numaloc_core::{HostTraffic, NodeId, NodeSet, NodeTraffic, Topology, Traffic};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

/// Reads counters again and again. On a host without resctrl nothing is read but that it is not there.
#[derive(Debug)]
pub(super) struct TrafficReader {
    /// The nodes of each L3 cache.
    caches: BTreeMap<u32, NodeSet>,
    before: Option<(Duration, TrafficCounters)>,
    now: HostTraffic,
    /// Directories of monitoring groups, by name.
    monitored: BTreeMap<String, Vec<PathBuf>>,
}

impl TrafficReader {
    pub(super) fn new(roots: &Roots, topology: &Topology) -> Self {
        let caches = traffic::caches(roots, topology);
        Self { caches, before: None, now: HostTraffic::default(), monitored: BTreeMap::new() }
    }

    pub(super) fn read(&mut self, roots: &Roots, at: Duration) {
        let counters = traffic::read(roots);
        if counters.is_empty() {
            (self.before, self.now) = (None, HostTraffic::default());
            return self.monitored.clear();
        }
        let since = self
            .before
            .take()
            .map(|(then, before)| before.until(&counters, at.saturating_sub(then)));
        self.now = since.unwrap_or_default();
        self.before = Some((at, counters));
        self.monitored = traffic::monitoring_groups(roots);
    }

    /// That of the host since the look before; `None` at the first one, and where nothing counts.
    pub(super) fn of_host(&self) -> Option<Traffic> {
        self.now.sum()
    }

    pub(super) fn by_node(&self, topology: &Topology) -> BTreeMap<NodeId, NodeTraffic> {
        self.now.by_node(&self.caches, topology)
    }

    /// The monitoring group that has processes of this cgroup and no others, if there is one. Its name has to name the cgroup, or one
    /// above it: runtimes name groups by containers (`intelRdt.enableMonitoring`), others by uids of pods. A group of a pod of several
    /// containers is none of these cgroups' own.
    pub(super) fn own_group<'p>(
        &self,
        cgroup: &str,
        cgroup_of: impl Fn(i32) -> Option<&'p str>,
    ) -> Option<&Path> {
        let named = names(cgroup).into_iter().filter_map(|name| self.monitored.get(&name));
        named.flatten().map(PathBuf::as_path).find(|group| {
            let tasks = read::text(&group.join("tasks")).unwrap_or_default();
            let cgroups: BTreeSet<_> =
                tasks.lines().filter_map(|task| cgroup_of(task.parse().ok()?)).collect();
            cgroups.len() == 1 && cgroups.contains(cgroup)
        })
    }
}

/// The names that a group of this cgroup may have, from the innermost cgroup on.
fn names(cgroup: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in cgroup.rsplit('/').filter(|part| !part.is_empty()) {
        let suffixes = [".slice", ".scope", ".service"];
        let bare = suffixes.iter().find_map(|suffix| part.strip_suffix(suffix)).unwrap_or(part);
        names.extend([part.to_owned(), bare.to_owned()]);
        // `cri-containerd-ID.scope`, `kubepods-burstable-podUID.slice` with `_` for `-`, and `podUID`.
        if let Some((_, last)) = bare.rsplit_once('-') {
            names.push(last.to_owned());
        }
        if let Some((_, uid)) = bare.rsplit_once("pod") {
            names.push(uid.replace('_', "-"));
        }
    }
    names
}

/// The traffic of a monitoring group from reading to reading.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnTraffic {
    before: Option<(PathBuf, Duration, TrafficCounters)>,
    pub(super) now: Option<Traffic>,
}

impl OwnTraffic {
    /// The next reading; `None`: the cgroup has no group of its own.
    pub(super) fn next(self, group: Option<&Path>, at: Duration) -> Self {
        let Some(group) = group else { return Self::default() };
        let counters = TrafficCounters::of([group.to_owned()]);
        let before = self.before.filter(|(path, ..)| path == group);
        let now = before
            .and_then(|(_, then, before)| before.until(&counters, at.saturating_sub(then)).sum());
        Self { before: Some((group.to_owned(), at, counters)), now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, two_nodes};

    const SECOND: Duration = Duration::from_secs(1);

    fn count(fake: &Fake, group: &str, cache: u32, local: u64, total: u64) {
        let domain = format!("sys/fs/resctrl/{group}/mon_data/mon_L3_{cache:02}");
        fake.write(&format!("{domain}/mbm_local_bytes"), &local.to_string());
        fake.write(&format!("{domain}/mbm_total_bytes"), &total.to_string());
    }

    #[test]
    fn a_host_has_traffic_from_the_second_look_on() {
        let (fake, topology) = (Fake::new(), two_nodes::topology(1 << 30));
        for (cpu, cache, shared) in [(0, 0, "0-3"), (4, 8, "4-7")] {
            let cpu = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
            fake.write(&format!("{cpu}/level"), "3");
            fake.write(&format!("{cpu}/id"), &format!("{cache}"));
            fake.write(&format!("{cpu}/shared_cpu_list"), shared);
        }
        let roots = fake.roots();
        let mut reader = TrafficReader::new(&roots, &topology);
        reader.read(&roots, SECOND);
        assert_eq!((reader.of_host(), reader.before.is_some()), (None, false), "no resctrl");
        count(&fake, ".", 0, 100, 200);
        count(&fake, ".", 8, 1000, 1000);
        reader.read(&roots, SECOND);
        assert_eq!((reader.of_host(), reader.by_node(&topology).len()), (None, 0));
        count(&fake, ".", 0, 300, 500);
        count(&fake, ".", 8, 1060, 1064);
        reader.read(&roots, 3 * SECOND);
        let sum = Traffic { local_bytes_per_second: 130, remote_bytes_per_second: 52 };
        assert_eq!(reader.of_host(), Some(sum));
        let by_node = reader.by_node(&topology);
        let bytes: Vec<u64> = by_node.values().map(|node| node.bytes_per_second).collect();
        assert_eq!(bytes, [102, 80]);
        std::fs::remove_dir_all(fake.path("sys/fs/resctrl")).expect("a directory");
        reader.read(&roots, 4 * SECOND);
        assert_eq!(reader.of_host(), None, "it was unmounted");
    }

    #[test]
    fn the_names_of_runtimes_and_kubernetes_are_known() {
        let path =
            "/kubepods.slice/kubepods-burstable-pod7d0f_11.slice/cri-containerd-0123abc.scope";
        let known = names(path);
        let position = |name: &str| known.iter().position(|known| known == name);
        assert!(position("0123abc") < position("7d0f-11"), "{known:?}");
        assert!(position("0123abc").is_some());
        assert!(names("/kubepods/besteffort/pod7d0f-11/x").contains(&"7d0f-11".to_owned()));
        assert!(names("/system.slice/redis.service").contains(&"redis".to_owned()));
        assert!(names("/").is_empty());
    }

    #[test]
    fn a_cgroup_has_the_group_of_its_processes_and_no_other() {
        let (fake, topology) = (Fake::new(), two_nodes::topology(1 << 30));
        let roots = fake.roots();
        let cgroups =
            BTreeMap::from([(10, "/pods/pod7/a"), (11, "/pods/pod7/a"), (20, "/pods/pod7/b")]);
        let mut reader = TrafficReader::new(&roots, &topology);
        count(&fake, ".", 0, 1, 1);
        count(&fake, "mon_groups/7", 0, 1, 1);
        // 4000 is of a thread.
        fake.write("sys/fs/resctrl/mon_groups/7/tasks", "10\n4000\n11\n");
        reader.read(&roots, SECOND);
        let own = |reader: &TrafficReader, path: &str| {
            reader.own_group(path, |pid| cgroups.get(&pid).copied()).is_some()
        };
        assert!(own(&reader, "/pods/pod7/a") && !own(&reader, "/pods/pod7/b"));
        assert!(!own(&reader, "/pods/pod8/a"));
        fake.write("sys/fs/resctrl/mon_groups/7/tasks", "10\n20\n");
        assert!(!own(&reader, "/pods/pod7/a"), "it has two containers");
        fake.write("sys/fs/resctrl/mon_groups/7/tasks", "");
        assert!(!own(&reader, "/pods/pod7/a"), "it is empty");
    }

    #[test]
    fn traffic_of_a_group_is_between_two_readings_of_it() {
        let fake = Fake::new();
        let group = fake.path("sys/fs/resctrl/mon_groups/a");
        count(&fake, "mon_groups/a", 0, 10, 30);
        let own = OwnTraffic::default().next(Some(&group), SECOND);
        assert_eq!(own.now, None);
        count(&fake, "mon_groups/a", 0, 20, 60);
        let later = own.clone().next(Some(&group), 2 * SECOND);
        let now = Traffic { local_bytes_per_second: 10, remote_bytes_per_second: 20 };
        assert_eq!(later.now, Some(now));
        assert_eq!(own.next(Some(&fake.path("other")), 2 * SECOND).now, None);
        assert!(later.next(None, 3 * SECOND).before.is_none());
    }
}

//! Cgroups with processes: where their memory is (memory.numa_stat), and what the kernel's balancing has moved of it.

use super::traffic::OwnTraffic;
use crate::{
    Roots,
    files::read,
    processes::{cgroup, group_names::GroupNames},
};
use numaloc_core::{
    live::{CountedMemory, GroupNow, KernelEvents},
    rotation::Candidate,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

#[derive(Clone, Debug, Default)]
struct GroupReading {
    at: Option<Duration>,
    memory: Option<CountedMemory>,
    kernel: KernelEvents,
    traffic: OwnTraffic,
}

/// The readings of the cgroups.
#[derive(Debug, Default)]
pub(super) struct GroupReadings(BTreeMap<String, GroupReading>);

impl GroupReadings {
    /// These are there now, and no others.
    pub(super) fn keep(&mut self, paths: &BTreeSet<&str>) {
        self.0.retain(|path, _| paths.contains(path.as_str()));
        for &path in paths {
            if !self.0.contains_key(path) {
                self.0.insert(path.to_owned(), GroupReading::default());
            }
        }
    }

    pub(super) fn candidates(&self, now: Duration) -> impl Iterator<Item = Candidate<&str>> {
        self.0.iter().map(move |(path, group)| Candidate {
            key: path.as_str(),
            bytes: group.memory.iter().flat_map(|memory| memory.nodes.values()).sum(),
            cpu_percent: 0.0,
            age: group.at.map(|at| now.saturating_sub(at)),
        })
    }

    /// Reads one. `monitoring`: the directory of its own group of resctrl, if it has one. Returns whether it is gone: it was there at
    /// the last look, and is not any more.
    pub(super) fn read(
        &mut self,
        roots: &Roots,
        path: &str,
        monitoring: Option<&Path>,
        now: Duration,
    ) -> bool {
        let Some(group) = self.0.get_mut(path) else { return false };
        let memory = cgroup::numa_stat(roots, path);
        let is_gone = group.memory.is_some() && memory.is_none();
        let traffic = std::mem::take(&mut group.traffic).next(monitoring, now);
        let kernel = kernel_events(roots, path);
        *group = GroupReading { at: Some(now), memory, kernel, traffic };
        is_gone
    }

    /// `attached` has what the processes of a cgroup and of those below it have attached, in bytes, of those of which that is known.
    pub(super) fn now(
        &self,
        attached: &BTreeMap<&str, u64>,
        names: &GroupNames,
        now: Duration,
    ) -> BTreeMap<String, GroupNow> {
        let shown = |path: &str, group: &GroupReading| GroupNow {
            name: names.of(path),
            memory: group.memory.clone().map(|memory| match attached.get(path) {
                Some(&bytes) => memory.with_attached(bytes),
                None => memory,
            }),
            kernel: group.kernel,
            traffic: group.traffic.now,
            age: group.at.map(|at| now.saturating_sub(at)),
        };
        self.0.iter().map(|(path, group)| (path.clone(), shown(path, group))).collect()
    }
}

fn kernel_events(roots: &Roots, path: &str) -> KernelEvents {
    let mut files = cgroup::unified(roots, path).map(|directory| directory.join("memory.stat"));
    let text = files.iter_mut().find_map(|file| read::text(file).ok()).unwrap_or_default();
    let event = |(name, count): (&str, &str)| {
        let count = Some(count.trim().parse::<u64>().ok()?);
        let none = KernelEvents::default();
        Some(match name {
            "numa_hint_faults" => KernelEvents { hint_faults: count, ..none },
            "numa_pages_migrated" => KernelEvents { migrated_pages: count, ..none },
            "pgpromote_success" => KernelEvents { promoted_pages: count, ..none },
            // By kswapd, direct reclaim, khugepaged, and on request.
            name if name.starts_with("pgdemote_") => KernelEvents { demoted_pages: count, ..none },
            _ => return None,
        })
    };
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(event).fold(KernelEvents::default(), KernelEvents::and)
}

/// The cgroup that accounts for the memory of a process, of the text of /proc/PID/cgroup: that of v1's memory controller where
/// there is one, else that of v2. None outside of the reader's cgroup namespace, which shows as a path with `..`.
pub(super) fn of_memory(text: &str) -> Option<&str> {
    let by = |wanted: fn(&str, &str) -> bool| {
        text.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            wanted(number, controllers).then_some(path)
        })
    };
    let v1 = by(|_, controllers| controllers.split(',').any(|each| each == "memory"));
    let path = v1.or_else(|| by(|number, controllers| number == "0" && controllers.is_empty()))?;
    (!path.split('/').any(|part| part == "..")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use numaloc_core::NodeId;

    #[test]
    fn memory_is_accounted_by_v1_where_it_has_the_controller() {
        let hybrid = "5:cpu,cpuacct:/a\n4:memory:/b:c\n0::/d\n";
        assert_eq!(of_memory(hybrid), Some("/b:c"));
        assert_eq!(of_memory("1:name=systemd:/x\n0::/a.slice/b\n"), Some("/a.slice/b"));
        for nothing in ["", "nonsense", "0::/../other", "3:cpuset:/"] {
            assert_eq!(of_memory(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_is_gone_or_not_accounted_says_nothing() {
        let fake = Fake::new();
        fake.write("cgroup/cgroup.procs", "");
        fake.write("cgroup/a/cgroup.procs", "1\n");
        fake.write("cgroup/a/memory.numa_stat", "anon N0=4096 N8=8192\nfile N0=4096 N8=0\n");
        let stat = "anon 1\nnuma_pages_migrated 7\nnuma_hint_faults 9\npgdemote_kswapd 5\npgdemote_direct 6\npgpromote_success 3\n";
        fake.write("cgroup/a/memory.stat", stat);
        let mut groups = GroupReadings::default();
        groups.keep(&["/a", "/gone"].into());
        let at = Duration::from_secs(3);
        for path in ["/a", "/gone", "/never"] {
            assert!(!groups.read(&fake.roots(), path, None, at), "{path}");
        }
        let now = groups.now(&BTreeMap::new(), &GroupNames::default(), at + at);
        let memory = CountedMemory {
            nodes: [(NodeId(0), 4096), (NodeId(8), 8192)].into(),
            cache: [(NodeId(0), 4096), (NodeId(8), 0)].into(),
            ..CountedMemory::default()
        };
        assert_eq!(now["/a"].memory, Some(memory));
        let kernel = KernelEvents {
            hint_faults: Some(9),
            migrated_pages: Some(7),
            demoted_pages: Some(11),
            promoted_pages: Some(3),
        };
        assert_eq!((now["/a"].kernel, now["/a"].age), (kernel, Some(at)));
        assert_eq!(now["/gone"].kernel, KernelEvents::default());
        assert_eq!((&now["/gone"].memory, now["/gone"].age), (&None, Some(at)));
        assert_eq!(now.len(), 2);
        std::fs::rename(fake.path("cgroup/a"), fake.path("cgroup/renamed")).unwrap();
        assert!(groups.read(&fake.roots(), "/a", None, at), "it was there");
        groups.keep(&["/renamed"].into());
        assert_eq!(
            groups.now(&BTreeMap::new(), &GroupNames::default(), at)["/renamed"],
            GroupNow::default()
        );
    }
}

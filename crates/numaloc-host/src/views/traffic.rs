//! Bytes of other nodes' memory that the CPUs of this host read and write: the kernel's memory bandwidth monitoring
//! (Documentation/filesystems/resctrl.rst, `mbm_local_bytes` and `mbm_total_bytes`), which Intel and AMD processors have.
//!
//! A control group counts what its own tasks and those of its monitoring groups do, so all control groups together are the host.
//! With sub-NUMA clusters the files of a domain are the sum of those of its parts (`mon_sub_L3_*` in it).

use crate::{Roots, files::read};
use numaloc_core::mover_group::RESERVED;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Counters since an arbitrary time, by their directory: one for each control group and each L3 cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters(BTreeMap<PathBuf, Traffic>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Traffic {
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

/// Reads all counters; empty if resctrl is not mounted, or counts no bandwidth. A counter that says Unavailable, Unassigned or Error
/// is left out.
pub fn read(roots: &Roots) -> TrafficCounters {
    let domain = |name: &str| name.starts_with("mon_").then(|| name.to_owned());
    let domains = controls(roots)
        .into_values()
        .flat_map(|group| read::entries(&group.join("mon_data"), domain).into_values());
    TrafficCounters(
        domains.filter_map(|domain| Some((domain.clone(), traffic(&domain)?))).collect(),
    )
}

/// The counters of at most `most` groups, the control groups first; in order of their names. Counters that say
/// Unavailable, Unassigned or Error are left out, and groups that end meanwhile.
pub fn by_group(roots: &Roots, most: usize) -> Vec<GroupTraffic> {
    let controls = controls(roots);
    let below = |control: &PathBuf| {
        read::entries(&control.join("mon_groups"), |name| Some(name.to_owned()))
    };
    let mut groups: Vec<(String, Option<String>, PathBuf)> =
        controls.iter().map(|(name, path)| (name.clone(), None, path.clone())).collect();
    for (name, path) in &controls {
        groups.extend(below(path).into_iter().map(|(own, path)| (name.clone(), Some(own), path)));
    }
    groups.truncate(most);
    let domain = |name: &str| name.strip_prefix("mon_L3_")?.parse::<u32>().ok();
    let of = |(control, monitoring, path): (String, Option<String>, PathBuf)| {
        let domains = read::entries(&path.join("mon_data"), domain).into_iter();
        let one = move |(domain, path): (u32, PathBuf)| {
            let Traffic { local_bytes, total_bytes } = traffic(&path)?;
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

fn traffic(domain: &Path) -> Option<Traffic> {
    let value = |name: &str| read::text(&domain.join(name)).ok()?.trim().parse::<u64>().ok();
    let (local_bytes, total_bytes) = (value("mbm_local_bytes")?, value("mbm_total_bytes")?);
    Some(Traffic { local_bytes, total_bytes })
}

impl TrafficCounters {
    /// Whether no counter is available.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of remote memory between this reading and a later one. Groups that are in one of them alone do not count; `None` if no
    /// group is in both.
    pub fn remote_until(&self, later: &Self) -> Option<u64> {
        let one = |(domain, before): (&PathBuf, &Traffic)| {
            let after = later.0.get(domain)?;
            let total = after.total_bytes.checked_sub(before.total_bytes)?;
            let local = after.local_bytes.checked_sub(before.local_bytes)?;
            Some(total.saturating_sub(local))
        };
        self.0.iter().filter_map(one).reduce(u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

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
        assert_eq!(before.0.len(), 2);
        count(&fake, "mon_data/mon_L3_00", "200\n", "1150\n");
        count(&fake, "mon_data/mon_L3_01", "5\n", "10\n");
        count(&fake, "batch/mon_data/mon_L3_00", "3\n", "28\n");
        count(&fake, "new/mon_data/mon_L3_00", "0\n", "1000000\n");
        assert_eq!(before.remote_until(&read(&fake.roots())), Some(900 + 20));
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
        count(&fake, "mon_data/mon_L3_00", "0", "7");
        assert_eq!(before.remote_until(&read(&fake.roots())), None);
        count(&fake, "mon_data/mon_L3_00", "Error", "7");
        assert_eq!(before.remote_until(&read(&fake.roots())), None);
        assert_eq!(before.remote_until(&before), Some(0));
    }
}

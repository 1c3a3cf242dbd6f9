//! Bytes of other nodes' memory that the CPUs of this host read and write: the kernel's memory bandwidth monitoring
//! (Documentation/filesystems/resctrl.rst, `mbm_local_bytes` and `mbm_total_bytes`), which Intel and AMD processors have.
//!
//! A control group counts what its own tasks and those of its monitoring groups do, so all control groups together are the host.

use crate::{Roots, files::read};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Directories of resctrl that are not control groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// Counters since an arbitrary time, by their directory: one for each control group and each L3 cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters(BTreeMap<PathBuf, Traffic>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Traffic {
    local_bytes: u64,
    total_bytes: u64,
}

/// The directory where resctrl is mounted, below the root.
pub fn mount_point(roots: &Roots) -> PathBuf {
    roots.sys.join("fs/resctrl")
}

/// Reads all counters; empty if resctrl is not mounted, or counts no bandwidth. A counter that says Unavailable, Unassigned or Error
/// is left out.
pub fn read(roots: &Roots) -> TrafficCounters {
    let root = mount_point(roots);
    let group = |name: &str| (!NO_GROUPS.contains(&name)).then(|| name.to_owned());
    let groups = read::entries(&root, group).into_values();
    let domain = |name: &str| name.starts_with("mon_").then(|| name.to_owned());
    let domains = groups
        .chain([root.clone()])
        .flat_map(|group| read::entries(&group.join("mon_data"), domain).into_values());
    TrafficCounters(
        domains.filter_map(|domain| Some((domain.clone(), traffic(&domain)?))).collect(),
    )
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

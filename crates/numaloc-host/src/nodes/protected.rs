//! Page cache that cgroups protect from reclaim, by node.
//!
//! Only cgroup v2 has memory.min and memory.low, and below the root a cgroup protects nothing unless all above it do
//! (mm/page_counter.c, `effective_protection`). So the cgroups directly below the root say it all, and few files are read however
//! many cgroups there are. How the protection is divided below them is not asked: that changes all the time, and with the mount
//! option memory_recursiveprot it is for all.

use crate::{Roots, files::read};
use numaloc_core::{NodeId, Protection};
use std::{collections::BTreeMap, fs, path::Path};

/// Bytes of page cache on inactive lists that cgroups protect, by node; at worst more than they do. Unreadable
/// cgroups count as not protected.
pub(crate) fn cache(roots: &Roots) -> BTreeMap<NodeId, u64> {
    let mut sums = BTreeMap::new();
    let entries = fs::read_dir(&roots.cgroup).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let directory = entry.path();
        let Some(protection) = protection(&directory) else { continue };
        let stat = read::text(&directory.join("memory.numa_stat")).unwrap_or_default();
        for (node, bytes) in inactive_file(&stat) {
            *sums.entry(node).or_default() += protection.of(bytes);
        }
    }
    sums.retain(|_, &mut bytes| bytes > 0);
    sums
}

/// The protection of a cgroup; `None` if it protects nothing.
fn protection(directory: &Path) -> Option<Protection> {
    // The root of cgroup v1 has no such files, nor has a cgroup without the memory controller.
    let bytes = |name: &str| match read::text(&directory.join(name)).ok()?.trim() {
        "max" => Some(u64::MAX),
        text => text.parse::<u64>().ok(),
    };
    let protected_bytes = bytes("memory.min")?.max(bytes("memory.low")?);
    if protected_bytes == 0 {
        return None;
    }
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let is_divided = entries.map(|entry| entry.path()).any(|path| path.join("memory.min").exists());
    Some(Protection { protected_bytes, usage_bytes: bytes("memory.current")?, is_divided })
}

/// The line `inactive_file N0=... N1=...` of memory.numa_stat, in bytes.
fn inactive_file(text: &str) -> impl Iterator<Item = (NodeId, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("inactive_file "));
    line.into_iter().flat_map(str::split_whitespace).filter_map(|pair| {
        let (node, bytes) = pair.strip_prefix('N')?.split_once('=')?;
        Some((NodeId(node.parse().ok()?), bytes.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn cgroup(fake: &Fake, name: &str, min: &str, low: &str, current: &str, stat: &str) {
        for (file, text) in [
            ("memory.min", min),
            ("memory.low", low),
            ("memory.current", current),
            ("memory.numa_stat", stat),
        ] {
            fake.write(&format!("cgroup/{name}/{file}"), &format!("{text}\n"));
        }
    }

    #[test]
    fn cgroups_below_the_root_are_summed_by_node() {
        let fake = Fake::new();
        assert!(cache(&fake.roots()).is_empty());
        let stat = "anon N0=900 N1=900\ninactive_file N0=50 N1=300\nactive_file N0=7 N1=7";
        cgroup(&fake, "all", "max", "0", "5000", stat);
        cgroup(&fake, "low", "0", "4900", "5000", stat);
        cgroup(&fake, "none", "0", "0", "5000", stat);
        cgroup(&fake, "old/inner", "max", "max", "5000", stat);
        let expected = [(NodeId(0), 50), (NodeId(1), 300 + 200)];
        assert_eq!(cache(&fake.roots()), expected.into());
    }

    #[test]
    fn a_cgroup_with_others_below_it_may_protect_just_what_is_cache() {
        let fake = Fake::new();
        let stat = "inactive_file N0=300";
        cgroup(&fake, "slice", "200", "0", "5000", stat);
        assert!(cache(&fake.roots()).is_empty(), "there is enough besides");
        cgroup(&fake, "slice/service", "0", "0", "5000", stat);
        assert_eq!(cache(&fake.roots()), [(NodeId(0), 200)].into());
    }
}

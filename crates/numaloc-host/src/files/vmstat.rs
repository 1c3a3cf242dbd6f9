//! Counters of /proc/vmstat, and of a node's own, that tell how migrations go and what reclaim does.

use crate::{Roots, files::read};
use numaloc_core::NodeId;

/// Counters of all page migrations on the host since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// Huge pages that were split because they could not be moved whole (thp_migration_split).
    pub split_huge_pages: u64,
    /// Base pages that could not be moved (pgmigrate_fail).
    pub failed_pages: u64,
}

/// The counters now; counters that the kernel does not have are 0. `None` when they cannot be read.
pub fn migrations(roots: &Roots) -> Option<Migrations> {
    let text = read::text(&roots.proc.join("vmstat")).ok()?;
    Some(Migrations {
        split_huge_pages: counter(&text, "thp_migration_split"),
        failed_pages: counter(&text, "pgmigrate_fail"),
    })
}

/// Pages that the kernel's NUMA balancing has moved on this host since boot (numa_pages_migrated); `None` if the kernel does not
/// count them.
pub fn balanced_pages(roots: &Roots) -> Option<u64> {
    let text = read::text(&roots.proc.join("vmstat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("numa_pages_migrated ")?.parse().ok())
}

/// Counters of reclaim since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Pages written to swap, on the whole host (pswpout).
    pub swapped_out_pages: u64,
    /// Pages of files that were read into this node soon after they had been dropped (workingset_refault_file). The kernel counts
    /// them where they come to (mm/workingset.c, `workingset_refault`): one that finds no room here again, and goes to another
    /// node, is not among them.
    pub refaulted_pages: u64,
}

/// The counters now; `None` when they cannot be read.
pub fn reclaimed(roots: &Roots, node: NodeId) -> Option<Reclaimed> {
    let host = read::text(&roots.proc.join("vmstat")).ok()?;
    let of_node = roots.sys.join(format!("devices/system/node/node{node}/vmstat"));
    let of_node = read::text(&of_node).ok()?;
    Some(Reclaimed {
        swapped_out_pages: counter(&host, "pswpout"),
        refaulted_pages: counter(&of_node, "workingset_refault_file"),
    })
}

/// A counter by its name; 0 if the kernel does not have it.
fn counter(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn pages_that_balancing_moves_are_counted_if_the_kernel_has_it() {
        let fake = Fake::new();
        fake.write("proc/vmstat", "pgmigrate_success 9\n");
        assert_eq!(balanced_pages(&fake.roots()), None);
        fake.write("proc/vmstat", "pgmigrate_success 9\nnuma_pages_migrated 7\n");
        assert_eq!(balanced_pages(&fake.roots()), Some(7));
    }

    #[test]
    fn reclaim_is_counted_by_node_and_swapping_by_host() {
        let fake = Fake::new();
        assert_eq!(reclaimed(&fake.roots(), NodeId(1)), None);
        fake.write("proc/vmstat", "pswpin 1\npswpout 2\nworkingset_refault_file 9\n");
        let node = "nr_free_pages 5\nworkingset_refault_anon 6\nworkingset_refault_file 7\n";
        fake.write("sys/devices/system/node/node1/vmstat", node);
        let expected = Reclaimed { swapped_out_pages: 2, refaulted_pages: 7 };
        assert_eq!(reclaimed(&fake.roots(), NodeId(1)), Some(expected));
    }

    #[test]
    fn counters_are_found_by_name() {
        let fake = Fake::new();
        assert_eq!(migrations(&fake.roots()), None);
        fake.write(
            "proc/vmstat",
            "pgmigrate_success 1\npgmigrate_fail 2\nthp_migration_fail 3\nthp_migration_split 4\n",
        );
        let expected = Migrations { split_huge_pages: 4, failed_pages: 2 };
        assert_eq!(migrations(&fake.roots()), Some(expected));
        fake.write("proc/vmstat", "");
        assert_eq!(migrations(&fake.roots()), Some(Migrations::default()));
    }
}

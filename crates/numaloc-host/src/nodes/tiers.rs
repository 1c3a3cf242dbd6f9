//! The kernel's memory tiers (mm/memory-tiers.c, from 6.1 on): `/sys/devices/virtual/memory_tiering/memory_tierN/nodelist`.

use crate::{Roots, files::read};
use numaloc_core::{NodeId, NodeSet};
use std::{collections::BTreeMap, fs};

/// The number of the tier of each node; empty where the kernel has none. Unreadable tiers are left out.
pub fn read(roots: &Roots) -> BTreeMap<NodeId, u32> {
    let directory = roots.sys.join("devices/virtual/memory_tiering");
    let mut tiers = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("memory_tier")?.parse().ok());
        let nodes = read::text(&entry.path().join("nodelist")).ok();
        let nodes = nodes.and_then(|text| text.trim().parse::<NodeSet>().ok());
        if let (Some(number), Some(nodes)) = (number, nodes) {
            tiers.extend(nodes.iter().map(|node| (node, number)));
        }
    }
    tiers
}

/// Whether the kernel demotes memory to lower tiers instead of dropping it (mm/memory-tiers.c, `demotion_enabled`).
pub fn has_demotion(roots: &Roots) -> bool {
    let text = read::text(&roots.sys.join("kernel/mm/numa/demotion_enabled"));
    text.is_ok_and(|text| text.trim() == "true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn tiers_are_read_and_may_be_missing() {
        let fake = Fake::new();
        assert!(read(&fake.roots()).is_empty());
        let tier = |name: &str, nodes: &str| {
            fake.write(&format!("sys/devices/virtual/memory_tiering/{name}/nodelist"), nodes);
        };
        tier("memory_tier4", "0-1\n");
        tier("memory_tier22", "8\n");
        tier("memory_tier9", "nonsense\n");
        tier("power", "3\n");
        let tiers = [(NodeId(0), 4), (NodeId(1), 4), (NodeId(8), 22)];
        assert_eq!(read(&fake.roots()), tiers.into());
    }
}

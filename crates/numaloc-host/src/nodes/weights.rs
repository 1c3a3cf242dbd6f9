//! The kernel's weights for MPOL_WEIGHTED_INTERLEAVE (Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave).

use crate::{Roots, files::read};
use numaloc_core::{NodeId, Speeds};
use std::path::PathBuf;

fn directory(roots: &Roots) -> PathBuf {
    roots.sys.join("kernel/mm/mempolicy/weighted_interleave")
}

/// `speeds` with the kernel's weights; without any before 6.9.
pub fn read(roots: &Roots, speeds: Speeds) -> Speeds {
    let directory = directory(roots);
    let id = |name: &str| name.strip_prefix("node")?.parse().ok().map(NodeId);
    let weight = |(node, path): (NodeId, PathBuf)| {
        // A weight that was taken back reads as that of the system; 0 counts as 1 (mm/mempolicy.c, `get_il_weight`).
        let weight = read::text(&path).ok()?.trim().parse::<u8>().ok()?;
        Some((node, weight.max(1)))
    };
    Speeds {
        kernel_weights: read::entries(&directory, id).into_iter().filter_map(weight).collect(),
        kernel_computes_weights: directory.join("auto").exists(),
        ..speeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn weights_are_those_of_the_kernel() {
        let fake = Fake::new();
        let weights = |fake: &Fake| read(&fake.roots(), Speeds::default());
        assert_eq!(weights(&fake), Speeds::default());
        let write = |name: &str, text: &str| {
            fake.write(&format!("sys/kernel/mm/mempolicy/weighted_interleave/{name}"), text);
        };
        write("node0", "7\n");
        write("node8", "1\n");
        write("node9", "x\n");
        let found = weights(&fake);
        assert_eq!(found.kernel_weights, [(NodeId(0), 7), (NodeId(8), 1)].into());
        assert!(!found.kernel_computes_weights && found.are_weights_set());
        write("auto", "true\n");
        assert!(weights(&fake).kernel_computes_weights);
    }
}

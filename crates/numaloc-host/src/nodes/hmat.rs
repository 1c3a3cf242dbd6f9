//! Cost of memory by the firmware (ACPI HMAT, or CDAT for CXL), as the kernel shows it: nodeN/accessC/initiators
//! (Documentation/admin-guide/mm/numaperf.rst). It names the best initiators of a node alone, most often only the node itself.

use crate::{Roots, files::read};
use numaloc_core::{NodeId, Speed, SpeedTable};
use std::{collections::BTreeMap, path::Path};

const MIB: u64 = 1 << 20;

/// By the node of the CPUs and that of the memory; empty where the firmware says nothing.
pub fn read(roots: &Roots) -> SpeedTable {
    let nodes = roots.sys.join("devices/system/node");
    let id = |name: &str| name.strip_prefix("node")?.parse().ok().map(NodeId);
    let mut all: SpeedTable = BTreeMap::new();
    for (memory_node, directory) in read::entries(&nodes, id) {
        // Class 1 is about CPUs alone, class 0 about other initiators, too (drivers/base/node.c).
        let classes =
            ["access1/initiators", "access0/initiators"].map(|class| directory.join(class));
        for class in classes.iter().rev() {
            let initiators = read::entries(class, id);
            if initiators.is_empty() {
                continue;
            }
            let found = performance(class);
            all.extend(initiators.into_keys().map(|cpu_node| ((cpu_node, memory_node), found)));
        }
    }
    all.retain(|_, found| *found != Speed::default());
    all
}

fn performance(class: &Path) -> Speed {
    let value = |name: &str| {
        let value = read::text(&class.join(name)).ok()?.trim().parse::<u64>().ok()?;
        // The kernel writes 0 for what the table leaves out.
        Some(value).filter(|&value| value > 0)
    };
    let latency = |name| Some(value(name)?.saturating_mul(1000));
    let bandwidth = |name| Some(value(name)?.saturating_mul(MIB));
    Speed {
        latency_ps: latency("read_latency"),
        write_latency_ps: latency("write_latency"),
        read_bandwidth: bandwidth("read_bandwidth"),
        write_bandwidth: bandwidth("write_bandwidth"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn the_class_of_cpus_wins() {
        let fake = Fake::new();
        assert!(read(&fake.roots()).is_empty());
        let write = |path: &str, text: &str| {
            fake.write(&format!("sys/devices/system/node/node8/{path}"), text);
        };
        write("access0/initiators/node0/cpulist", "0\n");
        write("access0/initiators/node2/cpulist", "2\n");
        write("access0/initiators/read_latency", "90\n");
        write("access1/initiators/node2/cpulist", "2\n");
        write("access1/initiators/read_latency", "300\n");
        write("access1/initiators/read_bandwidth", "3000\n");
        write("access1/initiators/write_bandwidth", "2000\n");
        write("access1/initiators/write_latency", "nonsense\n");
        let first = Speed { latency_ps: Some(90_000), ..Speed::default() };
        let second = Speed {
            latency_ps: Some(300_000),
            read_bandwidth: Some(3000 << 20),
            write_bandwidth: Some(2000 << 20),
            ..Speed::default()
        };
        let expected = [((NodeId(0), NodeId(8)), first), ((NodeId(2), NodeId(8)), second)];
        assert_eq!(read(&fake.roots()), expected.into());
    }
}

//! What the kernel shows of the memory of nodes besides its size: the driver that has added it, the zone that it is in, and caches in front
//! of it. Files that are missing or not understood leave a fact unknown.

use crate::{
    Roots,
    files::read::{self, hexadecimal, number},
    nodes::dax_memory,
};
use numaloc_core::{MemoryOrigin, NodeId, NodeNature, NodeSet, SideCache};
use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

/// By node. Nodes of which nothing is known are missing. `movable_bytes` has what is in the zone Movable of each.
pub(crate) fn read(
    roots: &Roots,
    movable_bytes: &BTreeMap<NodeId, u64>,
) -> BTreeMap<NodeId, NodeNature> {
    let mut natures: BTreeMap<NodeId, NodeNature> = BTreeMap::new();
    for (&node, &bytes) in movable_bytes {
        natures.entry(node).or_default().movable_bytes = Some(bytes);
    }
    for (node, caches) in side_caches(roots) {
        natures.entry(node).or_default().side_caches = caches;
    }
    // A later one wins.
    for (node, origin) in cxl_regions(roots).chain(by_dax(roots)).chain(gpus(roots)) {
        natures.entry(node).or_default().origin = Some(origin);
    }
    for node in private(roots).iter() {
        natures.entry(node).or_default().origin = Some(MemoryOrigin::Private);
    }
    natures
}

fn node_name(name: &str) -> Option<NodeId> {
    name.strip_prefix("node")?.parse().ok().map(NodeId)
}

/// Documentation/admin-guide/mm/numaperf.rst.
fn side_caches(roots: &Roots) -> BTreeMap<NodeId, Vec<SideCache>> {
    let nodes = read::entries(&roots.sys.join("devices/system/node"), node_name);
    let of_node = |(node, directory): (NodeId, PathBuf)| {
        let level = |name: &str| name.strip_prefix("index")?.parse::<u32>().ok();
        let all = read::entries(&directory.join("memory_side_cache"), level);
        let cache = |(level, directory): (u32, PathBuf)| {
            let bytes = number(&directory.join("size")).filter(|&bytes: &u64| bytes > 0)?;
            let line_bytes = number(&directory.join("line_size")).unwrap_or(0);
            Some(SideCache { level, bytes, line_bytes })
        };
        let caches: Vec<SideCache> = all.into_iter().filter_map(cache).collect();
        (!caches.is_empty()).then_some((node, caches))
    };
    nodes.into_iter().filter_map(of_node).collect()
}

/// Nodes that ordinary allocations must not use: those that the kernel lists as such, and those that are not among the ones with memory
/// (the core ignores them if they have none).
fn private(roots: &Roots) -> NodeSet {
    let list = |name: &str| -> Option<NodeSet> {
        number(&roots.sys.join("devices/system/node").join(name))
    };
    let listed = list("has_private_memory").unwrap_or_default();
    let left_out = list("online").zip(list("has_memory"));
    listed.or(&left_out.map(|(online, with)| online.minus(&with)).unwrap_or_default())
}

/// Nodes with the memory of GPUs: the first line of a file of NVIDIA's driver, `Node: 8`.
fn gpus(roots: &Roots) -> impl Iterator<Item = (NodeId, MemoryOrigin)> {
    let all = read::entries(&roots.proc.join("driver/nvidia/gpus"), |name| Some(name.to_owned()));
    let node = |path: &Path| -> Option<NodeId> {
        let text = read::text(&path.join("numa_status")).ok()?;
        read::field(&text, "Node")?.parse().ok().map(NodeId)
    };
    let nodes = all.into_values().filter_map(move |path| node(&path));
    nodes.map(|node| (node, MemoryOrigin::Gpu))
}

/// Nodes whose memory the driver kmem has made of DAX devices, by what these are made of.
fn by_dax(roots: &Roots) -> impl Iterator<Item = (NodeId, MemoryOrigin)> {
    let origin = |(node, _, path): (NodeId, _, PathBuf)| {
        Some((node, made_of(&fs::canonicalize(&path).ok()?)?))
    };
    dax_memory::devices(roots).filter_map(origin)
}

/// By the devices above it: a bus of persistent memory (drivers/nvdimm), or a decoder of CXL (drivers/cxl). `None` for memory that the
/// firmware has set apart for special purposes (drivers/dax/hmem), which may be of any kind.
fn made_of(device: &Path) -> Option<MemoryOrigin> {
    let above = |prefix: &str| {
        let names = device.components().filter_map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        let number = |name: &str| name.strip_prefix(prefix).map(|rest| rest.as_bytes().to_vec());
        names.filter_map(number).any(|rest| rest.first().is_some_and(u8::is_ascii_digit))
    };
    match () {
        () if above("ndbus") => Some(MemoryOrigin::Persistent),
        () if above("decoder") => Some(MemoryOrigin::Cxl),
        () => None,
    }
}

/// Nodes with the memory of CXL regions that no driver had to add, because the firmware has it as ordinary memory: by the memory block
/// that the region begins with (Documentation/ABI/testing/sysfs-bus-cxl; Documentation/ABI/testing/sysfs-devices-memory).
fn cxl_regions(roots: &Roots) -> impl Iterator<Item = (NodeId, MemoryOrigin)> {
    let region = |name: &str| name.strip_prefix("region")?.parse::<u32>().ok();
    let regions = read::entries(&roots.sys.join("bus/cxl/devices"), region);
    let memory = roots.sys.join("devices/system/memory");
    let block_bytes = hexadecimal(&memory.join("block_size_bytes")).filter(|&bytes| bytes > 0);
    let nodes = regions.into_values().filter_map(move |directory| {
        let start = hexadecimal(&directory.join("resource"))?;
        let block = memory.join(format!("memory{}", start / block_bytes?));
        read::entries(&block, node_name).into_keys().next()
    });
    nodes.map(|node| (node, MemoryOrigin::Cxl))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, nodes::node_memory::NodeMemoryReader};

    /// A DAX device that the driver kmem has.
    fn memory_of(fake: &Fake, name: &str, device: &str, target_node: &str) {
        fake.write(&format!("{device}/target_node"), target_node);
        fake.link(&format!("sys/bus/dax/devices/{name}"), device);
        fake.link(&format!("{device}/driver"), "sys/bus/dax/drivers/kmem");
    }

    fn origins(fake: &Fake) -> Vec<(u32, MemoryOrigin)> {
        let natures = read(&fake.roots(), &BTreeMap::new()).into_iter();
        natures.filter_map(|(node, nature)| Some((node.0, nature.origin?))).collect()
    }

    #[test]
    fn memory_of_drivers_is_known_by_what_is_above_its_devices() {
        let fake = Fake::new();
        assert!(origins(&fake).is_empty(), "nothing is there");
        let pmem = "sys/devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0/dax0.1/dax0.0";
        memory_of(&fake, "dax0.0", pmem, "2\n");
        let cxl = "sys/devices/platform/ACPI0017:00/root0/decoder0.0/region1/dax_region1/dax1.0";
        memory_of(&fake, "dax1.0", cxl, "3\n");
        memory_of(&fake, "dax2.0", "sys/devices/platform/hmem.0/dax2.0", "4\n");
        memory_of(&fake, "dax3.0", "sys/devices/ndbusiness/dax3.0", "5\n");
        memory_of(&fake, "dax4.0", "sys/devices/ndbus1/region9/dax4.0", "-1\n");
        let expected = [(2, MemoryOrigin::Persistent), (3, MemoryOrigin::Cxl)];
        assert_eq!(origins(&fake), expected);
    }

    #[test]
    fn memory_of_gpus_cxl_regions_and_private_nodes_is_known() {
        let fake = Fake::new();
        let gpu = "proc/driver/nvidia/gpus/0008:01:00.0/numa_status";
        fake.write(gpu, "Node: 8\nStatus: online\n");
        fake.write("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node: -1\n");
        fake.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
        fake.write("sys/devices/system/memory/memory32/node3/cpulist", "");
        fake.write("sys/bus/cxl/devices/region0/resource", "0x100000000\n");
        fake.write("sys/bus/cxl/devices/region1/resource", "nonsense\n");
        fake.write("sys/bus/cxl/devices/region2/resource", "0xffffffffffffffff\n");
        fake.write("sys/devices/system/node/has_private_memory", "5\n");
        fake.write("sys/devices/system/node/online", "0-1,3,5-6\n");
        fake.write("sys/devices/system/node/has_memory", "0-1,3\n");
        let expected = [
            (3, MemoryOrigin::Cxl),
            (5, MemoryOrigin::Private),
            (6, MemoryOrigin::Private),
            (8, MemoryOrigin::Gpu),
        ];
        assert_eq!(origins(&fake), expected);
        fake.write("sys/devices/system/memory/block_size_bytes", "0\n");
        fake.write("sys/devices/system/node/has_memory", "nonsense\n");
        assert_eq!(origins(&fake), [expected[1], expected[3]]);
    }

    #[test]
    fn zones_and_caches_are_those_of_their_node() {
        let fake = Fake::new();
        let zone = |node: u32, name: &str, managed: &str| {
            format!("Node {node}, zone {name}\n        present  9\n        managed  {managed}\n")
        };
        let zones = [
            zone(0, "Normal", "100"),
            zone(2, "Normal", "0"),
            zone(2, "Movable", "32"),
            zone(3, "Movable", "x"),
        ];
        fake.write("proc/zoneinfo", &zones.concat());
        let cache = |index: &str, size: &str| {
            let directory = format!("sys/devices/system/node/node0/memory_side_cache/{index}");
            fake.write(&format!("{directory}/size"), size);
            fake.write(&format!("{directory}/line_size"), "64\n");
        };
        cache("index1", "524288\n");
        cache("index2", "nonsense\n");
        cache("power", "7\n");
        let memory = NodeMemoryReader::new(&fake.roots()).expect("it has zones");
        let natures = read(&fake.roots(), memory.movable_bytes());
        let movable = |node| natures[&NodeId(node)].movable_bytes;
        let expected = (Some(0), Some(32 * numaloc_core::page_size()), Some(0));
        assert_eq!((movable(0), movable(2), movable(3)), expected);
        let expected = [SideCache { level: 1, bytes: 524_288, line_bytes: 64 }];
        assert_eq!(natures[&NodeId(0)].side_caches, expected);
    }
}

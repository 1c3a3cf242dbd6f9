//! What is on a node, by kind (nodeN/meminfo), by owner (memory.numa_stat of all cgroups) and by block.

use crate::{
    Error, Roots,
    files::read,
    nodes::{
        node_memory::{NodeMemoryReader, meminfo_bytes},
        topology,
    },
    processes::cgroup,
};
use numaloc_core::{
    NodeId, NodeSet,
    contents::{ContentKind, ContentOwner, MemoryBlocks, NodeContents},
    live::CountedMemory,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Most cgroups that are looked at.
const MOST: usize = 100_000;

/// What is on these nodes, in ascending order; if there are none, on all nodes with memory.
///
/// # Errors
/// [`Error::BadNode`] for one that does not exist or has no memory; a file cannot be parsed.
pub fn contents(roots: &Roots, nodes: &NodeSet) -> Result<Vec<NodeContents>, Error> {
    let topology = topology::topology(roots)?;
    topology::check_nodes(roots, &topology, nodes)?;
    match nodes.is_empty() {
        true => read_all(roots, &topology.with_memory()),
        false => read_all(roots, nodes),
    }
}

fn read_all(roots: &Roots, nodes: &NodeSet) -> Result<Vec<NodeContents>, Error> {
    let (reader, owners) = (NodeMemoryReader::new(roots)?, owners(roots));
    nodes.iter().map(|node| on(roots, &reader, node, &owners)).collect()
}

fn on(
    roots: &Roots,
    reader: &NodeMemoryReader,
    node: NodeId,
    owners: &[(String, CountedMemory)],
) -> Result<NodeContents, Error> {
    let directory = roots.sys.join(format!("devices/system/node/node{node}"));
    let memory = reader.read(node)?;
    let text = read::text(&directory.join("meminfo"))?;
    let bytes = |field: &str| meminfo_bytes(&text, field).unwrap_or(0);
    let pools = |pages: fn(&numaloc_core::HugePool) -> u64| -> u64 {
        memory.huge_pools.iter().map(|pool| pages(pool).saturating_mul(pool.page_bytes)).sum()
    };
    let shmem = bytes("Shmem:");
    let known = [
        (ContentKind::Anonymous, bytes("AnonPages:")),
        (ContentKind::Shmem, shmem),
        (ContentKind::Cache, bytes("FilePages:").saturating_sub(shmem)),
        (ContentKind::Hugetlb, pools(|pool| pool.total_pages.saturating_sub(pool.free_pages))),
        (ContentKind::FreeHugetlb, pools(|pool| pool.free_pages)),
        (ContentKind::Slab, bytes("Slab:")),
        (ContentKind::PageTables, bytes("PageTables:") + bytes("SecPageTables:")),
        (ContentKind::KernelStack, bytes("KernelStack:")),
    ];
    let used = memory.total_bytes.saturating_sub(memory.free_bytes);
    // The counts are of different moments.
    let other = used.saturating_sub(known.iter().map(|(_, bytes)| bytes).sum());
    let kinds = known.into_iter().chain([(ContentKind::Other, other)]);
    Ok(NodeContents {
        node,
        total_bytes: memory.total_bytes,
        free_bytes: memory.free_bytes,
        kinds: kinds.filter(|(_, bytes)| *bytes > 0).collect(),
        owners: owners_on(node, owners),
        blocks: blocks(roots, &directory),
    })
}

/// The owners of memory on a node, those with most first.
fn owners_on(node: NodeId, owners: &[(String, CountedMemory)]) -> Vec<ContentOwner> {
    let on = |nodes: &BTreeMap<NodeId, u64>| nodes.get(&node).copied().unwrap_or(0);
    let owner = |(cgroup, memory): &(String, CountedMemory)| ContentOwner {
        cgroup: cgroup.clone(),
        memory_bytes: on(&memory.nodes),
        cache_bytes: on(&memory.cache),
    };
    let bytes = |owner: &ContentOwner| owner.memory_bytes + owner.cache_bytes;
    let mut found: Vec<_> = owners.iter().map(owner).filter(|owner| bytes(owner) > 0).collect();
    found.sort_by_key(|owner| std::cmp::Reverse(bytes(owner)));
    found
}

/// The cgroups whose memory is counted by node, with what they have without those below them. The first hierarchy in
/// which one is counted.
fn owners(roots: &Roots) -> Vec<(String, CountedMemory)> {
    let hierarchies = cgroup::hierarchies(&roots.cgroup).into_iter();
    hierarchies.map(|top| owners_below(&top)).find(|found| !found.is_empty()).unwrap_or_default()
}

fn owners_below(top: &Path) -> Vec<(String, CountedMemory)> {
    let mut counted: BTreeMap<PathBuf, CountedMemory> = BTreeMap::new();
    let (mut left, mut seen) = (vec![top.to_owned()], 0);
    while let Some(directory) = left.pop().filter(|_| seen < MOST) {
        seen += 1;
        if let Some(memory) = cgroup::numa_stat_of(&directory) {
            counted.insert(directory.clone(), memory);
        }
        left.extend(cgroup::children(&directory));
    }
    let mut below: BTreeMap<PathBuf, CountedMemory> = BTreeMap::new();
    for (path, memory) in &counted {
        let mut above = path.ancestors().skip(1).take_while(|above| above.starts_with(top));
        if let Some(above) = above.find(|above| counted.contains_key(*above)) {
            below.entry(above.to_owned()).or_default().add(memory);
        }
    }
    let nothing = CountedMemory::default();
    let own = |(path, memory): (PathBuf, CountedMemory)| {
        let name = path.strip_prefix(top).unwrap_or(&path).to_string_lossy();
        (format!("/{name}"), memory.without(below.get(&path).unwrap_or(&nothing)))
    };
    counted.into_iter().map(own).collect()
}

/// The blocks of a node (Documentation/admin-guide/mm/memory-hotplug.rst).
fn blocks(roots: &Roots, node: &Path) -> MemoryBlocks {
    let size = read::hexadecimal(&roots.sys.join("devices/system/memory/block_size_bytes"));
    let mut blocks = MemoryBlocks { block_bytes: size.unwrap_or(0), ..MemoryBlocks::default() };
    let links = read::entries(node, |name| name.strip_prefix("memory")?.parse::<u64>().ok());
    for block in links.into_values() {
        let word = |file: &str| read::text(&block.join(file)).unwrap_or_default();
        // The first zone is the one that an online block is in.
        let count = match (word("state").trim(), word("valid_zones").split_whitespace().next()) {
            ("online", Some("Movable")) => &mut blocks.movable,
            ("online", _) => &mut blocks.kernel,
            _ => &mut blocks.offline,
        };
        *count += 1;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_node_has_kinds_owners_and_blocks() {
        let fake = Fake::new();
        fake.write("proc/zoneinfo", "");
        let node = "sys/devices/system/node/node2";
        let meminfo = "Node 2 MemTotal: 1000 kB\nNode 2 MemFree: 100 kB\nNode 2 FilePages: 300 kB\n\
            Node 2 AnonPages: 200 kB\nNode 2 Shmem: 50 kB\nNode 2 KernelStack: 16 kB\n\
            Node 2 PageTables: 8 kB\nNode 2 SecPageTables: 4 kB\nNode 2 Slab: 64 kB\n";
        fake.write(&format!("{node}/meminfo"), meminfo);
        fake.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
        for (number, state, zones) in [
            (7, "online", "Movable\n"),
            (8, "online", "Normal\n"),
            (9, "offline", "Normal Movable\n"),
        ] {
            fake.write(&format!("{node}/memory{number}/state"), &format!("{state}\n"));
            fake.write(&format!("{node}/memory{number}/valid_zones"), zones);
        }
        let stat = |anon: u64, file: u64| {
            format!("anon N0=0 N2={anon}\nfile N0=4096 N2={file}\nfile_mapped N2=0\nshmem N2=0\n")
        };
        fake.write("cgroup/cgroup.procs", "");
        fake.write("cgroup/memory.numa_stat", &stat(90 << 10, 300 << 10));
        fake.write("cgroup/a/memory.numa_stat", &stat(60 << 10, 0));
        fake.write("cgroup/a/b/memory.numa_stat", &stat(20 << 10, 0));
        fake.write("cgroup/none/memory.numa_stat", &stat(0, 0));
        let nodes = |text: &str| text.parse::<NodeSet>().unwrap();
        let [found] = &read_all(&fake.roots(), &nodes("2")).expect("it is there")[..] else {
            panic!("one node")
        };
        let kib = |kind| found.kinds.get(&kind).map(|bytes| bytes >> 10);
        let kinds = ContentKind::ALL.map(kib);
        let expected = [
            Some(200),
            Some(50),
            Some(250),
            None,
            None,
            Some(64),
            Some(12),
            Some(16),
            Some(1000 - 100 - 300 - 200 - 16 - 12 - 64),
        ];
        assert_eq!(kinds, expected);
        let owners: Vec<_> = found
            .owners
            .iter()
            .map(|owner| (&*owner.cgroup, owner.memory_bytes >> 10, owner.cache_bytes >> 10))
            .collect();
        assert_eq!(owners, [("/", 30, 300), ("/a", 40, 0), ("/a/b", 20, 0)]);
        let blocks = MemoryBlocks { block_bytes: 128 << 20, movable: 1, kernel: 1, offline: 1 };
        assert_eq!(found.blocks, blocks);
        assert!(read_all(&fake.roots(), &nodes("3")).is_err(), "no such node");
    }
}

//! Mappings whose pages can never move. They are in no extent: nothing is planned for them, and no run looks at them.

use crate::{
    Error, Roots,
    files::maps::{Object, Vma},
    nodes::storage::StorageNodes,
    survey::{
        extents::{self, Part},
        residency::ExtentPages,
    },
};
use numaloc_core::{FixedKind, FixedMemory, NodeId};
use std::collections::BTreeMap;

/// Takes such mappings out of the lists of each process. The pages of one object at one place count once, also if
/// several processes map it.
pub(crate) fn take(all: &mut [Vec<Vma>]) -> Vec<(FixedKind, Part)> {
    let mut found = BTreeMap::new();
    for (process, vmas) in all.iter_mut().enumerate() {
        for vma in vmas.extract_if(.., |vma| vma.fixed.is_some()) {
            let key = match vma.object {
                // One inode is behind all objects of this name, and behind all mappings by the driver of a device.
                _ if vma.fixed == Some(FixedKind::Device)
                    || vma.name.starts_with("anon_inode:") =>
                {
                    (Object::Anonymous, process, vma.start, 0)
                }
                object => (object, 0, vma.offset, vma.end - vma.start),
            };
            found.entry(key).or_insert((process, vma));
        }
    }
    let part = |(process, vma): (usize, Vma)| Some((vma.fixed?, extents::fixed(process, vma)));
    found.into_values().filter_map(part).collect()
}

/// The sums by kind. `find` finds where the pages of parts are.
///
/// # Errors
/// The errors of `find`.
pub(crate) fn sum(
    all: &[(FixedKind, Part)],
    roots: &Roots,
    find: impl Fn(&[Part]) -> Result<Vec<ExtentPages>, Error>,
) -> Result<FixedMemory, Error> {
    let (mut sums, mut storage) = (FixedMemory::new(), StorageNodes::new(roots));
    for (kind, part) in all {
        let sum = sums.entry(*kind).or_default();
        sum.mapped_bytes += part.extent.bytes;
        if *kind == FixedKind::Dax {
            add_storage(&mut sum.nodes, &mut storage, part);
        }
        if !kind.is_looked_at() {
            continue;
        }
        for found in find(std::slice::from_ref(part))? {
            for (node, on) in found.own.into_iter().flat_map(|(_, residency)| residency.nodes) {
                *sum.nodes.entry(node).or_default() += on.total_bytes();
            }
        }
    }
    Ok(sums)
}

/// Adds the storage behind a mapping to the node that it is attached to, if that is known.
fn add_storage(nodes: &mut BTreeMap<NodeId, u64>, storage: &mut StorageNodes<'_>, part: &Part) {
    let device = match part.object {
        Object::File { device, .. } => device,
        // The file system is not on a disk, such as the one that has /dev.
        _ => (0, 0),
    };
    if let Some(node) = storage.of(&part.extent.name, device) {
        *nodes.entry(node).or_default() += part.extent.bytes;
    }
}

/// Storage that is mapped without page cache by the processes with these mappings, in bytes by the node that it is attached to.
pub(crate) fn storage(roots: &Roots, all: &mut [Vec<Vma>]) -> BTreeMap<NodeId, u64> {
    let parts = take(all).into_iter().filter(|(kind, _)| *kind == FixedKind::Dax);
    let (mut nodes, mut storage) = (BTreeMap::new(), StorageNodes::new(roots));
    for (_, part) in parts {
        add_storage(&mut nodes, &mut storage, &part);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, files::maps::parse_line};

    #[test]
    fn an_object_counts_once_and_what_has_no_inode_of_its_own_by_process() {
        let vmas = |lines: &[&str]| lines.iter().filter_map(|line| parse_line(line)).collect();
        let ring = "1000-3000 rw-s 00000000 00:0e 13 anon_inode:[io_uring]";
        let socket = "5000-9000 rw-s 00000000 00:08 4711 socket:[4711]";
        let heap = "a000-b000 rw-p 00000000 00:00 0 [heap]";
        let mut all: Vec<Vec<Vma>> = vec![vmas(&[ring, socket, heap]), vmas(&[ring, socket])];
        let parts = take(&mut all);
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0]);
        let none = |parts: &[Part]| Ok(vec![ExtentPages::default(); parts.len()]);
        let sums = sum(&parts, &Fake::new().roots(), none).expect("nothing is read");
        assert_eq!(sums[&FixedKind::Kernel].mapped_bytes, 2 * 0x2000 + 0x4000);
        assert_eq!(sums.len(), 1);
    }

    /// Storage may be larger than all memory, so none of its page map is read.
    #[test]
    fn storage_counts_by_its_node_and_is_not_looked_at() {
        let fake = Fake::new();
        for (directory, node) in [("dev/block/259:0", "1"), ("bus/dax/devices/dax0.0", "0")] {
            fake.write(&format!("sys/{directory}/numa_node"), node);
        }
        let lines = [
            "1000-3000 rw-s 00000000 103:00 13 /pmem/a",
            "3000-4000 rw-s 00004000 103:00 13 /pmem/a",
            "5000-6000 rw-p 00000000 103:01 13 /unknown/a",
            "200000-400000 rw-s 00000000 00:05 9 /dev/dax0.0",
        ];
        let vmas = || -> Vec<Vma> {
            let vmas = lines.iter().filter_map(|line| parse_line(line));
            vmas.map(|vma| Vma { fixed: Some(FixedKind::Dax), ..vma }).collect()
        };
        let parts = take(&mut [vmas(), vmas()]);
        let never = |_: &[Part]| panic!("it is looked at");
        let sums = sum(&parts, &fake.roots(), never).expect("nothing is read");
        let storage = &sums[&FixedKind::Dax];
        assert_eq!(storage.mapped_bytes, 0x3000 + 0x1000 + (2 << 20));
        let nodes = BTreeMap::from([(NodeId(0), 2 << 20), (NodeId(1), 0x3000)]);
        assert_eq!(storage.nodes, nodes);
        assert_eq!(super::storage(&fake.roots(), &mut [vmas()]), nodes);
    }
}

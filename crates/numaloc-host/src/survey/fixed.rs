//! Mappings whose pages can never move. They are in no extent: nothing is planned for them, and no run looks at them.

use crate::{
    Error,
    files::maps::{Object, Vma},
    survey::{
        extents::{self, Part},
        residency::ExtentPages,
    },
};
use numaloc_core::{FixedKind, FixedMemory};
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
    find: impl Fn(&[Part]) -> Result<Vec<ExtentPages>, Error>,
) -> Result<FixedMemory, Error> {
    let mut sums = FixedMemory::new();
    for (kind, part) in all {
        let sum = sums.entry(*kind).or_default();
        sum.mapped_bytes += part.extent.bytes;
        if !kind.is_looked_at() {
            continue;
        }
        for found in find(std::slice::from_ref(part))? {
            for (&node, on) in found.own.values().flat_map(|residency| &residency.nodes) {
                *sum.resident.entry(node).or_default() += on.total_bytes();
            }
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::maps::parse_line;

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
        let sums = sum(&parts, none).expect("nothing is read");
        assert_eq!(sums[&FixedKind::Kernel].mapped_bytes, 2 * 0x2000 + 0x4000);
        assert_eq!(sums.len(), 1);
    }
}

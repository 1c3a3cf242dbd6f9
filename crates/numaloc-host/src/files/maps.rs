//! VMAs from /proc/PID/maps (fs/proc/task_mmu.c, `show_map_vma`).
//!
//! Read here rather than with the procfs crate: its reader slices fixed columns of a `/SYSV...` name, and any
//! container can map a file of such a name.

use crate::files::fixed;
use numaloc_core::{FixedKind, Kind, Mappers, Rule};
use std::{collections::HashSet, sync::Arc};

/// The object behind a VMA. VMAs with the same object may share pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// Private anonymous memory: forked processes have it at the same addresses.
    Anonymous,
    /// A file or a piece of shared memory, by device and inode.
    File {
        /// Device as major and minor number.
        device: (u32, u32),
        inode: u64,
    },
    /// A System V segment. The kernel shows its id as the inode (ipc/shm.c, `newseg`). Each IPC namespace numbers its own
    /// segments, the first one 0, and all are on one device, on which memfds have inodes of their own.
    Segment {
        /// Device as major and minor number.
        device: (u32, u32),
        /// Inode of the IPC namespace; 0 until [`Object::within`].
        namespace: u64,
        id: u64,
    },
    /// A file on a file system whose device and inode, as maps shows them, are not known to stand for one file. All mappings of such
    /// inodes are one object, and what they share is found out by comparing page frames, as for private memory.
    Compared {
        /// The file's inode number as overlays pass it on: [`Self::low_bits`].
        inode: u64,
    },
}

impl Object {
    /// The bits of an inode number that an overlay leaves as they are in the layer below: it may keep the layer's number in those
    /// above (fs/overlayfs/inode.c, `ovl_map_dev_ino`; they are few, `xino_bits`).
    pub(crate) fn low_bits(inode: u64) -> u64 {
        inode & (u64::MAX >> 16)
    }

    /// Whether mappings of both may show the same pages.
    pub(crate) fn may_share(self, other: Self) -> bool {
        match (self, other) {
            (Self::Compared { inode }, Self::File { inode: shown, .. })
            | (Self::File { inode: shown, .. }, Self::Compared { inode }) => {
                inode == Self::low_bits(shown)
            }
            _ => self == other,
        }
    }

    /// Whether mappings of the object that are shared, at one offset, surely show the same page.
    pub(crate) fn is_proved(self) -> bool {
        !matches!(self, Self::Compared { .. })
    }

    /// The same object, of a process in this IPC namespace.
    #[must_use]
    pub fn within(self, ipc_namespace: u64) -> Self {
        match self {
            Self::Segment { device, id, .. } => {
                Self::Segment { device, namespace: ipc_namespace, id }
            }
            other => other,
        }
    }
}

/// One virtual memory area that holds pages of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First address that belongs to the area.
    pub start: u64,
    /// First address after the area.
    pub end: u64,
    /// Offset of `start` in the object, in bytes; the address itself for anonymous memory.
    pub offset: u64,
    /// The object that the pages belong to.
    pub object: Object,
    /// Mapped shared: all processes that map the object in this way see the same pages (mmap(2), MAP_SHARED).
    pub shared: bool,
    /// Kind of memory that backs its pages; by its name until its file system is known.
    pub kind: Kind,
    /// Set if its pages can never move.
    pub fixed: Option<FixedKind>,
    /// hugetlb page size in bytes, if it is known to be hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
    /// The source from which the mappers of its pages are known.
    pub mappers: Mappers,
    /// Path or name; empty for plain anonymous memory.
    pub name: Arc<str>,
    /// The rule of the request or the cell of a guest that decides where it belongs; none until both are asked.
    pub rule: Option<Rule>,
}

/// Names of VMAs, each stored once: the VMAs of many processes have mostly the same few names.
#[derive(Debug, Default)]
pub struct VmaNames(HashSet<Arc<str>>);

impl VmaNames {
    /// The stored copy of this name.
    pub fn once(&mut self, name: Arc<str>) -> Arc<str> {
        match self.0.get(&name) {
            _ if name.is_empty() => name,
            Some(known) => known.clone(),
            None => {
                self.0.insert(name.clone());
                name
            }
        }
    }
}

/// Reads one line. `None` for lines of memory that belongs to the kernel (`[vvar]`, `[vdso]`, ...) and for lines that
/// are not understood.
pub fn parse_line(line: &str) -> Option<Vma> {
    let mut rest = line;
    let mut field = || {
        let (field, tail) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
        rest = tail;
        field
    };
    let (range, perms, offset, device, inode) = (field(), field(), field(), field(), field());
    let name = rest.trim();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (start, end, offset) = (hex(start)?, hex(end)?, hex(offset)?);
    let (major, minor) = device.split_once(':')?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode: u64 = inode.parse().ok()?;
    if start >= end || name.starts_with("[v") || name == "[uprobes]" {
        return None;
    }
    let shared = perms.ends_with('s');
    let (object, offset) = match inode {
        id if is_segment(name, device, shared) => {
            (Object::Segment { device, namespace: 0, id }, offset)
        }
        0 if !shared => (Object::Anonymous, start),
        inode => (Object::File { device, inode }, offset),
    };
    let kind = match name {
        "[heap]" => Kind::Heap,
        _ if name.starts_with("[stack") => Kind::Stack,
        _ if object == Object::Anonymous => Kind::Anonymous,
        _ if is_shmem(name, perms) => Kind::Shmem,
        _ => Kind::File,
    };
    let (rule, fixed) = (None, fixed::by_name(name, device));
    // The default takes no allocation, and most mappings have no name where there are many.
    let name = if name.is_empty() { Arc::default() } else { name.into() };
    let (hugetlb_bytes, mappers) = (None, Mappers::Counted);
    let vma =
        Vma { start, end, offset, object, shared, kind, fixed, hugetlb_bytes, mappers, name, rule };
    Some(vma)
}

/// A System V segment: an unlinked file of a kernel-internal mount, whose device has the major number 0.
fn is_segment(name: &str, device: (u32, u32), shared: bool) -> bool {
    shared && device.0 == 0 && name.starts_with("/SYSV") && name.ends_with(" (deleted)")
}

/// Memory that has an inode, but no file on a disk: System V, memfd, shared anonymous and POSIX shared memory.
fn is_shmem(name: &str, perms: &str) -> bool {
    let deleted_zero = name == "/dev/zero (deleted)" && perms.ends_with('s');
    let prefixes = ["/SYSV", "/memfd:", "/dev/shm/", "/anon_hugepage", "[anon_shmem:"];
    deleted_zero || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds() {
        let vma = parse_line("7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!(
            (vma.kind, vma.object, vma.offset),
            (Kind::Anonymous, Object::Anonymous, 0x7f1c_0000_0000)
        );
        let vma = parse_line("7f00-8f00 r-xp 00026000 fe:01 1234     /usr/lib/a b.so").unwrap();
        assert_eq!((vma.kind, vma.offset, &*vma.name), (Kind::File, 0x26000, "/usr/lib/a b.so"));
        assert_eq!(vma.object, Object::File { device: (0xfe, 1), inode: 1234 });
        for (name, kind) in
            [("[heap]", Kind::Heap), ("[stack]", Kind::Stack), ("[anon:malloc]", Kind::Anonymous)]
        {
            assert_eq!(
                parse_line(&format!("1000-2000 rw-p 00000000 00:00 0 {name}")).unwrap().kind,
                kind
            );
        }
        for name in [
            "/memfd:x (deleted)",
            "/SYSV",
            "/dev/zero (deleted)",
            "/dev/shm/a",
            "/anon_hugepage (deleted)",
        ] {
            let line = format!("1000-2000 rw-s 00000000 00:01 77 {name}");
            let vma = parse_line(&line).unwrap();
            assert_eq!((vma.kind, vma.shared), (Kind::Shmem, true), "{name}");
        }
    }

    #[test]
    fn a_segment_is_known_by_its_namespace_and_id() {
        let line = |id, name| format!("1000-2000 rw-s 00000000 00:01 {id} {name}");
        let object = |line: &str| parse_line(line).unwrap().object;
        let segment = |namespace, id| Object::Segment { device: (0, 1), namespace, id };
        let first = parse_line(&line(0, "/SYSV00000000 (deleted)")).unwrap();
        assert_eq!((first.kind, first.object, first.offset), (Kind::Shmem, segment(0, 0), 0));
        assert_eq!(object(&line(7, "/SYSV00000000 (deleted)")).within(4711), segment(4711, 7));
        // A file on a disk, and a memfd with the inode of a segment.
        let file = |device, inode| Object::File { device, inode };
        let named = "1000-2000 rw-s 00000000 fe:01 7 /SYSV00000000 (deleted)";
        assert_eq!(object(named), file((0xfe, 1), 7));
        assert_eq!(object(&line(7, "/memfd:x (deleted)")).within(4711), file((0, 1), 7));
    }

    #[test]
    fn names_are_kept_once() {
        let mut names = VmaNames::default();
        let [first, again, other] = ["/a", "/a", "/b"].map(|name| names.once(name.into()));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        assert_eq!(&*other, "/b");
    }

    #[test]
    fn kernel_memory_and_nonsense_are_left_out() {
        for line in [
            "1000-2000 r--p 00000000 00:00 0 [vvar]",
            "1000-2000 r-xp 00000000 00:00 0 [vdso]",
            "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
            "",
            "x",
            "2000-1000 rw-p 0 00:00 0",
            "1000-2000 rw-p zz 00:00 0",
            "1000-2000 rw-p 0 0000 0",
            "1000-2000 rw-p 0 00:00 -1",
        ] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }
}

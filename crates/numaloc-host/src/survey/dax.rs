//! Files that are mapped without page cache (DAX): processes see the storage itself.
//!
//! A file system on persistent memory decides it file by file (Documentation/filesystems/dax.rst): with the mount option `dax=always` for all
//! files that can, which encrypted ones cannot; by default, and with `dax=inode`, for files with an attribute; with
//! `dax=never` for none. statx(2) has the answer (STATX_ATTR_DAX). It is asked once for each file, and only on file
//! systems that can have such files.

use crate::{
    Roots,
    files::{
        file_system::{MountLine, device_numbers, open_path},
        maps::{Object, Vma},
    },
    nodes::storage::has_dax,
    survey::space::AddressSpace,
};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use numaloc_sys::is_dax;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// Kinds of file systems whose files have DAX by an attribute.
const BY_ATTRIBUTE: [&str; 2] = ["ext4", "xfs"];

/// RESOLVE_CACHED (include/uapi/linux/openat2.h, Linux 5.12), which nix does not know: fails instead of asking a disk or a server.
const CACHED: u64 = 0x20;

/// The files of a mount that have DAX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    None,
    /// Only files with the attribute FS_XFLAG_DAX.
    Some,
    /// All files that support it.
    All,
}

impl Which {
    /// By the options of a mount (fs/ext4/super.c, `_ext4_show_options`; fs/xfs/xfs_super.c, `xfs_fs_show_options`), which show nothing by
    /// default, and by what its disk is.
    pub(super) fn of(roots: &Roots, mount: &MountLine<'_>) -> Self {
        let disk = || roots.sys.join("dev/block").join(mount.device);
        let has = |options: [&str; 2]| mount.options.split(',').any(|it| options.contains(&it));
        match () {
            () if has(["dax", "dax=always"]) => Self::All,
            () if !BY_ATTRIBUTE.contains(&mount.kind) || has(["dax=never", "nodax"]) => Self::None,
            () if has(["dax=inode"; 2]) || has_dax(&disk()) => Self::Some,
            () => Self::None,
        }
    }
}

/// Answers on files, for as long as one look takes.
#[derive(Debug, Default)]
pub(super) struct DaxFiles(BTreeMap<((u32, u32), u64), Option<bool>>);

impl DaxFiles {
    /// Whether the file of a mapping has DAX; `None` if it cannot be asked. Device and inode have to stand for one file.
    pub(super) fn has_dax(&mut self, space: &AddressSpace, vma: &Vma) -> Option<bool> {
        let Object::File { device, inode } = vma.object else { return None };
        *self.0.entry((device, inode)).or_insert_with(|| Self::ask(space, vma))
    }

    /// The same, wherever the file is. For a file in a layer of an overlay the answer is that of the layer
    /// (fs/overlayfs/inode.c, `ovl_getattr`).
    pub(super) fn ask(space: &AddressSpace, vma: &Vma) -> Option<bool> {
        let Object::File { device, inode } = vma.object else { return None };
        let is_meant = |file: &File| {
            let meant = |stat: fs::Metadata| (device_numbers(stat.dev()), stat.ino());
            file.metadata().is_ok_and(|stat| meant(stat) == (device, inode))
        };
        // The link cannot lead to another file. To follow it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
        let link = space.path(&format!("map_files/{:x}-{:x}", vma.start, vma.end));
        let by_link = open_path(&link).ok();
        let file = by_link.or_else(|| by_name(space, &vma.name).ok().filter(is_meant))?;
        is_dax(&file).ok()
    }
}

/// Opens a path as the process sees it, if the kernel has all of it in memory, as it has the path of a mapped file.
/// So no thread waits for a server that has a directory on the way.
fn by_name(space: &AddressSpace, name: &str) -> io::Result<File> {
    let root = open_path(&space.path("root"))?;
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::from_bits_retain(CACHED);
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
    Ok(File::from(openat2(root, Path::new(name), how)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fake::Fake,
        files::{file_system::mounts, maps::parse_line},
    };
    use std::os::unix::fs::symlink;

    #[test]
    fn mounts_and_their_disks_tell_which_files_can_have_it() {
        let fake = Fake::new();
        fake.write("sys/devices/pmem0/queue/dax", "1\n");
        fake.write("sys/devices/pmem0/pmem0p1/dev", "259:1\n");
        fake.write("sys/devices/sda/queue/dax", "0\n");
        fs::create_dir_all(fake.path("sys/dev/block")).expect("a directory");
        for (number, disk) in [("259:0", "pmem0"), ("259:1", "pmem0/pmem0p1"), ("8:1", "sda")] {
            let link = fake.path(&format!("sys/dev/block/{number}"));
            symlink(fake.path(&format!("sys/devices/{disk}")), link).expect("a link");
        }
        for (kind, device, options, expected) in [
            ("ext4", "259:0", "rw", Which::Some),
            ("xfs", "259:1", "rw,attr2", Which::Some),
            ("ext4", "8:1", "rw", Which::None),
            ("ext4", "8:2", "rw", Which::None),
            ("ext4", "8:1", "rw,dax=inode", Which::Some),
            ("xfs", "259:0", "rw,dax=never", Which::None),
            ("xfs", "259:0", "rw,dax=always", Which::All),
            ("ext2", "259:0", "rw,dax", Which::All),
            ("btrfs", "259:0", "rw", Which::None),
        ] {
            let line = format!("40 22 {device} / /m rw - {kind} /dev/disk {options}\n");
            let mount = mounts(&line).next().expect("a mount");
            assert_eq!(Which::of(&fake.roots(), &mount), expected, "{line}");
        }
    }

    /// No file here has it, so that each that can be asked says no.
    #[test]
    fn a_file_is_asked_through_its_mapping_or_by_its_path() {
        let fake = Fake::new();
        fake.process(100, "db", &["0"]);
        let ask = |line: &str| {
            let vma = parse_line(line).expect("a line");
            DaxFiles::default().has_dax(&fake.space(100), &vma)
        };
        fake.write("proc/100/root/data/a", "");
        let stat = fs::metadata(fake.path("proc/100/root/data/a")).expect("a file");
        let (device, inode) = (device_numbers(stat.dev()), stat.ino());
        let line = |inode: u64, name: &str| {
            format!("1000-2000 rw-s 0 {:x}:{:x} {inode} {name}", device.0, device.1)
        };
        assert_eq!(ask(&line(inode, "/data/a")), Some(false));
        assert_eq!(ask(&line(inode + 1, "/data/a")), None, "it is another file");
        assert_eq!(ask(&line(inode, "/data/b")), None, "there is none");
        fs::create_dir(fake.path("proc/100/map_files")).expect("a directory");
        let link = fake.path("proc/100/map_files/1000-2000");
        symlink(fake.path("proc/100/root/data/a"), link).expect("a link");
        assert_eq!(ask(&line(inode, "/data/b (deleted)")), Some(false));
    }
}

//! The file system that a file is on, and opening files without a trace.

use crate::{
    Roots,
    files::read::{self, field},
};
use nix::{
    fcntl::OFlag,
    sys::{
        stat::{major, minor},
        statfs::{HUGETLBFS_MAGIC, TMPFS_MAGIC, fstatfs},
    },
};
use numaloc_core::number;
use std::{
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Kinds on disks of this machine whose pages the kernel moves without writing them first (`migrate_folio` in their
/// address_space_operations).
pub(crate) const ON_DISK: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];
/// Files in memory: those of a mount, memfds, and segments.
pub(crate) const TMPFS: &str = "tmpfs";
/// Files whose pages are those of a pool.
pub(crate) const HUGETLBFS: &str = "hugetlbfs";

/// A mount of a namespace, as in /proc/PID/mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountLine<'a> {
    pub id: u64,
    /// Major and minor number, as in the file.
    pub device: &'a str,
    /// Where it is mounted. Spaces and the like are octal numbers, as in the file.
    pub point: &'a str,
    /// Type of the file system, for example `ext4`.
    pub kind: &'a str,
    /// What is mounted, for example `/dev/sda1`; written as `point`.
    pub source: &'a str,
    /// Options of the file system, for example `rw,errors=continue`.
    pub options: &'a str,
}

impl MountLine<'_> {
    /// Major and minor number, as numbers.
    pub(crate) fn device(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.device.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

/// File systems whose files a server has, or a program (FUSE): reads and writes of pages wait for it, and so does what moves a page
/// meanwhile. A kind of FUSE has the name of its program, too: `fuse.sshfs`.
const SERVED: [&str; 22] = [
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "orangefs", "panfs", "prl_fs", "quobyte", "smb3", "smbfs", "vboxsf", "virtiofs",
    "wekafs",
];

/// Whether the files of this kind of file system are those of a server or of another program.
pub(crate) fn is_served(kind: &str) -> bool {
    SERVED.contains(&kind) || kind.starts_with("fuse.")
}

/// The directory of a block device in sysfs, whether or not it exists.
pub(crate) fn block_device(roots: &Roots, (major, minor): (u32, u32)) -> PathBuf {
    roots.sys.join(format!("dev/block/{major}:{minor}"))
}

/// Major and minor number of a device, as /proc has them.
pub(crate) fn device_numbers(device: u64) -> (u32, u32) {
    (number::small(major(device)), number::small(minor(device)))
}

/// The mounts in a text of mountinfo.
pub(crate) fn mounts(text: &str) -> impl Iterator<Item = MountLine<'_>> {
    // `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
    text.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut words = file_system.split(' ');
        let kind = words.next()?;
        let (source, options) =
            (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut fields = mount.split(' ');
        let (id, device) = (fields.next()?.parse().ok()?, fields.nth(1)?);
        Some(MountLine { id, device, point: fields.nth(1)?, kind, source, options })
    })
}

/// The file system that a file is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSystemOf {
    /// Such as `ext4`; empty if this process does not see its mount.
    pub kind: String,
    /// Whether this process sees the mount. A memfd has none, and the mount of another namespace may have any path.
    pub is_seen: bool,
    /// What is mounted, such as `/dev/sda1`; empty if this process does not see its mount.
    pub source: String,
    /// The memory policy of new pages of a tmpfs, such as `interleave:0-1` (tmpfs(5), `mpol`).
    pub policy: Option<String>,
}

/// The file system that an open file is on.
pub(crate) fn file_system(roots: &Roots, file: &File) -> FileSystemOf {
    look_up(roots, file).unwrap_or_default()
}

fn look_up(roots: &Roots, file: &File) -> Option<FileSystemOf> {
    let own = roots.proc.join("self");
    let info = read::text(&own.join(format!("fdinfo/{}", file.as_raw_fd()))).ok()?;
    let id: u64 = field(&info, "mnt_id")?.parse().ok()?;
    let text = read::text(&own.join("mountinfo")).ok()?;
    match mounts(&text).find(|mount| mount.id == id) {
        Some(mount) => {
            let (kind, source) = (mount.kind.to_owned(), mount.source.to_owned());
            Some(FileSystemOf { kind, is_seen: true, source, policy: policy(mount.options) })
        }
        // A memfd is on a mount that no namespace has. A file of a mount that was seen is not asked for: that would wait for a server.
        None => {
            let kind = match fstatfs(file).ok()?.filesystem_type() {
                TMPFS_MAGIC => TMPFS,
                HUGETLBFS_MAGIC => HUGETLBFS,
                _ => return None,
            };
            Some(FileSystemOf { kind: kind.to_owned(), ..FileSystemOf::default() })
        }
    }
}

/// The policy among the options of a tmpfs (mm/shmem.c, `shmem_show_mpol`). Its list of nodes may have commas, which separate options, too.
fn policy(options: &str) -> Option<String> {
    let mut words = options.split(',').skip_while(|word| !word.starts_with("mpol="));
    let first = words.next()?.strip_prefix("mpol=")?;
    let more = words.take_while(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    Some([first].into_iter().chain(more).collect::<Vec<_>>().join(","))
}

/// The mounts of a namespace by their points, as far as it takes to find files of those among them that are meant.
#[derive(Debug)]
pub(crate) struct MeantMounts(Vec<(String, bool)>);

impl MeantMounts {
    /// The mounts of a text of mountinfo that `is_meant` accepts. Most hosts have none: then nothing is kept.
    pub(crate) fn of(text: &str, mut is_meant: impl FnMut(&MountLine<'_>) -> bool) -> Self {
        let all: Vec<(String, bool)> =
            mounts(text).map(|mount| (mount.point.to_owned(), is_meant(&mount))).collect();
        Self(if all.iter().any(|(_, is_meant)| *is_meant) { all } else { Vec::new() })
    }

    /// Whether one of the directories that an overlay with these options is made of is on such a mount, as far as they are absolute paths.
    pub(crate) fn are_below(&self, options: &str) -> bool {
        let layers = options.split(',').filter_map(|option| {
            let (key, value) = option.split_once('=')?;
            (key.starts_with("lowerdir") || key == "upperdir").then_some(value)
        });
        !self.0.is_empty() && layers.flat_map(|layers| layers.split(':')).any(|it| self.holds(it))
    }

    fn holds(&self, layer: &str) -> bool {
        let is_above = |point: &str| {
            let rest = layer.strip_prefix(point.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // The last of several mounts at one point covers the others.
        let above = self.0.iter().filter(|(point, _)| is_above(point));
        above.max_by_key(|(point, _)| point.len()).is_some_and(|(_, is_meant)| *is_meant)
    }
}

/// Opens a path without the right to read the file, without waiting for it, and without any effect (O_PATH).
///
/// # Errors
/// The errors of open(2).
pub(crate) fn open_path(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlag::O_PATH.bits()).open(path)
}

/// Opens a file for reading that was opened by [`open_path`]: it cannot be another one. Changes nothing of it, not even its time of
/// access (O_NOATIME).
///
/// # Errors
/// The errors of open(2): EPERM if this process is neither its owner nor may act as its owner (CAP_FOWNER), EAGAIN if
/// another process has a lease on it (fcntl(2), F_SETLEASE).
pub(crate) fn open_unnoticed(roots: &Roots, by_path: &File) -> io::Result<File> {
    let flags = OFlag::O_NOATIME | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let path = roots.proc.join(format!("self/fd/{}", by_path.as_raw_fd()));
    File::options().read(true).custom_flags(flags.bits()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_that_of_the_mount() {
        let kind = |file: &File| file_system(&Roots::default(), file).kind;
        assert_eq!(kind(&File::open("/proc/version").expect("it is there")), "proc");
        assert_eq!(kind(&tempfile::tempfile_in("/dev/shm").expect("tmpfs")), TMPFS);
    }

    #[test]
    fn the_policy_of_a_mount_is_found_among_its_options() {
        assert_eq!(
            policy("rw,size=64k,mpol=interleave:0-1,3,inode64").unwrap(),
            "interleave:0-1,3"
        );
        assert_eq!(policy("rw,mpol=prefer=static:1").unwrap(), "prefer=static:1");
        assert_eq!(policy("rw,mpol=local").unwrap(), "local");
        assert_eq!(policy("rw,size=64k"), None);
    }

    #[test]
    fn mounts_are_read() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\nnone\n";
        let found: Vec<_> = mounts(text).collect();
        let [mount] = found[..] else { panic!("{found:?}") };
        assert_eq!((mount.id, mount.device(), mount.point), (36, Some((98, 0)), "/mnt2"));
        assert_eq!((mount.kind, mount.options), ("ext3", "rw,errors=continue"));
    }

    #[test]
    fn an_overlay_is_served_as_its_layers_are() {
        let text = "\
            25 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            40 25 0:50 / /srv/layers rw - fuse.stargz stargz rw\n\
            41 25 0:51 / /net rw - nfs4 host:/ rw\n\
            42 41 8:2 / /net/disk rw - ext4 /dev/sdb rw\n";
        let served = MeantMounts::of(text, |mount| is_served(mount.kind));
        let over = |options: &str| served.are_below(options);
        assert!(over("rw,lowerdir=/var/a:/srv/layers/7/fs,upperdir=/var/u,workdir=/var/w"));
        assert!(over("rw,lowerdir+=/net/a") && over("rw,lowerdir=/a,upperdir=/net"));
        assert!(!over("rw,lowerdir=/var/a:/srv/layers2:/net/disk/b,upperdir=/var/u"));
        assert!(!over("rw,lowerdir=/var/a,workdir=/net/w") && !over(""));
        for kind in ["nfs4", "fuse", "fuse.sshfs", "cifs", "9p"] {
            assert!(is_served(kind), "{kind}");
        }
        assert!(!is_served("ext4") && !is_served("fusectl") && !is_served("nfsd"));
    }
}

//! Which file system a file is on, and how it is opened without a trace.

use crate::{
    Roots,
    files::read::{self, field},
};
use nix::{
    fcntl::OFlag,
    sys::statfs::{TMPFS_MAGIC, fstatfs},
};
use std::{
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::fs::OpenOptionsExt as _},
    path::Path,
};

/// Kinds on disks of this machine whose pages the kernel moves without writing them first (`migrate_folio` in their
/// address_space_operations).
pub(crate) const ON_DISK: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];
/// Files in memory: those of a mount, memfds, and segments.
pub(crate) const TMPFS: &str = "tmpfs";

/// A mount of a namespace, as in /proc/PID/mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MountLine<'a> {
    pub id: u64,
    /// Major and minor number, as in the file.
    pub device: &'a str,
    /// Such as `ext4`.
    pub kind: &'a str,
}

/// The mounts in a text of mountinfo.
pub(crate) fn mounts(text: &str) -> impl Iterator<Item = MountLine<'_>> {
    // `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
    text.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let kind = file_system.split(' ').next()?;
        let mut fields = mount.split(' ');
        Some(MountLine { id: fields.next()?.parse().ok()?, device: fields.nth(1)?, kind })
    })
}

/// The kind of file system that an open file is on; `None` if this process does not see its mount.
pub(crate) fn kind(roots: &Roots, file: &File) -> Option<String> {
    // A memfd is on a mount that no namespace has.
    if fstatfs(file).is_ok_and(|statfs| statfs.filesystem_type() == TMPFS_MAGIC) {
        return Some(TMPFS.to_owned());
    }
    let own = roots.proc.join("self");
    let info = read::text(&own.join(format!("fdinfo/{}", file.as_raw_fd()))).ok()?;
    let id: u64 = field(&info, "mnt_id")?.parse().ok()?;
    let text = read::text(&own.join("mountinfo")).ok()?;
    mounts(&text).find(|mount| mount.id == id).map(|mount| mount.kind.to_owned())
}

/// Opens a path without the right to read the file, without waiting for it, and without any effect (O_PATH).
///
/// # Errors
/// Those of open(2).
pub(crate) fn open_path(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlag::O_PATH.bits()).open(path)
}

/// Opens a file for reading that was opened by [`open_path`]: it cannot be another one. Changes nothing of it, not even its time of
/// access (O_NOATIME).
///
/// # Errors
/// Those of open(2): EPERM if this process is neither its owner nor may act as its owner (CAP_FOWNER), EAGAIN if another process has
/// a lease on it (fcntl(2), F_SETLEASE).
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
        let kind = |path: &str| kind(&Roots::default(), &File::open(path).expect(path));
        assert_eq!(kind("/proc/version").as_deref(), Some("proc"));
        let file = tempfile::tempfile_in("/dev/shm").expect("tmpfs");
        assert_eq!(super::kind(&Roots::default(), &file).as_deref(), Some(TMPFS));
    }

    #[test]
    fn mounts_are_read() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\nnone\n";
        let found: Vec<_> = mounts(text).collect();
        assert_eq!(found, [MountLine { id: 36, device: "98:0", kind: "ext3" }]);
    }
}

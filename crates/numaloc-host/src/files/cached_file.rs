//! Files whose page cache is looked at: which of their pages are in memory, and on which nodes.
//!
//! A piece of a file is mapped without reading it: pages that mincore(2) reports get an address, and move_pages(2) tells their nodes. Nothing
//! is read from the disk, no time of access changes, and from Linux 6.3 on no page counts as used because it was looked at
//! ([`FilePages`](numaloc_sys::FilePages)).

use crate::{
    Error, Roots,
    files::{
        cache_search::CacheSearch,
        cached_piece::{CachedPiece, HugeFile},
        file_system::{
            FileSystemOf, HUGETLBFS, ON_DISK, TMPFS, file_system, is_served, open_path,
            open_unnoticed,
        },
    },
};
use nix::errno::Errno;
use numaloc_core::{
    file_cache::{FileCache, piece_bytes},
    page_size,
};
use numaloc_sys::{Userfault, is_dax};
use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

/// The part of a file that can be mapped in whole pages: the last page of one that is as long as a file can be is beyond it
/// (mm/mmap.c, `file_mmap_ok`).
fn mappable() -> u64 {
    i64::MAX as u64 / page_size() * page_size()
}

/// Kinds of file systems on which a file is refused for a reason of its own.
const REFUSED: [(&str, &str); 2] = [
    (
        "overlay",
        "its cache belongs to a file in a layer below: name that file (lowerdir and upperdir in /proc/self/mountinfo)",
    ),
    (HUGETLBFS, "its pages are memory and no cache: name a process that maps it"),
];

/// Why files on this kind of file system are refused; empty: of an unknown mount.
fn elsewhere(kind: &str) -> String {
    let why = match REFUSED.iter().find(|(name, _)| kind == *name) {
        Some((_, why)) => why,
        None if is_served(kind) => "its pages may wait for a server or another program",
        None => "its pages are not known to move",
    };
    let kind = if kind.is_empty() { "an unknown mount" } else { kind };
    format!("it is on {kind}, and {why}; files on {} and {TMPFS} can be moved", ON_DISK.join(", "))
}

/// A file whose page cache can be looked at and moved.
#[derive(Debug)]
pub struct CachedFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    allocated_bytes: u64,
    id: FileId,
    owner: FileOwner,
    /// Whether it is on tmpfs.
    is_memory: bool,
    policy: Option<String>,
    /// Set if it is on hugetlbfs.
    huge: Option<HugeFile>,
}

/// Owner of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOwner {
    /// The user that owns it.
    pub uid: u32,
    /// Its path without symbolic links, as the kernel has it (/proc/self/fd). Empty on a mount that this process does not see: in a
    /// mount namespace of its own any user can give any path to it.
    pub path: PathBuf,
}

/// Why a file with DAX is refused.
pub(crate) const IS_STORAGE: &str = "its memory is the storage itself (DAX)";

/// A file, whatever its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl CachedFile {
    /// Opens a file. Changes nothing of it, not even its time of access (open(2), O_NOATIME).
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::FileRefused`] if its cache cannot be moved: it is not a regular file, has no page
    /// cache (DAX), is on a file system whose pages do not move, or has a lease; [`Error::FileRights`] if this
    /// process is neither its owner nor may act as its owner (CAP_FOWNER); [`Error::Read`].
    pub fn open(roots: &Roots, path: &Path) -> Result<Self, Error> {
        Self::open_on(roots, path, |kind| kind == TMPFS || ON_DISK.contains(&kind))
    }

    /// Opens a file whose pages are memory and no cache: one on tmpfs or hugetlbfs, with pages of at most [`piece_bytes`].
    ///
    /// # Errors
    /// As [`Self::open`]; [`Error::Read`] with EPERM or ENOSYS where userfaultfd(2) cannot be had, which a hugetlbfs takes.
    pub fn open_memory(roots: &Roots, path: &Path) -> Result<Self, Error> {
        Self::open_on(roots, path, |kind| [TMPFS, HUGETLBFS].contains(&kind))
    }

    fn open_on(
        roots: &Roots,
        path: &Path,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let refused =
            |reason: &str| Error::FileRefused { path: path.into(), reason: reason.into() };
        let failed = |source: io::Error| match source.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENOTDIR) => Error::NoFile { path: path.into() },
            Some(Errno::EPERM) => Error::FileRights { path: path.into() },
            // O_NONBLOCK: another process has a lease on it (fcntl(2), F_SETLEASE).
            Some(Errno::EAGAIN) => refused("a process has a lease on it"),
            _ => Error::Read { path: path.into(), source },
        };
        let by_path = open_path(path).map_err(failed)?;
        let FileSystemOf { kind, is_seen, policy, .. } = file_system(roots, &by_path);
        // Before anything is asked of the file: its server may not answer.
        if is_served(&kind) {
            return Err(refused(&elsewhere(&kind)));
        }
        let metadata = by_path.metadata().map_err(failed)?;
        let owner = owner(roots, &by_path, &metadata, is_seen).map_err(failed)?;
        if !metadata.is_file() {
            return Err(refused("it is not a regular file"));
        }
        if !is_wanted(&kind) {
            return Err(refused(&elsewhere(&kind)));
        }
        let file = open_unnoticed(roots, &by_path).map_err(failed)?;
        if is_dax(&file).map_err(failed)? {
            return Err(refused(IS_STORAGE));
        }
        let id = FileId { device: metadata.dev(), inode: metadata.ino() };
        let (bytes, is_memory) = (metadata.len(), kind == TMPFS);
        let allocated_bytes = metadata.blocks() * 512;
        let huge = match kind == HUGETLBFS {
            // The size of a block is that of a page (fs/hugetlbfs/inode.c, `hugetlbfs_fill_super`).
            true if metadata.blksize() > piece_bytes() => {
                return Err(refused("its pages are larger than 2 MiB"));
            }
            true => {
                let holes = Userfault::failing()
                    .map_err(|source| Error::Read { path: path.into(), source })?;
                Some(HugeFile { page_bytes: metadata.blksize(), holes })
            }
            false => None,
        };
        let path = path.into();
        Ok(Self { path, file, bytes, allocated_bytes, id, owner, is_memory, policy, huge })
    }

    /// The size of its pages in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.huge.as_ref().map_or(page_size(), |huge| huge.page_bytes)
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode of the file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Owner at the time when it was opened.
    pub fn owner(&self) -> &FileOwner {
        &self.owner
    }

    /// The memory policy of the tmpfs that it is on, such as `interleave:0-1`, by which its new pages get their nodes.
    pub fn mount_policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// Its length in bytes when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that were allocated for it when it was opened. For a file in memory these are its bytes that are
    /// resident or in swap (mm/shmem.c, `shmem_recalc_inode`).
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    /// Its cached bytes by node. Shows each piece that may have cached pages to `see` while its pages have addresses.
    /// Ends early if `stop` returns true between two pieces. Its time follows the cached pages ([`CacheSearch`]).
    ///
    /// # Errors
    /// [`Error::Read`]: it cannot be mapped. [`Error::Stopped`].
    pub fn look(
        &self,
        stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(&CachedPiece),
    ) -> Result<FileCache, Error> {
        let mut cache = FileCache::default();
        for number in self.numbers() {
            if stop() {
                return Err(Error::Stopped);
            }
            let piece = self.piece(number);
            let piece = piece.map_err(|source| Error::Read { path: self.path.clone(), source })?;
            see(&piece);
            cache.add(number, &piece.nodes());
        }
        Ok(cache)
    }

    /// The numbers of the pieces that may have cached pages ([`CacheSearch`]).
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        let (mut search, mut from) = (CacheSearch::new(self.is_memory), 0);
        std::iter::from_fn(move || {
            if self.huge.is_some() {
                from += piece_bytes();
                return (from - piece_bytes() < self.bytes).then_some(from / piece_bytes() - 1);
            }
            let offset = search.next(&self.file, from, self.bytes.min(mappable()))?;
            from = offset + piece_bytes();
            Some(offset / piece_bytes())
        })
    }

    /// Looks at the piece with this number ([`piece_bytes`]).
    ///
    /// # Errors
    /// The errors of [`CachedPiece::look`].
    pub fn piece(&self, number: u64) -> io::Result<CachedPiece> {
        let offset = number.saturating_mul(piece_bytes());
        let bytes = self.bytes.min(mappable()).saturating_sub(offset).min(piece_bytes());
        match &self.huge {
            Some(huge) => CachedPiece::look_huge(&self.file, huge, offset, bytes),
            None if self.is_memory => CachedPiece::look_memory(&self.file, offset, bytes),
            None => CachedPiece::look(&self.file, offset, bytes),
        }
    }
}

/// Owner of a file or directory.
///
/// # Errors
/// [`Error::NoFile`], [`Error::Read`].
pub fn file_owner(roots: &Roots, path: &Path) -> Result<FileOwner, Error> {
    let owner = open_path(path)
        .and_then(|file| owner(roots, &file, &file.metadata()?, file_system(roots, &file).is_seen));
    owner.map_err(|source| unread(path, source))
}

/// `is_seen`: whether this process sees the file's mount.
fn owner(
    roots: &Roots,
    file: &File,
    metadata: &fs::Metadata,
    is_seen: bool,
) -> io::Result<FileOwner> {
    let path = if is_seen {
        fs::read_link(roots.proc.join(format!("self/fd/{}", file.as_raw_fd())))?
    } else {
        PathBuf::new()
    };
    Ok(FileOwner { uid: metadata.uid(), path })
}

pub(super) fn unread(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::NoFile { path: path.into() }
        }
        _ => Error::Read { path: path.into(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::NodeSet;
    use std::collections::BTreeMap;

    fn written(path: &Path, pages: u64) {
        fs::write(path, vec![7; (pages * page_size()) as usize]).expect("a temporary file");
    }

    #[test]
    fn what_was_written_is_cached_on_some_node() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("file");
        written(&path, 3 * piece_bytes() / page_size() / 2);
        let file = CachedFile::open(&Roots::default(), &path).expect("tmpfs");
        assert_eq!((file.path(), file.bytes()), (&*path, 3 * piece_bytes() / 2));
        let cache = file.look(&|| false, &mut |_| {}).expect("it can be mapped");
        assert_eq!(cache.bytes(), 3 * piece_bytes() / 2);
        let last = file.piece(1).expect("it can be mapped");
        assert_eq!(last.nodes().values().sum::<u64>(), piece_bytes() / 2);
        assert_eq!(file.piece(2).expect("beyond its end").nodes(), BTreeMap::new());
        let (&node, _) = last.nodes().first_key_value().expect("it is in memory");
        assert_eq!(last.elsewhere(&last.nodes().into_keys().collect()), BTreeMap::new());
        assert_eq!(last.elsewhere(&NodeSet::new())[&node], last.on(node));
        assert!(matches!(file.look(&|| true, &mut |_| {}), Err(Error::Stopped)));
    }

    #[test]
    fn what_was_allocated_and_never_used_is_there() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("file");
        let (written, bytes) =
            (File::create(&path).expect("a file"), piece_bytes() + 3 * page_size());
        nix::fcntl::posix_fallocate(&written, 0, bytes as i64).expect("tmpfs allocates");
        let file = CachedFile::open(&Roots::default(), &path).expect("tmpfs");
        assert_eq!(file.look(&|| false, &mut |_| {}).expect("it can be mapped").bytes(), bytes);
    }

    /// In a mount namespace of its own, any user can have a file of others under any path.
    #[test]
    fn a_path_in_another_mount_namespace_has_no_owner() {
        let shared = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let granted = tempfile::tempdir().expect("a directory");
        let name = shared.path().join("segment");
        written(&name, 1);
        let bound =
            format!("mount --bind {} {}", shared.path().display(), granted.path().display());
        let mut child = std::process::Command::new("unshare")
            .args(["-rm", "sh", "-c", &format!("{bound} && exec sleep 60")])
            .spawn()
            .expect("util-linux");
        let root = PathBuf::from(format!("/proc/{}/root", child.id()));
        let path = root.join(granted.path().join("segment").strip_prefix("/").expect("absolute"));
        for _ in 0..1000 {
            if path.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let owner = file_owner(&Roots::default(), &path);
        let opened = CachedFile::open(&Roots::default(), &path).map(|file| file.owner().clone());
        child.kill().and_then(|()| child.wait()).expect("a child");
        assert_eq!(owner.expect("it is there").path, PathBuf::new());
        assert_eq!(opened.expect("tmpfs").path, PathBuf::new());
        let own = file_owner(&Roots::default(), &name).expect("it is there");
        assert_eq!(own.path, name);
    }

    #[test]
    fn pages_that_were_cut_off_are_gone() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("file");
        written(&path, 8);
        let piece = CachedFile::open(&Roots::default(), &path).expect("tmpfs").piece(0);
        let piece = piece.expect("it can be mapped");
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(2 * page_size()))
            .unwrap();
        let gone: Vec<_> = piece.addresses().into_iter().map(|page| piece.is_gone(page)).collect();
        assert_eq!(gone[..2], [Some(false); 2]);
        assert_eq!(gone[2..], [Some(true); 6]);
        assert_eq!(piece.is_gone(0), None);
    }

    #[test]
    fn of_the_longest_file_only_what_is_cached_is_looked_at() {
        use std::os::unix::fs::FileExt as _;
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("file");
        let written = File::create(&path).expect("a file");
        written.set_len(i64::MAX as u64).expect("tmpfs has such files");
        let at = [1 << 50, mappable() - page_size()];
        for offset in at {
            written.write_all_at(&vec![7; page_size() as usize], offset).expect("a page");
        }
        let file = CachedFile::open(&Roots::default(), &path).expect("tmpfs");
        let looks = std::cell::Cell::new(0);
        let cache = file.look(&|| looks.get() > 100, &mut |_| looks.set(looks.get() + 1));
        let cache = cache.expect("few looks");
        assert_eq!(cache.bytes(), 2 * page_size());
        let pieces: Vec<_> = cache.pieces().map(|parts| parts[0].piece * piece_bytes()).collect();
        assert_eq!(pieces, at.map(|offset| offset / piece_bytes() * piece_bytes()));
    }

    #[test]
    fn files_without_page_cache_of_their_own_are_refused() {
        let open = |path: &str| CachedFile::open(&Roots::default(), Path::new(path));
        let refused = |path: &str| open(path).expect_err(path).to_string();
        assert!(refused("/none").starts_with("no file /none"), "{}", refused("/none"));
        assert!(refused("/proc").contains("not a regular file"));
        assert!(refused("/dev/null").contains("not a regular file"));
        assert!(
            refused("/proc/version").contains("it is on proc, and its pages are not known to move")
        );
    }
}

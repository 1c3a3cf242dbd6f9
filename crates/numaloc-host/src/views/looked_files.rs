//! A look at the page cache of the files that a path names.

use crate::{
    Error, Roots,
    files::{
        cached_file::{CachedFile, FileId, IS_STORAGE},
        file_system::device_numbers,
        mapped_pages::MappedPages,
        named_files::files_of,
    },
    nodes::{storage::node_of_block, topology},
};
use numaloc_core::{CacheGoal, FileCache, Options, Topology};
use std::{
    collections::BTreeSet,
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Where a request says that the cache of files belongs, with the options as they are on this machine ([`Options::on`]).
///
/// # Errors
/// [`Error::BadNode`], [`Error::OneNode`], [`Error::NoBandwidth`], [`Error::BadGoal`].
pub fn cache_goal(
    roots: &Roots,
    topology: &Topology,
    options: &Options,
) -> Result<(Options, CacheGoal), Error> {
    topology::check_options(roots, topology, options)?;
    topology::check_several(topology)?;
    let options = options.on(topology);
    let options = options.map_err(|unknown| Error::NoBandwidth { nodes: unknown.0.to_string() })?;
    let all = topology.with_memory().minus(&topology.other_tiers());
    let goal = CacheGoal::new(options.to.as_ref(), &options.placement, &all)?;
    Ok((options, goal))
}

/// A file of which something is cached.
#[derive(Debug)]
pub struct LookedFile {
    /// Path by which the file was named.
    pub path: PathBuf,
    /// Device and inode under that path at that time.
    pub id: FileId,
    /// Its length in bytes.
    pub bytes: u64,
    /// The cache of the file, by piece and node.
    pub cache: FileCache,
    /// Bytes of it that processes have mapped; `None` if that was not asked for, or cannot be read.
    pub mapped_bytes: Option<u64>,
    /// The memory policy of the tmpfs that it is on ([`CachedFile::mount_policy`]).
    pub mount_policy: Option<String>,
}

/// The result of looking at the files that a path names.
#[derive(Debug, Default)]
pub struct LookedFiles {
    /// Files with cached pages.
    pub files: Vec<LookedFile>,
    /// Number of files that were looked at.
    pub count: u64,
    /// Files and directories below the path that were left out, and why.
    pub left_out: Vec<(PathBuf, Error)>,
}

/// Looks at the page cache of the files that paths name.
pub struct FileLook<'a> {
    roots: &'a Roots,
    admits: &'a dyn Fn(&CachedFile) -> Result<(), Error>,
    stop: &'a dyn Fn() -> bool,
    mapped: Option<MappedPages>,
    /// The files that have been looked at: a file may have several names.
    seen: BTreeSet<FileId>,
}

impl fmt::Debug for FileLook<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLook").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl<'a> FileLook<'a> {
    /// `admits` refuses files once they are open. A look ends early if `stop` returns true.
    pub fn new(
        roots: &'a Roots,
        admits: &'a dyn Fn(&CachedFile) -> Result<(), Error>,
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        Self { roots, admits, stop, mapped: None, seen: BTreeSet::new() }
    }

    /// Counts mapped pages, too, if this process has the rights. Costs two words read for each page that is cached.
    pub fn counting_mapped(self) -> Self {
        Self { mapped: MappedPages::open(self.roots), ..self }
    }

    /// Looks at a file, or at all files below a directory. Leaves out files that this value has looked at before.
    ///
    /// # Errors
    /// The path cannot be looked at; unreadable parts of a directory are left out. The errors of [`CachedFile::open`]
    /// and `admits`; [`Error::Stopped`].
    pub fn at(&mut self, path: &Path) -> Result<LookedFiles, Error> {
        let named = files_of(path, self.stop)?;
        let unread = named.unread.into_iter().map(|error| (path.to_owned(), error));
        let mut looked = LookedFiles { left_out: unread.collect(), ..LookedFiles::default() };
        for name in named.files {
            match self.file(&name) {
                Ok(None) => {}
                Ok(Some(file)) => {
                    looked.count += 1;
                    looked.files.extend(Some(file).filter(|file| file.cache.bytes() > 0));
                }
                Err(error @ Error::Stopped) => return Err(error),
                Err(error) if name == *path => return Err(error),
                Err(error) => looked.left_out.push((name, error)),
            }
        }
        Ok(looked)
    }

    /// Looks at one file, unless it has been looked at.
    fn file(&mut self, path: &Path) -> Result<Option<LookedFile>, Error> {
        let file = CachedFile::open(self.roots, path);
        let file = file.map_err(|error| with_node(self.roots, error))?;
        (self.admits)(&file)?;
        let (id, bytes) = (file.id(), file.bytes());
        if !self.seen.insert(id) {
            return Ok(None);
        }
        let mut mapped_bytes = self.mapped.as_ref().map(|_| 0);
        let cache = file.look(self.stop, &mut |piece| {
            let of_piece = self.mapped.as_mut().and_then(|mapped| mapped.bytes_of(piece));
            mapped_bytes = mapped_bytes.zip(of_piece).map(|(sum, bytes)| sum + bytes);
        })?;
        let (path, mount_policy) = (path.into(), file.mount_policy().map(str::to_owned));
        Ok(Some(LookedFile { path, id, bytes, cache, mapped_bytes, mount_policy }))
    }
}

/// The error, with the node of the storage if a file is refused because it has no page cache (DAX).
fn with_node(roots: &Roots, error: Error) -> Error {
    let Error::FileRefused { path, reason } = error else { return error };
    let device = |path: &Path| Some(device_numbers(fs::metadata(path).ok()?.dev()));
    let is_storage = reason == IS_STORAGE;
    let node = is_storage.then(|| node_of_block(roots, device(&path)?)).flatten();
    let reason = node
        .map_or(reason, |node| format!("{IS_STORAGE}, attached to node {node}, and cannot move"));
    Error::FileRefused { path, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::page_size;

    fn look(
        path: &Path,
        admits: &dyn Fn(&CachedFile) -> Result<(), Error>,
    ) -> Result<LookedFiles, Error> {
        FileLook::new(&Roots::default(), admits, &|| false).at(path)
    }

    #[test]
    fn a_file_with_several_names_counts_once_and_what_is_not_admitted_is_left_out() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["a", "b"] {
            fs::write(path(name), vec![7; page_size() as usize]).expect("a file");
        }
        fs::hard_link(path("a"), path("c")).expect("a link");
        let refuse = |file: &CachedFile| {
            if file.path().ends_with("b") {
                Err(Error::FileRights { path: file.path().into() })
            } else {
                Ok(())
            }
        };
        let looked = look(directory.path(), &refuse).expect("a directory");
        let files: Vec<_> = looked.files.iter().map(|file| &file.path).collect();
        assert_eq!((files, looked.count), (vec![&path("a")], 1));
        assert_eq!(looked.files[0].cache.bytes(), page_size());
        let [(left_out, Error::FileRights { .. })] = &looked.left_out[..] else {
            panic!("{looked:?}");
        };
        assert_eq!(left_out, &path("b"));
        // Named itself it is refused.
        assert!(matches!(look(&path("b"), &refuse), Err(Error::FileRights { .. })));
    }

    #[test]
    fn a_file_on_storage_is_refused_with_the_node_of_that() {
        let directory = tempfile::tempdir().expect("a directory");
        let fake = crate::fake::Fake::new();
        let path = directory.path().to_owned();
        let refused = |reason: &str| {
            let error = Error::FileRefused { path: path.clone(), reason: reason.into() };
            match with_node(&fake.roots(), error) {
                Error::FileRefused { reason, .. } => reason,
                error => panic!("{error}"),
            }
        };
        assert_eq!(refused(IS_STORAGE), IS_STORAGE, "sysfs does not have it");
        let (major, minor) = device_numbers(fs::metadata(&path).expect("a directory").dev());
        fake.write(&format!("sys/dev/block/{major}:{minor}/numa_node"), "1\n");
        assert!(refused(IS_STORAGE).ends_with("attached to node 1, and cannot move"));
        assert_eq!(refused("it has a lease"), "it has a lease");
    }
}
